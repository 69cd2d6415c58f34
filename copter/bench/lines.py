"""Cases without a domain: general linear programs, and synthetic programs by size and churn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from copter.bench.case import Case, Inputs, as_it_is, listed
from copter.bench.changes import ChangesCourse
from copter.bench.programs import LP_SOLVERS, Programs
from copter.bench.solvers import EVERY_LP, HIGHS, ORTOOLS
from copter.bench.synthetic import Synthetic


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases without a domain."""
    return [
        *listed("lp", _programs, inputs),
        *listed("synthetic", _synthetic, inputs),
        *listed("changes", _changes, inputs),
    ]


def _programs(inputs: Inputs, name: str, *, small: bool = False) -> Case:
    course = Programs(inputs.lps, seed=inputs.seed, small_ones=small)
    return Case(
        name,
        "lp",
        "General linear programs" + ("" if inputs.lps is None else " of a folder"),
        partial(as_it_is, course),
        LP_SOLVERS,
        rounds=course.n_rounds,
        x={"programs": course.n_rounds},
        tolerance=1e-6,
        left_out=0,
        checker="lp",
    )


def _synthetic(
    inputs: Inputs, name: str, *, requests: int, width: int = 300, churn: float = 0.01, rounds: int = 6
) -> Case:
    """Return a case; its name begins with its family, ``columns`` or ``churn``."""
    family, columns = name.partition("-")[0], requests * width
    return Case(
        name,
        family,
        f"Synthetic choices, {columns:,} columns, {100 * churn:g}% of the requests replaced, as many changed",
        partial(as_it_is, Synthetic(requests, width, churn, rounds=rounds, seed=inputs.seed)),
        EVERY_LP,
        rounds=rounds,
        x={"columns": columns, "churn": churn},
        ladder=f"{family}-{churn}",
    )


def _changes(
    inputs: Inputs,
    name: str,
    *,
    columns: int,
    changed: int,
    rounds: int = 40,
    own: bool = False,
    scarce: int = 0,
) -> Case:
    """Return a case whose rounds change a few of many requests."""
    course = ChangesCourse(columns, changed, rounds, inputs.seed, own, scarce=scarce)
    kind = ", coefficients of their own" if own else ""
    rows = f" on {scarce} scarce rows" if scarce else ""
    return Case(
        name,
        "changes",
        f"Costs of {changed:,} of {course.requests:,} requests replaced{kind}{rows}, {columns:,} columns",
        partial(as_it_is, course),
        ("copter", *HIGHS, *ORTOOLS),
        rounds=rounds,
        x={"columns": columns, "churn": changed / course.requests},
        tolerance=1e-6,
        left_out=course.left_out,
        ladder=f"{'scarce' if scarce else 'changes'}-{changed}",
    )
