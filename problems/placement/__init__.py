"""Tasks on single servers: CPU, memory, shares of GPUs or whole ones.

`online/` places each task as it comes: `policy.py` is what a policy is, `reserving.py` copter's own, with the
program behind it (`plan.py`), `scored.py` FGD and its baselines; `inflation.py` is the authors' protocol, and
`play.py` plays it.  `rounds/` places tasks that wait together: read `rounds.py` and `relaxation.py` first.

Both share `servers.py` and `tasks.py` (what there is, what is asked for), `occupancy.py` and `fragments.py`
(what is free), and `place.py`.  `regions.py` has rounds on Ray actors.  `experiment.py` plays either,
`cli.py` and `report.py` are the command.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
