"""What a table says of one solver on one line: its times, the ratio to copter's, quality, memory, outcome."""

from __future__ import annotations

import math

from copter.bench.report.looks import is_copter
from copter.bench.report.model import Row, Table
from copter.bench.report.numbers import NOTHING, megabytes, seconds, small, times
from copter.bench.report.pictures import Point
from copter.bench.suite.results import LineResult
from copter.bench.suite.statistics import ratios, seconds_of, spread

HEADS = ("line", "solver", "p50", "p99", "over copter", "largest gap", "memory", "before", "outcome")
READING = (
    "In the tables below, p50 and p99 are seconds of a round over the rounds that count, at least so much "
    "(≥) where a round was missed; over copter is the median of the ratios round by round, with the least "
    "and the most; the largest gap is as the checker found it; memory is the most that the solver’s "
    "process held; before is what was made and compiled before the first round, which is in no other time."
)
"""What the columns say."""


def outcome(line: LineResult, solver: str) -> str:
    """What came of a solver on a line, in words."""
    one = line.solvers.get(solver)
    if one is None:
        return "not done yet"
    if one.status != "measured":
        return f"{one.status}: {one.reason}" if one.reason else one.status
    refused = sum(record["certified"] is not True for record in one.records)
    text = f"not certified in {refused} of {len(one.records)} rounds" if refused else "certified"
    return f"{text} ({one.reason})" if one.reason else text


def largest_gap(line: LineResult, solver: str) -> float:
    """Largest gap of the rounds that count, as the checker found it; NaN if a round has none."""
    gaps: list[float] = [record["checked_gap"] for record in line.measured_rounds(solver)]
    return max(gaps) if gaps and all(map(math.isfinite, gaps)) else math.nan


def point(line: LineResult, solver: str, x: float) -> Point | None:
    """Median and tail of a solver as a point of a picture; None if it gave no answer.

    Parameters
    ----------
    x : float
        Where it stands.
    """
    one = line.solvers.get(solver)
    if one is None or one.status in ("failed", "not run"):
        return None
    if one.status == "missed":
        return Point(x, line.limit, kind="missed")
    found = spread(seconds_of(line, solver))
    if not found.p50 > 0.0:
        return None
    return Point(x, found.p50, found.p99, "certified" if line.certified(solver) else "uncertified")


def table(title: str, lines: list[LineResult]) -> Table:
    """Return the table of some lines: a row for each of their solvers.

    Parameters
    ----------
    lines : list of LineResult
    """
    rows = [_row(line, solver, first=not k) for line in lines for k, solver in enumerate(line.order)]
    return Table(title, HEADS, tuple(rows), words=(0, 1, 8))


def _row(line: LineResult, solver: str, *, first: bool) -> Row:
    one = line.solvers.get(solver)
    head = line.title if first else ""
    if one is None or not one.records:
        return Row((head, solver, *[NOTHING] * 6, outcome(line, solver)), is_copter(solver))
    found = spread(seconds_of(line, solver))
    least = "≥ " if one.status == "missed" else ""
    return Row(
        (
            head,
            solver,
            least + seconds(found.p50),
            least + seconds(found.p99),
            _ratio(line, solver),
            small(largest_gap(line, solver)),
            megabytes(one.peak_memory_mb),
            seconds(one.compile_seconds),
            outcome(line, solver),
        ),
        is_copter(solver),
    )


def _ratio(line: LineResult, solver: str) -> str:
    """Seconds over those of the line's own solver; nothing where copter was not asked for the line."""
    ours = line.order[0]
    if not is_copter(ours) or ours not in line.solvers or line.solvers[ours].status != "measured":
        return NOTHING
    if solver == ours or line.solvers[solver].status != "measured":
        return NOTHING
    middle, low, high = ratios(line, solver, ours)
    return f"{times(middle)} ({times(low)} to {times(high)})"
