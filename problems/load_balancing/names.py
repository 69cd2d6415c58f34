"""Names that commands and models of load balancing share; importing them takes nothing else."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Mode: TypeAlias = Literal["stateless", "stateful"]
"""How the Zipf exponent changes from round to round."""
MODES: tuple[Mode, ...] = get_args(Mode)

METHODS = ("heuristic", "pop-K", "pop-K-ray")
"""What solves no linear program of all shards; -K stands for a number."""
