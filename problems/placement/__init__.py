"""Tasks on single servers: CPU, memory, shares of GPUs or whole ones, placed as they come.

Read `reserving.py` (copter's own policy) and `plan.py` (the program behind it) first.  `servers.py` and
`tasks.py` are what there is and what is asked for, `occupancy.py` what is free, `policy.py` what a policy is,
`scored.py` FGD and its rivals.  `rounds.py` places tasks that wait together
(`relaxation.py`, `mixes.py`), `groups.py` is what tasks keep to beside each other, `regions.py` has rounds on
Ray actors.  `inflation.py` is the authors' protocol, `online.py` plays it; `cli.py` and
`report.py` are the command.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
