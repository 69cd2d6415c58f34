"""Shard load balancing: replicas of shards on servers, balanced loads, few movements per round.

Read `base.py` (what all balancers have), `balancer.py` (from events to a placement), `program.py` (edits of
the program) and `shim.py` first; `outcome.py` has the result of a round.  `packing.py` packs shards by branch
and bound.  `replicas.py` has the flows of the shim, `bound.py` a lower bound on movements, and `baselines.py`
methods without the program.  `groups.py` balances groups of equal shards, and `groups_shim.py` rounds its
answers.  `workload.py` and `scenario.py` make loads.  `cli.py`, `lines.py`, `course.py` and
`reproductions.py` are commands, benchmarks and figures.
"""

from typing import Literal, TypeAlias, get_args

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Names that commands and modules share.  They are here so that `--help` need not import the modules.

Mode: TypeAlias = Literal["stateless", "stateful"]
"""Changes of the Zipf exponent from round to round."""
MODES: tuple[Mode, ...] = get_args(Mode)

Loads: TypeAlias = Literal["zipf", "lognormal"]
"""Distribution of the loads of generated shards."""
LOADS: tuple[Loads, ...] = get_args(Loads)

METHODS = ("heuristic", "pop-K")
"""Methods without a linear program of all shards; K is a number."""
