"""Cases without a domain: general linear programs, and synthetic programs by size and churn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from copter.bench.case import Case, Inputs, Profile, as_it_is
from copter.bench.changes import ChangesCourse
from copter.bench.programs import LP_SOLVERS, Programs
from copter.bench.solvers import COPTER, EVERY_LP, HIGHS, ORTOOLS
from copter.bench.synthetic import Synthetic

_QUICK: tuple[Profile, ...] = ("quick",)
_FULL: tuple[Profile, ...] = ("full",)
_LADDER = (
    (1_000, 20),
    (10_000, 50),
    (100_000, 100),
    (1_000_000, 1_000),
    (10_000_000, 1_000),
    (100_000_000, 10_000),
)
"""Number of columns, and of columns a request."""
_MOST_FOR_OTHERS = 1_000_000
"""Largest number of columns of few-change cases for other solvers, whose first round takes minutes."""
_CHANGES = (
    *((10**digits, 1) for digits in (5, 6, 7, 8)),
    (1_000_000, 50),
    (1_000_000, 500),
)
"""Number of columns, and of requests that change in a round."""
_CHURNS = (0.001, 0.01, 0.03, 0.1, 0.3)


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases without a domain."""
    return [
        *(_programs(inputs, profiles) for profiles in (_QUICK, _FULL)),
        *(_columns(inputs, columns, width, _FULL) for columns, width in _LADDER),
        _columns(inputs, 1_000, 20, _QUICK),
        *(changes_case(columns, changed, False, 40, inputs.seed) for columns, changed in _CHANGES),
        changes_case(1_000_000, 1, True, 40, inputs.seed),
        _scarce(inputs),
        changes_case(40_000, 1, False, 12, inputs.seed, _QUICK),
        *(_churn(inputs, churn, 1_000) for churn in _CHURNS),
        _churn(inputs, 0.3, 20),
    ]


def _programs(inputs: Inputs, profiles: Sequence[Profile]) -> Case:
    small = profiles == _QUICK
    course = Programs(inputs.lps, seed=inputs.seed, small_ones=small)
    return Case(
        "lp-quick" if small else "lp",
        "lp",
        "General linear programs" + ("" if inputs.lps is None else " of a folder"),
        partial(as_it_is, course),
        ("copter", "highs-presolve", "pdlp") if small else LP_SOLVERS,
        rounds=course.n_rounds,
        x={"programs": course.n_rounds},
        tolerance=1e-6,
        left_out=0,
        checker="lp",
        profiles=profiles,
    )


def _columns(inputs: Inputs, columns: int, width: int, profiles: Sequence[Profile]) -> Case:
    small = profiles == _QUICK
    course = Synthetic(
        columns // width,
        width,
        rounds=6 if columns <= 10_000_000 else 4,
        seed=inputs.seed,
    )
    return Case(
        "columns-quick" if small else f"columns-1e{len(str(columns)) - 1}",
        "columns",
        f"Synthetic choices, {columns:,} columns, 1% of the requests replaced",
        partial(as_it_is, course),
        _solvers_of(columns, small),
        rounds=3 if small else course.rounds,
        x={"columns": columns, "churn": course.churn},
        patience=3.0 if columns > 10_000_000 else 1.0,
        profiles=profiles,
    )


def _solvers_of(columns: int, small: bool) -> Sequence[str]:
    if small:
        return "copter", "highs-dual", "glop"
    return EVERY_LP if columns <= 10_000_000 else (*COPTER, *HIGHS[:2])


def changes_case(
    columns: int, changed: int, own: bool, rounds: int, seed: int, profiles: Sequence[Profile] = _FULL
) -> Case:
    """Return the case of rounds in which a few requests of many change."""
    course = ChangesCourse(columns, changed, rounds, seed, own)
    kind = ", coefficients of their own" if own else ""
    return Case(
        f"changes-{changed}-of-{columns}" + ("-own" if own else ""),
        "changes",
        f"Costs of {changed:,} of {course.requests:,} requests replaced{kind}, {columns:,} columns",
        partial(as_it_is, course),
        ("copter",) if columns > _MOST_FOR_OTHERS else ("copter", *HIGHS, *ORTOOLS),
        rounds=rounds,
        x={"columns": columns, "churn": changed / course.requests},
        tolerance=1e-6,
        left_out=course.left_out,
        patience=6.0 if columns >= 1_000_000 else 1.0,  # the first rounds read all columns; HiGHS needs 30 s
        ladder=f"changes-{changed}",
        profiles=profiles,
    )


def _scarce(inputs: Inputs) -> Case:
    """Return the case of few changes in a program with many scarce rows."""
    course = ChangesCourse(400_000, 50, seed=inputs.seed, own=True, scarce=400)
    return replace(
        changes_case(course.columns, course.changed, course.own, course.rounds, course.seed),
        name="scarce-400",
        title="Costs of 50 of 20,000 requests replaced, coefficients of their own on 400 scarce rows, "
        "400,000 columns",
        make=partial(as_it_is, course),
        tolerance=1e-4,
        ladder="scarce-50",
    )


def _churn(inputs: Inputs, churn: float, requests: int) -> Case:
    course = Synthetic(requests, 300, churn, rounds=6, seed=inputs.seed)
    small, columns = requests < 1_000, course.requests * course.width
    return Case(
        "churn-quick" if small else f"churn-{100 * churn:g}",
        "churn",
        f"Synthetic choices, {columns:,} columns, {100 * churn:g}% of the requests replaced, as many changed",
        partial(as_it_is, course),
        ("copter", "highs-dual", "highs-primal") if small else EVERY_LP,
        rounds=course.rounds,
        x={"columns": columns, "churn": churn},
        ladder=f"churn-{churn}",
        profiles=_QUICK if small else _FULL,
    )
