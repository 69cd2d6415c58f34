"""Sia as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.sia.interface import SiaError, SiaJob, SiaRound
from copter.problems.sia.policy import SiaPolicy
from copter.program.program import ContinualProgram
from copter.solution import Solution

EVENTS = (
    "submit",
    "complete",
    "update",
    "update_levels",
    "update_profile",
    "update_penalties",
    "report",
    "set_nodes",
)
"""Methods of :class:`SiaPolicy` that are events: an event is a tuple of the name and its arguments.

``("at", seconds)`` is one more: the time of the round.
"""
_ROUND = 60.0
_JOBS = 8
"""Of :func:`example`, about."""


class SiaDomain:
    """The rounds of a policy.

    `policy`: as it is; its own methods remain events, too.
    """

    def __init__(self, policy: SiaPolicy) -> None:
        self.policy = policy
        self.now = policy.now

    @property
    def program(self) -> ContinualProgram:
        """The policy's program."""
        return self.policy.program

    def apply(self, event: tuple[Any, ...]) -> None:
        """Make an event: a name of :data:`EVENTS` and the arguments of that method, or the time."""
        name, *arguments = event
        if name == "at":
            (now,) = arguments
            if not now >= self.policy.now:
                raise SiaError(f"at {now}: time must not go back, and it is {self.policy.now:g}")
            self.now = float(now)
        elif name in EVENTS:
            getattr(self.policy, name)(*arguments)
        else:
            raise SiaError(f"event {name!r}: there are at, {', '.join(EVENTS)}")

    def prepare(self) -> None:
        """Bring the program up to date."""
        self.policy.apply(self.now)

    def round(self, solution: Solution, deadline: float | None) -> SiaRound:  # noqa: ARG002
        """Return the configuration of each job."""
        return self.policy.decide(solution)

    def fallback(self, deadline: float | None) -> SiaRound:  # noqa: ARG002
        """Return what jobs have, as far as it is still there."""
        return self.policy.keep()

    def accept(self, answer: SiaRound) -> None:
        """Give jobs their configurations."""
        self.policy.accept(answer)

    def figures(self, answer: SiaRound) -> dict[str, float]:
        """Return what a report shows."""
        running = sum(configuration is not None for configuration in answer.allocation.values())
        return {"jobs": len(answer.allocation), "running": running, "integral_churn": answer.churn}

    # ---- for `copter check` ----------------------------------------------------------------------

    def violations(self, answer: SiaRound) -> Iterator[str]:
        """Yield GPU types that are overdrawn, counted one by one."""
        used: Counter[str] = Counter()
        for configuration in answer.allocation.values():
            if configuration is not None:
                used[configuration.type] += configuration.gpus
        for type, gpus in used.items():
            if gpus > self.policy.cluster.capacity[type]:
                yield f"{gpus} GPUs of type {type!r} are given, of {self.policy.cluster.capacity[type]}"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Draw jobs that come and go, and nodes that fail and come back."""
        yield "at", self.now + _ROUND
        jobs = list(self.policy.allocation)
        for _ in range(int(rng.integers(0, 3)) if len(jobs) < 2 * _JOBS else 0):
            name = f"job {int(rng.integers(1 << 40))}"
            speeds = {
                type: (int(2 ** rng.integers(3)), float(rng.uniform(50, 400))) for type in ("T4", "A100")
            }
            yield "submit", SiaJob(name, ReplicaProfile(name, 60.0, 1e6, speeds), self.now)
        if len(jobs) > _JOBS // 2 and rng.random() < 0.5:
            yield "complete", jobs[int(rng.integers(len(jobs)))]
        if rng.random() < 0.3:
            yield "set_nodes", str(rng.choice(["T4", "A100"])), int(rng.integers(1, 5))


def example() -> SiaDomain:
    """Return a small cluster: `copter check copter.problems.sia.domain:example`."""
    return SiaDomain(SiaPolicy(Cluster([GpuType("T4", 4, 4), GpuType("A100", 8, 2)])))
