"""Sia: scheduling a heterogeneous GPU cluster round by round (thesis sections 3.3 and 4.4).

A scheduler feeds events to a :class:`SiaPolicy` and asks it for a round; :class:`Replay` does so for a whole
workload.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
