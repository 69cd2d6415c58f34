"""Cases of the suite: Shockwave's windows, for each of which a solver makes an integral plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from copter.bench.case import Case, Inputs, as_it_is, listed
from copter.problems.shockwave.course import PlanCourse
from copter.problems.shockwave.scheduler import Settings
from copter.problems.shockwave.window import ROUNDS

_ROUNDS = 5
_PLANNING = Settings(rounds=ROUNDS, shim_seconds=1.0)


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases."""
    return listed("shockwave", _case, inputs)


def _case(inputs: Inputs, name: str, *, jobs: int, gpus: int) -> Case:
    return Case(
        name,
        "shockwave",
        f"Shockwave, {jobs:,} jobs on {gpus} GPUs",
        partial(as_it_is, PlanCourse(jobs, gpus, _ROUNDS, inputs.seed, _PLANNING)),
        ("copter", "water-filling", "cvxpy", "highs-milp"),
        rounds=_ROUNDS,
        x={"jobs": jobs, "gpus": gpus, "columns": jobs},
        tolerance=1e-6,
        checker="bound",
    )
