"""The first screen: what was measured, on how many lines copter is the fastest, and where it is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from copter.bench.report.cells import READING
from copter.bench.report.families import WORDS, profile_of
from copter.bench.report.looks import Look, is_copter
from copter.bench.report.model import Claim, FirstScreen, Lost, Picture, Row, Table
from copter.bench.report.numbers import NOTHING, seconds, tick, times
from copter.bench.report.pictures import Edge, Point, dots
from copter.bench.suite.claims import unconfirmed
from copter.bench.suite.results import LineResult, SuiteResult
from copter.bench.suite.statistics import (
    SHIFT,
    Verdict,
    families,
    means,
    seconds_of,
    spread,
    takes_part,
    verdicts,
)

FASTER, SLOWER = "copter faster", "copter slower"
LOOKS: Mapping[str, Look] = {
    FASTER: Look("copter", "o", "", 2.2),
    SLOWER: Look("highs", "D", "", 2.0),
}
DEFINITION = (
    "Equal certified quality: a solver counts on a line only if it answered every round that it played in "
    "time and one checker, the same for all, found each answer to be within the line's tolerance. A solver "
    "plays three rounds at least, and goes on until its seconds on the line are used up; where that is "
    "before the last round, its outcome says so. Compared are the seconds of whole rounds, edit, solve and "
    "shim, each round with itself, over those that both played."
)


def first_screen(suite: SuiteResult, notes: Mapping[str, str]) -> FirstScreen:
    """Return the first screen.

    Parameters
    ----------
    notes : mapping of str to str
        Why copter is not the fastest on a line, by its name.
    """
    found = verdicts(suite)
    rounds = sum(len(one.records) for line in suite.lines.values() for one in line.solvers.values())
    solvers = takes_part(list(suite.lines.values()))
    kinds = [f"{WORDS[family].title} ({len(lines)})" for family, lines in families(suite).items()]
    measured = (
        f"copter {suite.version} and {sum(not is_copter(name) for name in solvers)} other solvers on "
        f"{len(suite.lines)} lines, {rounds:,} rounds in all, on {suite.begun[:10]} in "
        f"{seconds(suite.seconds)}; the profile “{suite.profile}”. Lines by kind: {', '.join(kinds)}."
    )
    return FirstScreen(
        f"copter {suite.version}: {suite.profile} benchmark",
        measured,
        machine_text(suite.machine),
        _verdict(found),
        tuple(_lost(suite.lines[one.line], one, notes) for one in found if not one.won),
        tuple(_remarks(suite)),
        _ratios(suite, found),
    )


def machine_text(machine: Mapping[str, Any]) -> str:
    """Processor, memory and system in a sentence.

    Parameters
    ----------
    machine : mapping
        Of :func:`copter.bench.machine.machine`.
    """
    return (
        f"{machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB, {machine['system']} "
        f"{machine['architecture']}."
    )


def _verdict(found: list[Verdict]) -> str:
    won = [one for one in found if one.won]
    alone = sum(not one.rival for one in won)
    text = f"On {len(won)} of {len(found)} lines copter is the fastest at equal certified quality"
    if alone:
        text += f"; on {alone} of these no other solver has certified answers to all that it played"
    return text + "."


def _lost(line: LineResult, one: Verdict, notes: Mapping[str, str]) -> Lost:
    if math.isnan(one.ratio):
        text = f"{one.ours} has no certified answer to every round that it played"
        if one.fastest:
            median = spread(seconds_of(line, one.fastest)).p50
            text += f"; the fastest that has is {one.fastest}, {seconds(median)} a round"
    else:
        ours, theirs = (seconds(spread(seconds_of(line, name)).p50) for name in (one.ours, one.rival))
        text = (
            f"{one.ours} takes {times(1.0 / one.ratio)} the seconds of {one.rival} "
            f"({times(1.0 / one.high)} to {times(1.0 / one.low)} over the rounds; medians {ours} and "
            f"{theirs})"
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
        remarks.append(f"Not complete. Still to be measured: {'; '.join(todo)}.")
    there = [(line, solver, one) for line in suite.lines.values() for solver, one in line.solvers.items()]
    refused = [
        f"{solver} on {line.name} ({wrong} of {len(one.records)} rounds)"
        for line, solver, one in there
        if (wrong := len(unconfirmed(one)))
    ]
    if refused:
        remarks.append(
            "Claimed to be solved where the checker found that the answer is not within the tolerance: "
            f"{', '.join(refused)}. None of these counts."
        )
    failed = [
        f"{solver} on {line.name} ({one.reason})"
        for line, solver, one in there
        if one.status == "failed" and is_copter(solver)
    ]
    if failed:
        remarks.append(f"Failed: {', '.join(failed)}.")
    return remarks


def _ratios(suite: SuiteResult, found: list[Verdict]) -> Picture | None:
    """A row for each family, a mark for each line that has a rival."""
    rows: dict[str, list[tuple[str, Point]]] = {}
    for one in found:
        if math.isfinite(one.ratio):
            side = FASTER if one.won else SLOWER
            rows.setdefault(WORDS[suite.lines[one.line].family].title, []).append(
                (side, Point(one.ratio, 0.0))
            )
    if not rows:
        return None
    caption = "Seconds of the fastest other solver over copter's, by line; right of 1× copter is faster"
    across = Edge("the fastest other solver over copter", lambda ratio: f"{ratio:g}×")
    return Picture("verdict", caption, dots(caption, list(rows.items()), LOOKS, across, mark=1.0))


def overall(suite: SuiteResult, styles: Mapping[str, Look]) -> Claim:
    """Return the claim over all lines: shifted geometric means and the performance profile.

    Parameters
    ----------
    styles : mapping of str to Look
    """
    lines = list(suite.lines.values())
    found = families(suite)
    by_family = {family: means(of) for family, of in found.items()}
    everywhere = means(lines)
    labels = {name: one.label for line in lines for name, one in line.solvers.items()}
    rows = [
        Row(
            (solver, labels[solver], f"{certified} of {of}", seconds(mean))
            + tuple(seconds(by_family[family].get(solver, (math.nan,))[0]) for family in found),
            is_copter(solver),
        )
        for solver, (mean, certified, of) in sorted(everywhere.items(), key=lambda one: one[1][0])
    ]
    picture = profile_of("all", "All lines: performance profile", lines, styles)
    heads = ("solver", "which is", "certified on", "all its lines", *(family for family in found))
    note = (
        f"Shifted geometric mean (shift {tick(SHIFT)}) of the median seconds of a round, over the lines "
        "that the solver takes part in. Where it has no certified answer, or was not asked because it "
        "missed a smaller line, the line’s limit counts, so that its mean is at least that. Solvers that "
        f"take part in other lines are not to be compared by their means; {NOTHING}: in no line."
    )
    return Claim(
        "all",
        "All lines together",
        f"{DEFINITION} {READING}",
        (picture,) if picture is not None else (),
        (Table("Shifted geometric means", heads, tuple(rows), words=(0, 1), note=note),),
    )
