"""Pollux: co-adaptive scheduling for goodput, by a genetic algorithm (Pollux sections 3 and 4).

Read `policy.py` first: :class:`Pollux` looks for the allocation of the greatest fitness (`fitness.py`) by a
genetic algorithm (`genetic.py`).  `cloud.py` sets the size of a cluster by goodput, `artifact.py` reads the
authors' workloads, and `reproductions.py` and its table have the figures of the paper.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
