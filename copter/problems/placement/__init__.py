"""Placement of tasks on single servers with CPU, memory, and shares of GPUs or whole GPUs.

`online/` places each task when it arrives: `policy.py` is the interface of policies, `reserving.py` copter's
policy with its program in `plan.py`, and `scored.py` FGD and its baselines.  `inflation.py` is the authors'
protocol, and `play.py` plays it.  `rounds/` places tasks that wait together: read `rounds.py` and
`relaxation.py` first.

Both folders use `servers.py` and `tasks.py` (the input), `occupancy.py` (free capacity) and `place.py`.
`fragments.py` measures free capacity for FGD.  `experiment.py` plays a policy; `cli.py` and `report.py`
define the command, and `reproductions.py` has figures of the paper.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
