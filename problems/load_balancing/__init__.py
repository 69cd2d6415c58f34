"""Shard load balancing: replicas of shards on servers, balanced loads, few movements a round.

Read `balancer.py` (events to edits to a placement) and `spread.py` (the shim) first; `outcome.py` says what a
round comes to.  `replicas.py` has the flows on which the shim rests, `bound.py` a lower bound on movements,
`baselines.py` what does without the program; `workload.py` and `scenario.py` make loads.  `cli.py`,
`report.py`, `course.py` and `reproductions.py` are commands, benchmarks and figures.
"""

from typing import Literal, TypeAlias, get_args

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Words that commands and models share; they stand here so that `--help` loads no model.

Mode: TypeAlias = Literal["stateless", "stateful"]
"""How the Zipf exponent changes from round to round."""
MODES: tuple[Mode, ...] = get_args(Mode)

METHODS = ("heuristic", "pop-K", "pop-K-ray")
"""What solves no linear program of all shards; -K stands for a number."""
