"""Workloads of the papers: readers of real traces, and generators that need no file.

:func:`by_name` makes a scenario from a family's name, a cluster and a seed.  If the folder of real traces has
the family's trace, jobs are sampled from this trace.  Otherwise they are drawn from the family's published
distribution.

Read `families.py` first: it draws the jobs of a family.  `tuned.py` chooses the models of jobs and the sizes
that their users request.  `elasticflow.py`, `gavel.py`, `helios.py`, `philly.py` and `pollux.py` each read
one real trace.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
