"""A claim for each family of lines: how the seconds of a round grow, and what that rests on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from copter.bench.report import cells
from copter.bench.report.looks import Look
from copter.bench.report.model import Claim, Command, Picture
from copter.bench.report.numbers import count, megabytes, share, tick
from copter.bench.report.pictures import Edge, Kind, Point, Shown, dots, over, profile
from copter.bench.suite.results import LineResult
from copter.bench.suite.statistics import performance_profile

LINES_OF_A_PROFILE = 4
"""A profile of fewer lines says less than their table."""
TAUS = np.logspace(0.0, 4.0, 161)


@dataclass(frozen=True)
class Words:
    """What a family is called, and where its lines stand.

    Attributes
    ----------
    axis : str
        Name in `LineResult.x`.
    across : str
        Label of that axis.
    shown : callable
        A value on it, as text.
    memory : bool
        Whether memory has a picture of its own.
    grows : bool
        Whether its lines are one program in several sizes, so that a picture may connect them.
    """

    title: str
    text: str
    axis: str = "columns"
    across: str = "columns of the program"
    shown: Shown = count
    memory: bool = False
    grows: bool = True


WORDS: Mapping[str, Words] = {
    "sia": Words(
        "Rounds of a GPU cluster",
        "Sia's program: every job chooses one configuration of GPUs. Each round jobs leave and arrive and "
        "nearly all costs move.",
    ),
    "exact": Words(
        "Integer allocations, proven optimal",
        "The same rounds, each allocation proven to be the best one.",
    ),
    "updates": Words(
        "Edits alone", "What a round's events cost to bring into the program, before anything is solved."
    ),
    "shards": Words(
        "Shards on servers",
        "Loads change each round, and shards move as little as they may to stay in balance. Every method "
        "goes on from its own last placement.",
    ),
    "traffic": Words(
        "Flows on a network", "Demands drift or links fail; flows are assigned to paths.", grows=False
    ),
    "shockwave": Words(
        "Plans of Shockwave", "Each round's window of the market is planned for all jobs, up to whole rounds."
    ),
    "lp": Words("General linear programs", "Programs that no domain here made."),
    "columns": Words(
        "Time and memory over the number of columns",
        "One kind of program in ever larger sizes.",
        memory=True,
    ),
    "churn": Words(
        "Time over churn",
        "The same program, of which from round to round a smaller or a larger share of the requests is "
        "replaced.",
        axis="churn",
        across="requests replaced a round",
        shown=share,
    ),
}


def claim(family: str, lines: list[LineResult], styles: Mapping[str, Look]) -> Claim:
    """Return the claim of a family.

    Parameters
    ----------
    lines : list of LineResult
        Its lines, one at least.
    styles : mapping of str to Look
    """
    words = WORDS[family]
    pictures = [_times(family, words, lines, styles)]
    if words.memory:
        pictures.append(_memory(family, words, lines, styles))
    if len(lines) >= LINES_OF_A_PROFILE:
        pictures.append(profile_of(family, f"{words.title}: performance profile", lines, styles))
    return Claim(
        family,
        words.title,
        f"{words.text} {_conditions(lines)}",
        tuple(picture for picture in pictures if picture is not None),
        (cells.table(words.title, lines),),
        tuple(Command(line.title, line.command) for line in lines),
    )


def profile_of(
    name: str, caption: str, lines: list[LineResult], styles: Mapping[str, Look]
) -> Picture | None:
    """Return the performance profile of some lines, if there is anything to draw.

    Parameters
    ----------
    lines : list of LineResult
    styles : mapping of str to Look
    """
    shares = performance_profile(lines, TAUS.tolist())
    often = [name for name in shares if 2 * sum(name in line.solvers for line in lines) >= len(lines)]
    if not often:
        return None
    steps = {solver: (TAUS.tolist(), shares[solver].tolist()) for solver in often}
    return Picture(
        f"{name}-profile",
        f"{caption}, of solvers that take part in half of the lines or more. How many of its lines a solver "
        "ends, certified, within so many times the seconds of the fastest.",
        profile(caption, steps, styles),
    )


def _conditions(lines: list[LineResult]) -> str:
    """Tolerance, threads, limit and the checker: once if they are the same for all lines."""
    tolerances = _range(f"{line.tolerance:g}" for line in lines)
    threads = _range(str(line.threads) for line in lines)
    limits = _range(f"{line.limit:g} s" for line in lines)
    checkers = " ".join(dict.fromkeys(line.checker.rstrip(".") + "." for line in lines if line.checker))
    same = f"Tolerance {tolerances}, threads {threads}, at most {limits} a solve, for every solver."
    return f"{same} Checker: {checkers}" if checkers else same


def _range(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _times(family: str, words: Words, lines: list[LineResult], styles: Mapping[str, Look]) -> Picture | None:
    caption = f"{words.title}: median seconds of a round, with the 99th percentile as whisker"
    places = {line.x.get(words.axis, math.nan) for line in lines}
    if words.grows and len(places) == len(lines) > 2 and all(place > 0.0 for place in places):
        series: dict[str, list[Point]] = {}
        for line in sorted(lines, key=lambda line: line.x[words.axis]):
            for solver in line.order:
                found = cells.point(line, solver, line.x[words.axis])
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


def _marks(line: LineResult) -> list[tuple[str, Point]]:
    found = ((solver, cells.point(line, solver, 0.0)) for solver in line.order)
    # a row has its seconds across
    return [(solver, Point(one.y, 0.0, one.high, one.kind)) for solver, one in found if one is not None]


def _memory(family: str, words: Words, lines: list[LineResult], styles: Mapping[str, Look]) -> Picture | None:
    caption = f"{words.title}: the most memory that the solver's process held"
    series: dict[str, list[Point]] = {}
    for line in sorted(lines, key=lambda line: line.x.get(words.axis, math.nan)):
        for solver, one in line.solvers.items():
            if one.status == "measured" and one.peak_memory_mb > 0.0 and words.axis in line.x:
                kind: Kind = "certified" if line.certified(solver) else "uncertified"
                series.setdefault(solver, []).append(Point(line.x[words.axis], one.peak_memory_mb, kind=kind))
    if not series:
        return None
    svg = over(caption, series, styles, Edge(words.across, words.shown), Edge("memory", megabytes))
    return Picture(f"{family}-memory", caption, svg)
