"""Statistics of records: medians and tails, ratios, means over lines, and the verdict.

The seconds of a round are the sum of edit, solve and shim (:mod:`copter.bench.rounds`).  :func:`spread`
summarises one solver's rounds.  A round that was cut off (deadline, iteration limit, numerical error) would
have taken longer. Such a round is included in all figures and counted in `not_optimal`; `at_least` lists the
figures that would be larger if the round had taken longer. Values that are NaN or infinite, such as the gap
of a round without an answer, are excluded from the figures; `not_finite` counts them.

Across lines, only answers of equal quality are compared. A solver counts on a line if it answered every round
that it played in time, and the line's checker found each answer within the tolerance
(:meth:`copter.bench.result_files.LineResult.certified`).

- The shifted geometric mean of seconds t over lines is exp(mean log(t + s)) - s, as in Mittelmann's
  benchmarks of LP solvers. The shift s limits the influence of lines of a few microseconds.  If a solver has
  no certified answer to a line, the line's limit counts: the mean is then a lower bound.
- The verdict on a line compares copter's seconds with those of the fastest other solver, round by round,
  because all solvers have the same rounds. It also states the smallest and the largest ratio of a round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.bench.course import COMPLETE, Course
from copter.bench.result_files import LineResult, SolverResult, SuiteResult
from copter.bench.settings import Record
from copter.bench.solvers import entrant, is_ours
from copter.solvers.features import Feature
from copter.solvers.registry import SOLVERS, make_solver

SHIFT = 1e-3
"""Shift s of the geometric mean, in seconds."""
_TIMES = ("edit_seconds", "solve_seconds", "rounding_seconds", "seconds")
_APART = ("store_seconds", "certify_seconds")
_QUALITY = ("gap", "primal_residual", "answer_gap", "churn", "iterations")
_ANSWERED = ("optimal", "infeasible", "unbounded", COMPLETE)


def keeps_edits(solver: str) -> bool | None:
    """Return whether a solver applies a round's edits to its own model; None if it is not registered."""
    return Feature.DIFFERENTIAL_EDITS in make_solver(solver).features if solver in SOLVERS else None


def spread(values: Iterable[float], truncated: Sequence[bool] | None = None) -> dict[str, Any]:
    """Return ``median, mean, p99, min, max`` of the finite numbers (NaN if there are none).

    Also return ``not_finite``, the number of NaN or infinite values, and ``at_least``, the names of figures
    that are only lower bounds, because the `truncated` values would be larger without a limit.
    """
    array = np.fromiter(values, float)
    finite = np.isfinite(array)
    found: dict[str, Any] = five_statistics(array[finite])
    at_least: list[str] = []
    if truncated is not None and any(truncated):
        cut = np.array(truncated, bool)[finite]
        beyond = 2.0 * abs(array[finite]).max(initial=0.0) + 1.0
        longer = five_statistics(np.where(cut, beyond, array[finite]))
        at_least = [name for name, value in longer.items() if value != found[name] and finite.any()]
    return found | {"not_finite": int(np.count_nonzero(~finite)), "at_least": at_least}


def five_statistics(array: np.ndarray) -> dict[str, float]:
    """Return median, mean, p99, min and max of an array by name; NaN if the array is empty."""
    if not array.size:
        return dict.fromkeys(("median", "mean", "p99", "min", "max"), float("nan"))
    return {
        "median": float(np.median(array)),
        "mean": float(array.mean()),
        "p99": float(np.percentile(array, 99)),
        "min": float(array.min()),
        "max": float(array.max()),
    }


def summarise(
    measured: Sequence[SolverResult], figures: Sequence[str] = (), left_out: int = 1
) -> dict[str, Any]:
    """Summarise the rounds of each solver.

    `figures`: further fields of the records. `left_out`: number of rounds at the start that are excluded,
    unless no round follows them. Return, by solver, the figures of the first (cold) round, the spread of the
    counted rounds, and how many of these are not optimal or were missed (no answer).
    ``over_copter`` is the median of edit plus solve, divided by copter's median round (edit, solve, shim). If
    copter was not measured, ``copter-exact`` takes its place. ``over_copter`` is None if neither was
    measured, or if copter's median is only a lower bound. ``over_copter_at_least`` is True if the ratio is
    only a lower bound.
    """
    summary = {one.solver: _of_solver(one, figures, left_out) for one in measured if one.records}
    copter = summary.get("copter", summary.get("copter-exact"))
    usable = copter is not None and "median" not in copter["seconds"]["at_least"]
    whole = copter["seconds"]["median"] if copter is not None and usable else None
    for one in summary.values():
        one["over_copter"] = one["edit_solve_seconds"]["median"] / whole if whole else None
        one["over_copter_at_least"] = "median" in one["edit_solve_seconds"]["at_least"]
    return summary


def _of_solver(measured: SolverResult, figures: Sequence[str], left_out: int) -> dict[str, Any]:
    first, later = measured.records[0], measured.records[left_out:] or measured.records
    truncated = [record["status"] not in _ANSWERED for record in later]
    statuses: dict[str, int] = {}
    for record in measured.records:
        statuses[record["status"]] = statuses.get(record["status"], 0) + 1
    result: dict[str, Any] = {
        "rounds": len(measured.records),
        "rounds_measured": len(later),
        "not_optimal": sum(record["status"] != "optimal" for record in later),
        "missed": sum(record.get("missed", False) for record in later),
        "first_round": {name: first[name] for name in ("status", *_TIMES, "gap", "iterations")},
        "statuses": statuses,
        "peak_memory_mb": None if math.isnan(measured.peak_memory_mb) else measured.peak_memory_mb,
        "differential_edits": keeps_edits(measured.solver),
        "warm_started": sum(record["warm_started"] for record in measured.records[1:]),
        "edit_solve_seconds": spread(
            (record["edit_seconds"] + record["solve_seconds"] for record in later), truncated
        ),
    }
    for name in (*_TIMES, *_APART):
        cut = truncated if name in ("solve_seconds", "seconds") else None
        result[name] = spread((record[name] for record in later), cut)
    result["integrality_loss"] = spread(map(_loss, later))
    for name in (*_QUALITY, *figures):
        result[name] = spread(record[name] for record in later)
    return result


def _loss(record: Record) -> float:
    """Return the relative loss of a round's integral allocation; for most domains, it is the gap."""
    loss: float = record["integrality_loss"] if "integrality_loss" in record else record["answer_gap"]
    return loss


def document(
    machine: dict[str, Any], settings: dict[str, Any], measured: Sequence[SolverResult], course: Course
) -> dict[str, Any]:
    """Return the JSON document of a benchmark: machine, settings, records and summary.

    The settings include the stopping criteria of each solver. The course first compares the records.
    ``machines`` describes the machines of solvers that ran on another machine.
    """
    course.compare(measured)
    records: list[Record] = [record for one in measured for record in one.records]
    summary = summarise(measured, [figure.name for figure in course.figures], course.left_out)
    result = {
        "machine": machine,
        "settings": settings | {"stopping": {one.solver: one.stopping for one in measured}},
        "records": records,
        "summary": summary,
    }
    elsewhere = {one.solver: one.machine for one in measured if one.machine not in ({}, machine)}
    if elsewhere:
        result["machines"] = elsewhere
    return result


@dataclass(frozen=True)
class Verdict:
    """The fastest solver on a line at equal certified quality.

    `ours`: the line's first solver, copter's. `baseline`: the fastest other solver with certified answers, or
    empty. `ratio`, `low`, `high`: median, smallest and largest ratio, over the rounds, of the baseline's
    seconds to those of `ours`; above 1, copter is faster. They are infinite without a baseline, and NaN if
    the answers of `ours` are not certified. `fastest`: the fastest of all solvers with certified answers,
    including copter's variants; empty if there is none.
    """

    line: str
    family: str
    ours: str
    baseline: str
    ratio: float
    low: float
    high: float
    fastest: str

    @property
    def won(self) -> bool:
        """True if copter is at least as fast as every other solver with a certified answer."""
        return self.ratio >= 1.0


def seconds_of(line: LineResult, solver: str) -> NDArray[np.float64]:
    """Return the seconds of each counted round."""
    return np.array([record["seconds"] for record in line.measured_rounds(solver)], np.float64)


def median_seconds(line: LineResult, solver: str) -> float:
    """Return the median seconds of the counted rounds; NaN if there are none."""
    median: float = spread(seconds_of(line, solver))["median"]
    return median


def _typical(line: LineResult, solver: str) -> float:
    """Return the median seconds of a round; infinite unless all answers are certified."""
    return median_seconds(line, solver) if line.certified(solver) else math.inf


def _shifted_geometric_mean(values: Sequence[float], shift: float = SHIFT) -> float:
    """Return the shifted geometric mean of seconds; NaN without values."""
    if not len(values):
        return math.nan
    return float(np.exp(np.mean(np.log(np.asarray(values, np.float64) + shift))) - shift)


def means(lines: Sequence[LineResult], shift: float = SHIFT) -> dict[str, tuple[float, int, int]]:
    """Return, by solver, the shifted geometric mean of its medians over the lines on which it was measured.

    Also return the number of those lines with certified answers, and the number of those lines. A line
    without certified answers counts with its limit.
    """
    found = {}
    for solver in takes_part(lines):
        of = [line for line in lines if solver in line.solvers]
        times = [_typical(line, solver) for line in of]
        counted = [min(time, line.limit) for time, line in zip(times, of, strict=True)]
        mean = _shifted_geometric_mean(counted, shift)
        found[solver] = mean, sum(map(math.isfinite, times)), len(of)
    return found


def takes_part(lines: Sequence[LineResult]) -> list[str]:
    """Return the solvers that were run on at least one of the lines."""
    return list(
        dict.fromkeys(name for line in lines for name, one in line.solvers.items() if one.status != "not run")
    )


def verdict(line: LineResult) -> Verdict:
    """Return the fastest solver on a line; see :class:`Verdict`."""
    first = line.order[0]
    times = {solver: _typical(line, solver) for solver in line.solvers}
    certified = {solver: time for solver, time in times.items() if math.isfinite(time)}
    others = {solver: time for solver, time in certified.items() if not is_ours(solver)}
    baseline = min(others, key=lambda solver: others[solver], default="")
    fastest = min(certified, key=lambda solver: certified[solver], default="")
    ratio = low = high = math.nan
    if first in certified:
        ratio = low = high = math.inf
        if baseline:
            ratio, low, high = ratios(line, baseline, first)
    return Verdict(line.name, line.family, first, baseline, ratio, low, high, fastest)


def fastest_mode(line: LineResult, house: str) -> str:
    """Return the mode of a solver with the least median seconds, among the modes with certified answers.

    Parameters
    ----------
    line : LineResult
        A line with results.
    house : str
        A key of :data:`copter.bench.solvers.MODES`.

    Returns
    -------
    str
        Name of the mode; empty if no mode has a certified answer to each of its rounds.

    """
    times = {name: _typical(line, name) for name in line.solvers if entrant(name).house == house}
    name = min(times, key=lambda mode: times[mode], default="")
    return name if math.isfinite(times.get(name, math.inf)) else ""


def why_no_mode(line: LineResult, house: str) -> str:
    """Return, in words, why no mode of a solver has certified answers; empty if no mode is on the line."""
    tried = [one for name, one in line.solvers.items() if entrant(name).house == house]
    ran = [one for one in tried if one.status != "not run"]
    if not tried:
        return ""
    if not ran:
        return "not run"
    if all(one.status == "missed" for one in ran):
        ended = any(len(one.records) > 1 for one in ran)
        return f"over {line.limit:g} s a round" if ended else f"no answer in {line.limit:g} s"
    return "not certified"


def ratios(line: LineResult, solver: str, to: str) -> tuple[float, float, float]:
    """Return the median, least and largest ratio of a solver's seconds to those of `to` in the same rounds.

    If the solver played fewer rounds than `to`, the median and the least ratio are at most the ratio of the
    median seconds, because the later rounds of `to` may have taken longer.
    """
    base = {record["round"]: record["seconds"] for record in line.solvers[to].records}
    counted = [record for record in line.measured_rounds(solver) if record["round"] in base]
    found = spread(record["seconds"] / base[record["round"]] for record in counted)
    middle, low = found["median"], found["min"]
    if len(counted) < len(line.measured_rounds(to)):
        middle = min(middle, median_seconds(line, solver) / median_seconds(line, to))
        low = min(low, middle)
    return middle, low, found["max"]


def verdicts(suite: SuiteResult) -> list[Verdict]:
    """Return the verdict on each line whose first solver is copter's, in order."""
    return [verdict(line) for line in suite.lines.values() if line.solvers and is_ours(line.order[0])]


def families(suite: SuiteResult) -> dict[str, list[LineResult]]:
    """Return the lines of each family, in order."""
    found: dict[str, list[LineResult]] = {}
    for line in suite.lines.values():
        found.setdefault(line.family, []).append(line)
    return found
