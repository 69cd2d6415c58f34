"""Sia: scheduling a heterogeneous GPU cluster round by round (thesis sections 3.3 and 4.4).

A scheduler feeds events to a :class:`SiaPolicy` and asks it for a round; :class:`Replay` does so for a whole
workload.
"""

from typing import Literal, TypeAlias, get_args

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Words that commands and models share; they stand here so that `--help` loads no model.

Costs: TypeAlias = Literal["own", "shared"]
"""Whether each job's request has costs of its own, or jobs of one application and level share theirs."""
COSTS: tuple[Costs, ...] = get_args(Costs)
