"""Baseline schedulers of the papers, for rigid and for elastic jobs, as policies of the simulator.

Read `mechanism.py` first: :class:`Mechanism` turns shares of time into rounds of rigid jobs.  A policy of
this kind is a class with the single method `shares`: Gavel's four (`gavel.py`), `themis.py`, `allox.py`, open
shop (`shortest.py`) and Gandiva-Fair (`max_min.py`).  Policies that are asked at events share GPUs of one
type, with the base class of :mod:`copter.problems.afs.policies`.  All other policies (`first_come.py`,
`optimus.py`, `tiresias.py`, `backfill.py`, `queue.py`) have the single method `schedule` of
:class:`~copter.problems.cluster.policy.Policy`.

A new baseline needs a class, and one line in pyproject.toml.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
