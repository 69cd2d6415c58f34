"""Sections of a report on a suite's results: the first screen, all lines together, and each family.

The first screen states what was measured, on how many lines copter is the fastest solver, and on which lines
another solver is faster. The section of a family has a picture, a table with a row for each solver of each
line, and the commands that measure the lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from copter.bench.calm import FIELD, SLOWER
from copter.bench.checks import unconfirmed
from copter.bench.formats import NOTHING, digits, megabytes, seconds, small, tick, times
from copter.bench.report.model import Claim, Command, FirstScreen, Lost, Picture, ReportTable, Row
from copter.bench.report.pictures import Edge, Look, PlotPoint, dots, over
from copter.bench.result_files import FAMILIES, Family, LineResult, SuiteResult
from copter.bench.solvers import MODES, is_ours
from copter.bench.statistics import (
    SHIFT,
    Verdict,
    families,
    fastest_mode,
    means,
    median_seconds,
    ratios,
    seconds_of,
    spread,
    takes_part,
    verdicts,
    why_no_mode,
)

HEADS = ("line", "solver", "p50", "p99", "over copter", "largest gap", "memory", "before", "outcome")
_READING = (
    "Columns of the tables: p50 and p99 are the median and the 99th percentile of the seconds of the counted "
    "rounds; they are lower bounds (≥) if a round was missed. “Over copter” is the median ratio to copter’s "
    "seconds, round by round, with the least and the largest ratio; for a solver that ended early it is at "
    "most the ratio of the medians. The checker computes the “largest gap”. "
    "“Memory” is the peak memory of the solver’s process. “Before” is the time of compilation and warm-up "
    "before the first round, which no other time includes."
)
"""Explanation of the columns."""
_FASTER, _SLOWER = "copter faster", "copter slower"
_LOOKS: Mapping[str, Look] = {
    _FASTER: Look("copter", "o", "", 2.2),
    _SLOWER: Look("highs", "D", "", 2.0),
}
_DEFINITION = (
    "Equal certified quality: a solver counts on a line only if it answered each of its rounds in time, and "
    "if the checker, the same for all solvers, found each answer within the line's tolerance. A solver plays "
    "at least three rounds and continues until its time on the line is used up; if that is before the last "
    "round, its outcome states it. The comparison is of the seconds of whole rounds (edit, solve and shim). "
    "Each round is compared with itself, over the rounds that both solvers played."
)


def first_screen(suite: SuiteResult, notes: Mapping[str, str]) -> FirstScreen:
    """Return the summary at the top; `notes`: reasons why copter is not the fastest solver, by line."""
    found = verdicts(suite)
    rounds = sum(len(one.records) for line in suite.lines.values() for one in line.solvers.values())
    solvers = takes_part(list(suite.lines.values()))
    kinds = [f"{FAMILIES[family].title} ({len(lines)})" for family, lines in families(suite).items()]
    measured = (
        f"copter {suite.version} and {sum(not is_ours(name) for name in solvers)} other solvers on "
        f"{len(suite.lines)} lines, {rounds:,} rounds in all, measured on {suite.begun[:10]} in "
        f"{seconds(suite.seconds)}, profile “{suite.profile}”. Lines by kind: {', '.join(kinds)}."
    )
    return FirstScreen(
        f"copter {suite.version}: {suite.profile} benchmark",
        measured,
        _machine_text(suite.machine),
        _verdict(found),
        tuple(_lost(suite.lines[one.line], one, notes) for one in found if not one.won),
        tuple(_remarks(suite)),
        _ratios(suite, found),
    )


def _machine_text(machine: Mapping[str, Any]) -> str:
    """Return a sentence with the processor, memory and system of :func:`copter.bench.machine.machine`."""
    return (
        f"{machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB, {machine['system']} "
        f"{machine['architecture']}."
    )


def _verdict(found: list[Verdict]) -> str:
    won = [one for one in found if one.won]
    alone = sum(not one.baseline for one in won)
    text = f"On {len(won)} of {len(found)} lines copter is the fastest at equal certified quality"
    if alone:
        text += f"; on {alone} of these no other solver has certified answers to all its rounds"
    return text + "."


def _lost(line: LineResult, one: Verdict, notes: Mapping[str, str]) -> Lost:
    if math.isnan(one.ratio):
        text = f"{one.ours} has no certified answer to all its rounds"
        if one.fastest:
            median = median_seconds(line, one.fastest)
            text += f"; the fastest solver that has one is {one.fastest}, {seconds(median)} a round"
    else:
        mine, other = (seconds(median_seconds(line, name)) for name in (one.ours, one.baseline))
        text = (
            f"{one.ours} takes {times(1.0 / one.ratio)} the seconds of {one.baseline} "
            f"({times(1.0 / one.high)} to {times(1.0 / one.low)} over the rounds; medians {mine} and "
            f"{other})"
        )
    return Lost(one.line, line.title, text, notes.get(one.line, ""))


def _remarks(suite: SuiteResult) -> list[str]:
    remarks = []
    todo = [
        f"{name} ({', '.join(sorted(set(suite.lines[name].order) - set(suite.lines[name].solvers)))})"
        if name in suite.lines
        else name
        for name in suite.order
        if name not in suite.lines or set(suite.lines[name].order) - set(suite.lines[name].solvers)
    ]
    if todo:
        remarks.append(f"Incomplete. Not yet measured: {'; '.join(todo)}.")
    there = [(line, solver, one) for line in suite.lines.values() for solver, one in line.solvers.items()]
    refused = [
        f"{solver} on {line.name} ({wrong} of {len(one.records)} rounds)"
        for line, solver, one in there
        if (wrong := len(unconfirmed(one)))
    ]
    if refused:
        remarks.append(
            "These solvers reported an optimum, but the checker found the answer outside the tolerance: "
            f"{', '.join(refused)}. None of these answers counts."
        )
    failed = [
        f"{solver} on {line.name} ({one.reason})"
        for line, solver, one in there
        if one.status == "failed" and is_ours(solver)
    ]
    if failed:
        remarks.append(f"Failed: {', '.join(failed)}.")
    return [*remarks, speed_of_the_machine(suite)]


def speed_of_the_machine(suite: SuiteResult) -> str:
    """Return a sentence with the number of rounds in which the machine was not at full speed."""
    records = [r for line in suite.lines.values() for one in line.solvers.values() for r in one.records]
    readings = np.array([record.get(FIELD, math.nan) for record in records], np.float64)
    known = readings[np.isfinite(readings)]
    if not known.size:
        return (
            "These rounds did not wait for the machine to run at full speed (docs/how-to/suite.md): a "
            "solver's times on a line may be up to 1.7 times too long."
        )
    slow = int((known > SLOWER * known.min()).sum())
    text = f"In {slow:,} of {known.size:,} rounds the machine did not run at full speed"
    return (
        f"{text} (at worst, the calibration took {digits(float(known.max() / known.min()))} times its best)."
    )


def _ratios(suite: SuiteResult, found: list[Verdict]) -> Picture | None:
    """Return a picture with a row for each family and a mark for each line with a baseline."""
    rows: dict[str, list[tuple[str, PlotPoint]]] = {}
    for one in found:
        if math.isfinite(one.ratio):
            side = _FASTER if one.won else _SLOWER
            rows.setdefault(FAMILIES[suite.lines[one.line].family].title, []).append(
                (side, PlotPoint(one.ratio, 0.0))
            )
    if not rows:
        return None
    caption = "Seconds of the fastest other solver over copter's, by line; right of 1× copter is faster"
    across = Edge("the fastest other solver over copter", lambda ratio: f"{ratio:g}×")
    return Picture("verdict", caption, dots(caption, list(rows.items()), _LOOKS, across, mark=1.0))


def overall(suite: SuiteResult) -> Claim:
    """Return the claim over all lines: shifted geometric means."""
    lines = list(suite.lines.values())
    found = families(suite)
    by_family = {family: means(of) for family, of in found.items()}
    everywhere = means(lines)
    labels = {name: one.label for line in lines for name, one in line.solvers.items()}
    rows = [
        Row(
            (solver, labels[solver], f"{certified} of {of}", seconds(mean))
            + tuple(seconds(by_family[family].get(solver, (math.nan,))[0]) for family in found),
            is_ours(solver),
        )
        for solver, (mean, certified, of) in sorted(everywhere.items(), key=lambda one: one[1][0])
    ]
    heads = ("solver", "description", "certified on", "all its lines", *(family for family in found))
    note = (
        f"Shifted geometric mean (shift {tick(SHIFT)}) of the median seconds of a round, over the lines on "
        "which the solver was measured. If it has no certified answer on a line, or was not run because it "
        "missed a smaller line, the line’s limit counts, so that the mean is a lower bound. Means of solvers "
        f"that were measured on different lines are not comparable; {NOTHING}: on no line."
    )
    return Claim(
        "all",
        "All lines together",
        f"{_DEFINITION} {_READING}",
        tables=(ReportTable("Shifted geometric means", heads, tuple(rows), words=(0, 1), note=note),),
    )


def modes(suite: SuiteResult) -> Claim:
    """Return the claim about the fastest mode of each other solver on each line."""
    lines = [line for line in suite.lines.values() if line.solvers and is_ours(line.order[0])]
    there = [house for house in MODES if any(why_no_mode(line, house) for line in lines)]
    rows = [
        Row((line.title, _copter_seconds(line), *(mode_cell(line, house) for house in there)))
        for line in lines
        if any(why_no_mode(line, house) for house in there)
    ]
    skipped = (
        "A mode ends after two rounds if the second one takes more than 20 times the seconds of another mode "
        "of the same solver; its outcome in the tables below says so."
    )
    table = ReportTable(
        "Fastest modes", ("line", "copter", *(MODES[house] for house in there)), tuple(rows), words=(0,)
    )
    return Claim(
        "modes",
        "Fastest modes",
        "On each line the fastest mode of each solver counts: median seconds of a warm round, its ratio to "
        "copter's seconds with the least and the largest of a round, and the name of the mode. The ratio is "
        "the median over the rounds; for a mode that ended early it is at most that of the medians. "
        f"docs/how-to/suite.md describes the modes. {skipped}",
        tables=(table,),
    )


def _copter_seconds(line: LineResult) -> str:
    first = line.order[0]
    return seconds(median_seconds(line, first)) if line.certified(first) else NOTHING


def mode_cell(line: LineResult, house: str) -> str:
    """Return seconds, ratio to copter's seconds and name of a solver's fastest mode, or why it has none."""
    mode, first = fastest_mode(line, house), line.order[0]
    if not mode:
        return why_no_mode(line, house) or NOTHING
    text = seconds(median_seconds(line, mode))
    if line.certified(first):
        middle, low, high = ratios(line, mode, first)
        text += f", {times(middle)} ({times(low)} to {times(high)})"
    return f"{text}, {mode}"


def claim(family: str, lines: list[LineResult], styles: Mapping[str, Look]) -> Claim:
    """Return the claim about a family, from one or more of its lines."""
    words = FAMILIES[family]
    picture = _times(family, words, lines, styles)
    return Claim(
        family,
        words.title,
        f"{words.text} {_conditions(lines)}",
        () if picture is None else (picture,),
        (table(words.title, lines),),
        tuple(Command(line.title, line.command) for line in lines),
    )


def _conditions(lines: list[LineResult]) -> str:
    """Return a text with the lines' tolerances, threads, limits and checkers; each value is stated once."""
    tolerances = _range(f"{line.tolerance:g}" for line in lines)
    threads = _range(str(line.threads) for line in lines)
    limits = _range(f"{line.limit:g} s" for line in lines)
    checkers = " ".join(dict.fromkeys(line.checker.rstrip(".") + "." for line in lines if line.checker))
    same = f"Tolerance {tolerances}, threads {threads}, at most {limits} a solve, for every solver."
    return f"{same} Checker: {checkers}" if checkers else same


def _range(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _times(family: str, words: Family, lines: list[LineResult], styles: Mapping[str, Look]) -> Picture | None:
    caption = f"{words.title}: median seconds of a round, with the 99th percentile as whisker"
    places = {line.x.get(words.axis, math.nan) for line in lines}
    if words.grows and len(places) == len(lines) > 2 and all(place > 0.0 for place in places):
        series: dict[str, list[PlotPoint]] = {}
        for line in sorted(lines, key=lambda line: line.x[words.axis]):
            for solver in line.order:
                found = _point(line, solver, line.x[words.axis])
                if found is not None:
                    series.setdefault(solver, []).append(found)
        if not series:
            return None
        svg = over(caption, series, styles, Edge(words.across, words.shown), Edge("a round", tick))
        return Picture(f"{family}-time", caption, svg)
    rows = [(line.title, _marks(line)) for line in lines]
    if not any(marks for _, marks in rows):
        return None
    return Picture(f"{family}-time", caption, dots(caption, rows, styles, Edge("a round", tick)))


def _marks(line: LineResult) -> list[tuple[str, PlotPoint]]:
    found = ((solver, _point(line, solver, 0.0)) for solver in line.order)
    # a row has its seconds on the horizontal axis
    return [(solver, PlotPoint(one.y, 0.0, one.high, one.kind)) for solver, one in found if one is not None]


def outcome(line: LineResult, solver: str) -> str:
    """Return the outcome of a solver on a line, in words."""
    one = line.solvers.get(solver)
    if one is None:
        return "not yet done"
    if one.status != "measured":
        return f"{one.status}: {one.reason}" if one.reason else one.status
    refused = sum(record["certified"] is not True for record in one.records)
    text = f"not certified in {refused} of {len(one.records)} rounds" if refused else "certified"
    outside = sum(not record.get("in_band", True) for record in one.records)
    text += f", loads outside the band in {outside} of {len(one.records)} rounds" if outside else ""
    return f"{text} ({one.reason})" if one.reason else text


def _largest_gap(line: LineResult, solver: str) -> float:
    """Return the largest gap of the counted rounds, as computed by the checker; NaN if a round has none."""
    gaps: list[float] = [record["checked_gap"] for record in line.measured_rounds(solver)]
    return max(gaps) if gaps and all(map(math.isfinite, gaps)) else math.nan


def _point(line: LineResult, solver: str, x: float) -> PlotPoint | None:
    """Return a solver's median and tail, or the limit it missed, as a point at `x`; None without times."""
    one = line.solvers.get(solver)
    if one is None or one.status in ("failed", "not run"):
        return None
    if one.status == "missed":
        return PlotPoint(x, line.limit, kind="missed")
    found = spread(seconds_of(line, solver))
    if not found["median"] > 0.0:
        return None
    return PlotPoint(
        x, found["median"], found["p99"], "certified" if line.certified(solver) else "uncertified"
    )


def table(title: str, lines: list[LineResult]) -> ReportTable:
    """Return a table of lines, with a row for each of their solvers."""
    rows = [_row(line, solver, first=not k) for line in lines for k, solver in enumerate(line.order)]
    return ReportTable(title, HEADS, tuple(rows), words=(0, 1, 8))


def _row(line: LineResult, solver: str, *, first: bool) -> Row:
    one = line.solvers.get(solver)
    head = line.title if first else ""
    if one is None or not one.records:
        return Row((head, solver, *[NOTHING] * 6, outcome(line, solver)), is_ours(solver))
    found = spread(seconds_of(line, solver))
    least = "≥ " if one.status == "missed" else ""
    return Row(
        (
            head,
            solver,
            least + seconds(found["median"]),
            least + seconds(found["p99"]),
            _ratio(line, solver),
            small(_largest_gap(line, solver)),
            megabytes(one.peak_memory_mb),
            seconds(one.compile_seconds),
            outcome(line, solver),
        ),
        is_ours(solver),
    )


def _ratio(line: LineResult, solver: str) -> str:
    """Return the ratio to the seconds of the line's first solver; a dash unless that is copter's."""
    first = line.order[0]
    if not is_ours(first) or first not in line.solvers or line.solvers[first].status != "measured":
        return NOTHING
    if solver == first or line.solvers[solver].status != "measured":
        return NOTHING
    middle, low, high = ratios(line, solver, first)
    return f"{times(middle)} ({times(low)} to {times(high)})"
