"""Shard load balancing: replicas of shards on servers, balanced loads, few movements a round."""

from typing import Literal, TypeAlias, get_args

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Words that commands and models share; they stand here so that `--help` loads no model.

Mode: TypeAlias = Literal["stateless", "stateful"]
"""How the Zipf exponent changes from round to round."""
MODES: tuple[Mode, ...] = get_args(Mode)

METHODS = ("heuristic", "pop-K", "pop-K-ray")
"""What solves no linear program of all shards; -K stands for a number."""
