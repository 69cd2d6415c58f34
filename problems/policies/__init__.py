"""Schedulers that the papers compare with, for rigid and for elastic jobs, as policies of the simulator.

Read `mechanism.py` first: :class:`Mechanism` turns shares of time into rounds of rigid jobs, and a policy of
that kind is a class with the one method `shares`: Gavel's four (`gavel.py`), `themis.py`, `allox.py`, open
shop (`shortest.py`) and Gandiva-Fair (`max_min.py`).  Policies that are asked at events share out GPUs of one
kind, in the frame of :mod:`copter.problems.afs.policies`; the rest (`first_come.py`, `optimus.py`,
`tiresias.py`) answer by themselves, with :class:`~copter.problems.cluster.policy.Policy`'s one method
`schedule`.

A new baseline is a class, and one line in pyproject.toml.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
