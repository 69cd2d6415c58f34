"""An example of waiting tasks as a domain of :class:`copter.Rounds`, by column generation."""

from __future__ import annotations

import numpy as np

from copter.problems.placement.rounds.rounds import PlacementRounds
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import TaskKind


def example() -> PlacementRounds:
    """Return an example with six servers: `copter check copter.problems.placement.rounds.example:example`."""
    count = 6
    servers = Servers(
        tuple(f"server {k}" for k in range(count)),
        np.full(count, 16_000),
        np.full(count, 64_000),
        np.array([0, 0, 2, 2, 4, 4]),
        np.array([0, 0, 1, 1, 2, 2]),
        ("", "T4", "V100"),
    )
    kinds = [
        TaskKind(4_000, 8_000, 0, 0, ()),
        TaskKind(2_000, 4_000, 1, 500, ()),
        TaskKind(8_000, 16_000, 1, MILLI, ("V100",)),
        TaskKind(8_000, 32_000, 2, MILLI, ()),
    ]
    return PlacementRounds(servers, kinds, moves=4)
