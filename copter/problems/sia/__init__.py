"""Sia: scheduling a heterogeneous GPU cluster round by round (thesis sections 3.3 and 4.4).

A scheduler sends events to a :class:`SiaPolicy` and calls it for each round; :class:`Sia` does so in the
simulator of clusters.

Read `interface.py` (input and result of the policy) and `policy.py` (events, edits and rounds) first;
``SiaPolicy.round`` rounds with :mod:`copter.shims.choose_one`. `jobs.py`, `columns.py` and `requests.py` have
the state of the policy: the jobs as arrays, their configurations with costs, and the requests in the program.
`scheduler.py` has the policy in the simulator of :mod:`copter.problems.cluster`, and `pop.py` the baseline
POP. `runs.py` plays `copter run sia`; `steady.py` plays the policy with a constant number of jobs.
`generator.py` and `files.py` make or read workloads. `cli.py`, `lines.py` and `course.py` define commands and
benchmarks. `reproductions.py` and its table have figures of the thesis.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
