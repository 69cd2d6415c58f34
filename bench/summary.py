"""From records to what a reader wants: medians and tails per solver, ratios to copter, the ablation.

A round that was cut off (deadline, iteration limit, numerical error) would have taken longer.  It stays
in all figures and is counted in `not_optimal`; times that depend on how much longer are named in
`at_least`.  Values that are NaN or infinite, such as the gap of a round without any answer, are in no
median; `not_finite` counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from copter.bench.course import COMPLETE, Course
from copter.bench.settings import Measured, Record
from copter.solvers.features import Feature
from copter.solvers.registry import SOLVERS, make_solver

TIMES = ("t_edit", "t_solve", "t_shim", "t_total")
APART = ("t_store", "t_certify")
QUALITY = ("gap", "primal_residual", "integral_gap", "churn", "iterations")

ANSWERED = ("optimal", "infeasible", "unbounded", COMPLETE)


def keeps_edits(solver: str) -> bool | None:
    """Whether a solver takes a round's edits as such; None if it is not a registered one."""
    return Feature.DIFFERENTIAL_EDITS in make_solver(solver).features if solver in SOLVERS else None


def spread(values: Iterable[float], truncated: Sequence[bool] | None = None) -> dict[str, Any]:
    """Return median, mean, p99, smallest and largest of the finite numbers (NaN if there are none).

    Parameters
    ----------
    values : iterable of float
    truncated : sequence of bool, optional
        Which of them would be larger had their round not been cut off.

    Returns
    -------
    dict
        ``median, mean, p99, min, max``; ``not_finite``, the number of values that are NaN or infinite; and
        ``at_least``, the names of the figures that are only lower bounds.
    """
    array = np.fromiter(values, float)
    finite = np.isfinite(array)
    found: dict[str, Any] = _figures(array[finite])
    at_least: list[str] = []
    if truncated is not None and any(truncated):
        cut = np.array(truncated, bool)[finite]
        beyond = 2.0 * abs(array[finite]).max(initial=0.0) + 1.0
        longer = _figures(np.where(cut, beyond, array[finite]))
        at_least = [name for name, value in longer.items() if value != found[name] and finite.any()]
    return found | {"not_finite": int(np.count_nonzero(~finite)), "at_least": at_least}


def _figures(array: np.ndarray) -> dict[str, float]:
    if not array.size:
        return dict.fromkeys(("median", "mean", "p99", "min", "max"), float("nan"))
    return {
        "median": float(np.median(array)),
        "mean": float(array.mean()),
        "p99": float(np.percentile(array, 99)),
        "min": float(array.min()),
        "max": float(array.max()),
    }


def summarise(measured: Sequence[Measured], figures: Sequence[str] = (), left_out: int = 1) -> dict[str, Any]:
    """Summarise the rounds of each solver.

    Parameters
    ----------
    measured : sequence of Measured
    figures : sequence of str
        Further fields of the records.
    left_out : int
        Rounds at the start that are in no spread; if there are no others, none is left out.

    Returns
    -------
    dict
        Per solver: the first (cold) round apart, the spread of the rounds measured, how many of those are
        not optimal and how many were missed (the solver had no answer at all), and as ``over_copter`` its
        median edit + solve over the whole of copter's median round (edit, solve, shim); where copter was not
        measured, over that of ``copter-exact``.  That is None without either, or if that median is only a
        lower bound; ``over_copter_at_least`` says whether it is itself one.
    """
    summary = {one.solver: _of_solver(one, figures, left_out) for one in measured if one.records}
    copter = summary.get("copter", summary.get("copter-exact"))
    usable = copter is not None and "median" not in copter["t_total"]["at_least"]
    whole = copter["t_total"]["median"] if copter is not None and usable else None
    for one in summary.values():
        one["over_copter"] = one["t_edit_solve"]["median"] / whole if whole else None
        one["over_copter_at_least"] = "median" in one["t_edit_solve"]["at_least"]
    return summary


def _of_solver(measured: Measured, figures: Sequence[str], left_out: int) -> dict[str, Any]:
    first, later = measured.records[0], measured.records[left_out:] or measured.records
    truncated = [record["status"] not in ANSWERED for record in later]
    statuses: dict[str, int] = {}
    for record in measured.records:
        statuses[record["status"]] = statuses.get(record["status"], 0) + 1
    result: dict[str, Any] = {
        "rounds": len(measured.records),
        "rounds_measured": len(later),
        "not_optimal": sum(record["status"] != "optimal" for record in later),
        "missed": sum(record.get("missed", False) for record in later),
        "first_round": {name: first[name] for name in ("status", *TIMES, "gap", "iterations")},
        "statuses": statuses,
        "peak_memory_mb": measured.peak_memory_mb or None,
        "warm_started": sum(record["warm_started"] for record in measured.records[1:]),
        "t_edit_solve": spread((record["t_edit"] + record["t_solve"] for record in later), truncated),
    }
    for name in (*TIMES, *APART):
        cut = truncated if name in ("t_solve", "t_total") else None
        result[name] = spread((record[name] for record in later), cut)
    for name in (*QUALITY, *figures):
        result[name] = spread(record[name] for record in later)
    return result


def ablation(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row per solver: what it keeps between rounds, its median round, its ratio to copter's.

    ``warm_start`` is what its rounds after the first reported; None if there were none.
    """
    return [
        {
            "solver": name,
            "differential_edits": keeps_edits(name),
            "warm_start": one["warm_started"] > 0 if one["rounds"] > 1 else None,
            **{time: one[time]["median"] for time in TIMES},
            "at_least": [time for time in TIMES if "median" in one[time]["at_least"]],
            "over_copter": one["over_copter"],
            "over_copter_at_least": one["over_copter_at_least"],
            "max_gap": one["gap"]["max"],
            "gaps_not_finite": one["gap"]["not_finite"],
            "rounds": one["rounds_measured"],
            "not_optimal": one["not_optimal"],
        }
        for name, one in summary.items()
    ]


def document(
    machine: dict[str, Any], settings: dict[str, Any], measured: Sequence[Measured], course: Course
) -> dict[str, Any]:
    """Return the JSON document of a benchmark: machine, settings, records, summary and the ablation.

    Parameters
    ----------
    machine : dict
        Of :func:`copter.bench.machine.machine`.
    settings : dict
        Of the whole benchmark; where each solver stops is added.
    measured : sequence of Measured
        One a solver.
    course : Course
        The one that they played; it compares their records first.

    Returns
    -------
    dict
        With the summaries of each kind of round too if there is more than one kind, and as ``machines`` those
        of the solvers that ran on another one.
    """
    course.compare(measured)
    records: list[Record] = [record for one in measured for record in one.records]
    summary = summarise(measured, [figure.name for figure in course.figures], course.left_out)
    rows = ablation(summary)
    result = {
        "machine": machine,
        "settings": settings | {"stopping": {one.solver: one.stopping for one in measured}},
        "records": records,
        "summary": summary,
        "ablation": rows,
    }
    elsewhere = {one.solver: one.machine for one in measured if one.machine not in ({}, machine)}
    if elsewhere:
        result["machines"] = elsewhere
    kinds = {} if course.kind is None else by_kind(measured, course)
    return result | {"kinds": kinds} if len(kinds) > 1 else result


def by_kind(measured: Sequence[Measured], course: Course) -> dict[str, dict[str, Any]]:
    """Return, for each kind of round but that of the first, the summary of the rounds of that kind alone."""
    assert course.kind is not None
    names = list(dict.fromkeys(record[course.kind] for one in measured for record in one.records[1:]))
    return {
        name: summarise(
            [
                replace(one, records=[r for r in one.records[1:] if r[course.kind] == name])
                for one in measured
            ],
            [figure.name for figure in course.figures],
            left_out=0,
        )
        for name in names
    }
