"""Pollux: co-adaptive scheduling for goodput, by a genetic algorithm (Pollux sections 3 and 4).

Read `policy.py` first: :class:`Pollux` searches for the allocation of greatest fitness (`fitness.py`) by a
genetic algorithm (`genetic.py`).  The table next to `reproductions.py` has the claims of the paper.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
