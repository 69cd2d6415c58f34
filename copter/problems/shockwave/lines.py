"""Cases of the suite: Shockwave's windows, each to an integral plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from copter.bench.case import Case, Inputs, Profile, as_it_is
from copter.problems.shockwave.course import PlanCourse
from copter.problems.shockwave.scheduler import Settings
from copter.problems.shockwave.window import ROUNDS

_SIZES: tuple[tuple[int, int, Sequence[Profile]], ...] = (
    (30, 8, ("quick",)),
    (100, 32, ("full",)),
    (500, 64, ("full",)),
    (2_000, 256, ("full",)),
)
"""Number of jobs and GPUs of each case."""
_ROUNDS = 5
_PLANNING = Settings(rounds=ROUNDS, shim_seconds=1.0)


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases."""
    return [_line(inputs, *size) for size in _SIZES]


def _line(inputs: Inputs, jobs: int, gpus: int, profiles: Sequence[Profile]) -> Case:
    return Case(
        f"shockwave-{jobs}",
        "shockwave",
        f"Shockwave, {jobs:,} jobs on {gpus} GPUs",
        partial(as_it_is, PlanCourse(jobs, gpus, _ROUNDS, inputs.seed, _PLANNING)),
        ("copter", "water-filling", "cvxpy", "highs-milp"),
        rounds=_ROUNDS,
        x={"jobs": jobs, "gpus": gpus, "columns": jobs},
        tolerance=1e-6,
        checker="bound",
        profiles=profiles,
    )
