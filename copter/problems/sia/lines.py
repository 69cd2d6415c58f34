"""Cases of the suite: Sia's rounds from 64 to 25,600 GPUs, and rounds with proven allocations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from copter.bench.case import Case, Inputs, Profile
from copter.bench.solvers import EVERY_LP
from copter.problems.sia.course import Size, record_sia

_QUICK: tuple[Profile, ...] = ("quick",)
_FULL: tuple[Profile, ...] = ("full",)
_SIZES = (
    (64, 30, 21, 740),
    (256, 60, 21, 3_100),
    (1_024, 200, 9, 32_000),
    (2_560, 400, 7, 149_000),
    (5_120, 500, 5, 368_000),
    (10_240, 1_000, 5, 1_440_000),
    (25_600, 3_100, 4, 11_000_000),
)
"""GPUs, jobs, rounds and approximate number of columns of each case."""
_TINY = Size(64, 30, 2)
"""Size of the warm-up of the quick cases."""
_PROVEN = ((1_024, 200, 32_000), (2_560, 400, 149_000), (5_120, 500, 368_000), (10_240, 1_000, 1_440_000))


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases."""
    return [
        *(_recorded(inputs, *size, _FULL) for size in _SIZES),
        _recorded(inputs, 64, 30, 6, 740, _QUICK),
        *(_proven(inputs, *size, _FULL) for size in _PROVEN),
        _proven(inputs, 128, 40, 1_500, _QUICK),
    ]


def _recorded(
    inputs: Inputs, gpus: int, jobs: int, rounds: int, columns: int, profiles: Sequence[Profile]
) -> Case:
    small = profiles == _QUICK
    return Case(
        "sia-quick" if small else f"sia-{gpus}",
        "sia",
        f"Sia, {gpus:,} GPUs, {jobs:,} jobs",
        partial(
            record_sia,
            gpus=gpus,
            jobs=jobs,
            rounds=rounds,
            seed=inputs.seed,
            warm_up=_TINY if small else None,
        ),
        EVERY_LP,
        rounds=rounds,
        x={"gpus": gpus, "jobs": jobs, "columns": columns},
        profiles=profiles,
    )


def _proven(inputs: Inputs, gpus: int, jobs: int, columns: int, profiles: Sequence[Profile]) -> Case:
    rounds = 4
    return Case(
        f"exact-{gpus}",
        "exact",
        f"Sia, {gpus:,} GPUs, {jobs:,} jobs, allocations proven optimal",
        partial(
            record_sia,
            proven=True,
            gpus=gpus,
            jobs=jobs,
            rounds=rounds,
            seed=inputs.seed,
            warm_up=_TINY if profiles == _QUICK else None,
        ),
        ("copter-exact", "highs-milp"),
        rounds=rounds,
        x={"gpus": gpus, "jobs": jobs, "columns": columns},
        checker="proof",
        mip_gap=0.0,
        profiles=profiles,
    )
