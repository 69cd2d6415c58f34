"""Schedulers of rigid jobs that the papers compare with, as policies of the cluster simulator.

Most give shares of time on types of GPUs, which :class:`Mechanism` turns into rounds: Gavel's four, Themis,
AlloX, open shop and Gandiva-Fair.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
