"""Workloads of the papers: readers of real traces, and generators of each family that need no file.

:func:`by_name` makes a scenario from a family's name, a cluster and a seed.  Where the folder of real traces
is given and the family has one, the jobs are sampled from the trace; otherwise they are drawn with its
published shape.

Read `families.py` first: how a family draws its jobs.  `tuned.py` says which models stand for them and what
their users ask for; the other files read one real trace each.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
