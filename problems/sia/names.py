"""Names that commands and the Sia policy share; importing them takes nothing else."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Costs: TypeAlias = Literal["own", "shared"]
"""Whether each job's request has costs of its own, or jobs of one application and level share theirs."""
COSTS: tuple[Costs, ...] = get_args(Costs)
