"""From records to what a reader wants: medians and tails per solver, ratios to copter, the ablation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from copter.bench.rounds import Measured, Record

TIMES = ("t_edit", "t_solve", "t_shim", "t_total")
QUALITY = ("gap", "primal_residual", "integral_gap", "churn", "iterations")

# What a solver keeps from the last round: (differential edits, warm start).
KEEPS = {
    "copter": (True, True),
    "copter-cd": (True, True),
    "copter-newton": (True, True),
    "copter-cold": (True, False),
    "copter-rebuild": (False, True),
    "highs-hot": (True, True),
    "highs-simplex": (False, False),
    "highs-ipm": (False, False),
    "highs-pdlp": (False, False),
    "highs-milp": (False, False),
    "glop": (False, True),
    "pdlp": (False, True),
}


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return median, p99, smallest and largest of some numbers (NaN where there are none)."""
    array = np.array([value for value in values if value == value], float)
    if not array.size:
        return dict.fromkeys(("median", "p99", "min", "max"), float("nan"))
    return {
        "median": float(np.median(array)),
        "p99": float(np.percentile(array, 99)),
        "min": float(array.min()),
        "max": float(array.max()),
    }


def summarise(measured: Sequence[Measured]) -> dict[str, Any]:
    """Summarise the rounds of each solver.

    Parameters
    ----------
    measured : sequence of Measured

    Returns
    -------
    dict
        Per solver: the first (cold) round apart, the spread of the rounds after it, and as ``over_copter``
        its median edit + solve over the whole of copter's median round (edit, solve, shim), None without it.
    """
    summary = {one.solver: _of_solver(one) for one in measured if one.records}
    whole = summary["copter"]["t_total"]["median"] if "copter" in summary else None
    for one in summary.values():
        one["over_copter"] = one["t_edit_solve"]["median"] / whole if whole else None
    return summary


def _of_solver(measured: Measured) -> dict[str, Any]:
    first, later = measured.records[0], measured.records[1:] or measured.records
    statuses: dict[str, int] = {}
    for record in measured.records:
        statuses[record["status"]] = statuses.get(record["status"], 0) + 1
    result: dict[str, Any] = {
        "rounds": len(measured.records),
        "first_round": {name: first[name] for name in (*TIMES, "gap", "iterations")},
        "statuses": statuses,
        "peak_memory_mb": measured.peak_memory_mb or None,
        "t_edit_solve": spread(record["t_edit"] + record["t_solve"] for record in later),
    }
    for name in (*TIMES, *QUALITY):
        result[name] = spread(record[name] for record in later)
    return result


def ablation(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row per solver: what it keeps between rounds, its median round, its ratio to copter's."""
    return [
        {
            "solver": name,
            "differential_edits": KEEPS[name][0],
            "warm_start": KEEPS[name][1],
            **{time: one[time]["median"] for time in TIMES},
            "over_copter": one["over_copter"],
            "max_gap": one["gap"]["max"],
        }
        for name, one in summary.items()
    ]


def document(
    machine: dict[str, Any], settings: dict[str, Any], measured: Sequence[Measured]
) -> dict[str, Any]:
    """Return the JSON document of a benchmark: machine, settings, records, summary and the ablation."""
    records: list[Record] = [record for one in measured for record in one.records]
    summary = summarise(measured)
    return {
        "machine": machine,
        "settings": settings,
        "records": records,
        "summary": summary,
        "ablation": ablation(summary),
    }
