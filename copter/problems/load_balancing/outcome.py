"""Result of a round of load balancing, and the error of events."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.errors import CopterError
from copter.problems.load_balancing.replicas import ZERO_TOLERANCE
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacement
from copter.rounds.record import Move
from copter.solution import Solution

_CLOSED = 1e-9
"""Gap at which a placement counts as one of least cost."""


class LoadBalancingError(CopterError, ValueError):
    """An invalid event or placement; the message names the shard or the server."""


@dataclass(frozen=True)
class BalancingRound:
    """Result of a round.

    Attributes
    ----------
    placement : ShardPlacement
        Placement with indices of :attr:`LoadBalancer.shards`, or :attr:`GroupBalancer.groups`, and of the
        servers. The share of a group on a server is the share of the group's shards that are there.
    movements : int
        Number of replicas that did not exist before the round.
    cost : float
        Sum of the sizes of these replicas.
    imbalance : float
        Largest load of a server over the smallest, minus 1.
    balanced : bool
        Whether the imbalance is at most twice the tolerance.
    in_band : bool
        Whether every server's load is within :attr:`ShardFleet.band`. This implies ``balanced``, but not
        conversely.
    memory : float
        Largest used share of a server's memory.
    bound : float
        Certified lower bound on the cost of any placement within the band; NaN without a program.  A
        placement that is only balanced may cost less.
    gap : float
        (cost - bound) over the cost, or over the mean size of a shard if that is larger, because costs may be
        near 0.
    solution : Solution or None
        Solution of the linear program, if one was solved.
    moves : tuple of Move
        New replicas: the shard, the server, and the shard's size as the amount. The source is None, because
        other replicas of the shard may stay. For a group, the amount is the size of all its shards that come
        to a server (the source is None) or leave a server (the target is None).
    binding : mapping of server to float
        Servers whose band is binding in the fractional answer, with their prices; empty for groups.
    prices : (row slots,) ndarray
        Prices of the solution; empty for groups.
    """

    number: int
    placement: ShardPlacement
    movements: int
    cost: float
    imbalance: float
    balanced: bool
    in_band: bool
    memory: float
    replicas: int
    bound: float = math.nan
    gap: float = math.nan
    solution: Solution | None = None
    moves: tuple[Move, ...] = ()
    binding: Mapping[Hashable, float] = field(default_factory=dict)
    prices: Floats = field(default_factory=lambda: np.empty(0), repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"solution": None}  # it contains the state of the program at that time

    @property
    def objective(self) -> float:
        """Cost of the answer, under the name that all answers have."""
        return self.cost

    @property
    def figures(self) -> dict[str, float]:
        """Figures for reports."""
        names = ("movements", "imbalance", "balanced", "in_band", "memory", "replicas", "proven")
        return {name: getattr(self, name) for name in names}

    @property
    def proven(self) -> bool:
        """True if the placement is within the band and its gap is 0, so that its cost is least."""
        return self.in_band and self.gap <= _CLOSED


def imbalance(fleet: ShardFleet, placement: ShardPlacement) -> float:
    """Return the largest load of a server over the smallest, minus 1.

    The result is infinite if a server has no load, and 0 without any load.
    """
    on = _load_on(fleet, placement)
    if not fleet.loads.any():
        return 0.0
    return float(on.max() / on.min() - 1.0) if on.min() > 0 else math.inf


def in_band(fleet: ShardFleet, placement: ShardPlacement) -> bool:
    """Return whether the load of every server is within the band, up to the zero tolerance.

    The result is True without any load.
    """
    on, (lower, upper) = _load_on(fleet, placement) / (fleet.mean or 1.0), fleet.band
    off = np.maximum(on - upper, lower - on).clip(0.0).sum()
    return not fleet.loads.any() or bool(off <= ZERO_TOLERANCE * max(1, on.size))


def _load_on(fleet: ShardFleet, placement: ShardPlacement) -> Floats:
    """Return the loads of the servers."""
    loads = placement.share * fleet.loads[placement.shard]
    return np.bincount(placement.server, loads, fleet.memory.size).astype(np.float64, copy=False)


def amount(what: str, value: float) -> float:
    """Return a load, size or memory as a finite, nonnegative number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise LoadBalancingError(f"{what} = {value!r}: must be a number") from None
    if not 0.0 <= number < math.inf:
        raise LoadBalancingError(f"{what} = {value!r}: must be finite and not negative")
    return number
