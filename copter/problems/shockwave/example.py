"""Example of Shockwave's market as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

from copter.problems.shockwave.scheduler import Planner, Settings, make_relaxation


def example() -> Planner:
    """Return an example with a small market: `copter check copter.problems.shockwave.example:example`."""
    return Planner(Settings(rounds=12, shim_seconds=0.2), make_relaxation("copter"))
