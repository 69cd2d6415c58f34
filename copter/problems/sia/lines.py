"""Cases of the suite: Sia's rounds from 64 to 25,600 GPUs, and rounds with proven allocations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from copter.bench.case import Case, Inputs, listed
from copter.bench.solvers import EVERY_LP
from copter.problems.sia.course import Size, record_sia

_TINY = Size(64, 30, 2)
"""Size of the warm-up of tiny cases."""


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases."""
    return listed("sia", _case, inputs)


def _case(
    inputs: Inputs,
    name: str,
    *,
    gpus: int,
    jobs: int,
    rounds: int,
    columns: int,
    tiny: bool = False,
    proven: bool = False,
) -> Case:
    """Return the case of a cluster; `columns`: approximate number of columns."""
    return Case(
        name,
        "exact" if proven else "sia",
        f"Sia, {gpus:,} GPUs, {jobs:,} jobs" + (", allocations proven optimal" if proven else ""),
        partial(
            record_sia,
            gpus=gpus,
            jobs=jobs,
            rounds=rounds,
            seed=inputs.seed,
            warm_up=_TINY if tiny else None,
            proven=proven,
        ),
        ("copter-exact", "highs-milp") if proven else EVERY_LP,
        rounds=rounds,
        x={"gpus": gpus, "jobs": jobs, "columns": columns},
        checker="proof" if proven else "certificate",
        mip_gap=0.0 if proven else 1e-3,
    )
