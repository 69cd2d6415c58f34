"""Makers of the policies that run shares of time under Gavel's mechanism, by the names of the registry.

Each takes the settings of its shares, and ``round_seconds`` and ``reset_seconds`` of the mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from copter.problems.rivals.allox import AlloX
from copter.problems.rivals.gandiva_fair import GandivaFair
from copter.problems.rivals.gavel import MaxMinFairness
from copter.problems.rivals.gavel_ftf import FinishTimeFairness
from copter.problems.rivals.gavel_makespan import Makespan
from copter.problems.rivals.gavel_max_sum import MaxSumThroughput
from copter.problems.rivals.mechanism import RESET_SECONDS, Mechanism, Shares
from copter.problems.rivals.ossp import OpenShop
from copter.problems.rivals.rigid import ROUND_SECONDS
from copter.problems.rivals.themis import Themis


def make(
    source: Callable[..., Shares],
    *,
    round_seconds: float = ROUND_SECONDS,
    reset_seconds: float = RESET_SECONDS,
    **settings: Any,
) -> Mechanism:
    """A fresh policy that runs the shares of a source.

    Parameters
    ----------
    source : callable
        Class of the shares.
    **settings
        Of the shares.
    """
    return Mechanism(source(**settings), round_seconds=round_seconds, reset_seconds=reset_seconds)


allox = partial(make, AlloX)
gandiva_fair = partial(make, GandivaFair)
gavel = partial(make, MaxMinFairness)
gavel_ftf = partial(make, FinishTimeFairness)
gavel_makespan = partial(make, Makespan)
gavel_max_sum = partial(make, MaxSumThroughput)
ossp = partial(make, OpenShop)
themis = partial(make, Themis)
