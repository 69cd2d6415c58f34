"""Sia: scheduling a heterogeneous GPU cluster round by round (thesis sections 3.3 and 4.4).

A scheduler feeds events to a :class:`SiaPolicy` and asks it for a round; :class:`Replay` does so for a whole
workload.

Read `interface.py` (what the policy is handed and gives back) and `policy.py` (events to edits to a round)
first; `jobs.py`, `columns.py` and `requests.py` are what it keeps: the jobs as arrays, what they may choose
and at which cost, and what the program was told.  `scheduler.py` is the policy in the simulator of
:mod:`copter.problems.cluster`, `pop.py` its baseline POP, `replay.py` and `steady.py` play it, `generator.py`
and `files.py` make or read workloads.  `cli.py`, `report.py` and `course.py` are commands and benchmarks;
`reproductions.py`, `solve_times.py` and the table beside them are figures of the thesis; `durability.py`
measures saving and journals.
"""

from typing import Literal, TypeAlias, get_args

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Words that commands and models share; they stand here so that `--help` loads no model.

Costs: TypeAlias = Literal["own", "shared"]
"""Whether each job's request has costs of its own, or jobs of one application and level share theirs."""
COSTS: tuple[Costs, ...] = get_args(Costs)
