"""What the records of a suite say: medians and tails, means over lines, performance profiles, the verdict.

The seconds of a round are edit, solve and shim (:mod:`copter.bench.rounds`).  Only answers of equal quality
are compared: a solver counts on a line if every round that it played was answered in time and the line's
checker found each answer within the tolerance (:meth:`copter.bench.suite.results.LineResult.certified`).

- Shifted geometric mean of seconds t over lines, exp(mean log(t + s)) - s, as in Mittelmann's benchmarks of
  LP solvers; the shift keeps lines of a few microseconds from deciding it.  A line that a solver has no
  certified answer to counts with the line's limit: the mean is then a lower bound.
- Performance profile (Dolan and More 2002, Mathematical Programming 91): the share of lines on which a
  solver's seconds are at most tau times those of the fastest.
- The verdict on a line: copter's seconds against those of the fastest other solver, round by round, as all
  have the same rounds; the spread is the smallest and the largest ratio of a round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.bench.suite.results import LineResult, SuiteResult

SHIFT = 1e-3
"""Seconds."""
OURS = "copter"
"""What the names of copter's own solvers begin with."""


@dataclass(frozen=True)
class Spread:
    """Seconds of the rounds of a solver on a line.

    Attributes
    ----------
    p50, p99, least, most : float
        NaN without rounds.
    """

    rounds: int
    p50: float
    p99: float
    least: float
    most: float


@dataclass(frozen=True)
class Verdict:
    """Who is the fastest on a line at equal certified quality.

    Attributes
    ----------
    ours : str
        The solver of copter that is held against the others: the line's first.
    rival : str
        The fastest of the others with a certified answer; empty if there is none.
    ratio, low, high : float
        Seconds of the rival over ours: the median over the rounds, the smallest and the largest; above 1
        copter is faster.  Infinite without a rival, NaN without a certified answer of ours.
    fastest : str
        Of all, copter's variants included; empty if nobody has a certified answer.
    """

    line: str
    family: str
    ours: str
    rival: str
    ratio: float
    low: float
    high: float
    fastest: str

    @property
    def won(self) -> bool:
        """Whether copter is at least as fast as every other solver with a certified answer."""
        return self.ratio >= 1.0


def seconds_of(line: LineResult, solver: str) -> NDArray[np.float64]:
    """Seconds of each round that counts.

    Returns
    -------
    (rounds,) ndarray
    """
    return np.array([record["t_total"] for record in line.measured_rounds(solver)], np.float64)


def spread(values: Iterable[float]) -> Spread:
    """Median, 99th percentile, least and most of the numbers that are finite."""
    array = np.fromiter(values, np.float64)
    array = array[np.isfinite(array)]
    if not array.size:
        return Spread(0, *[math.nan] * 4)
    p50, p99 = np.percentile(array, [50, 99]).tolist()
    return Spread(array.size, p50, p99, float(array.min()), float(array.max()))


def typical(line: LineResult, solver: str) -> float:
    """Median seconds of a round, infinite without a certified answer to each."""
    return spread(seconds_of(line, solver)).p50 if line.certified(solver) else math.inf


def shifted_geometric_mean(values: Sequence[float], shift: float = SHIFT) -> float:
    """Shifted geometric mean of seconds; NaN of none.

    Parameters
    ----------
    values : sequence of float
    shift : float
        Seconds.
    """
    if not len(values):
        return math.nan
    return float(np.exp(np.mean(np.log(np.asarray(values, np.float64) + shift))) - shift)


def means(lines: Sequence[LineResult], shift: float = SHIFT) -> dict[str, tuple[float, int, int]]:
    """Shifted geometric mean of a solver's medians over the lines that it takes part in.

    Parameters
    ----------
    lines : sequence of LineResult
    shift : float
        Seconds.

    Returns
    -------
    dict of solver to (float, int, int)
        The mean, on how many lines it has certified answers, and on how many it takes part.  Where it has
        none the limit of the line's rounds counts.
    """
    found = {}
    for solver in takes_part(lines):
        of = [line for line in lines if solver in line.solvers]
        times = [typical(line, solver) for line in of]
        counted = [min(time, line.limit) for time, line in zip(times, of, strict=True)]
        mean = shifted_geometric_mean(counted, shift)
        found[solver] = mean, sum(map(math.isfinite, times)), len(of)
    return found


def takes_part(lines: Sequence[LineResult]) -> list[str]:
    """Solvers that were run on one of the lines at least."""
    return list(
        dict.fromkeys(name for line in lines for name, one in line.solvers.items() if one.status != "not run")
    )


def performance_profile(lines: Sequence[LineResult], taus: Sequence[float]) -> dict[str, NDArray[np.float64]]:
    """Share of lines that a solver ends within ``tau`` times the seconds of the fastest.

    Parameters
    ----------
    lines : sequence of LineResult
        Those to which nobody has a certified answer do not count.
    taus : (k,) sequence of float

    Returns
    -------
    dict of solver to (k,) ndarray
        Each over the lines that it takes part in.
    """
    ratios: dict[str, list[float]] = {solver: [] for solver in takes_part(lines)}
    for line in lines:
        times = {solver: typical(line, solver) for solver in line.solvers if solver in ratios}
        best = min(times.values(), default=math.inf)
        if math.isfinite(best):
            for solver, time in times.items():
                ratios[solver].append(time / best)
    grid = np.asarray(taus, np.float64)
    return {solver: (np.array(each)[:, None] <= grid).mean(axis=0) for solver, each in ratios.items() if each}


def verdict(line: LineResult) -> Verdict:
    """Who is the fastest on a line; see :class:`Verdict`."""
    ours = line.order[0]
    times = {solver: typical(line, solver) for solver in line.solvers}
    certified = {solver: time for solver, time in times.items() if math.isfinite(time)}
    others = {solver: time for solver, time in certified.items() if not solver.startswith(OURS)}
    rival = min(others, key=lambda solver: others[solver], default="")
    fastest = min(certified, key=lambda solver: certified[solver], default="")
    ratio = low = high = math.nan
    if ours in certified:
        ratio = low = high = math.inf
        if rival:
            ratio, low, high = ratios(line, rival, ours)
    return Verdict(line.name, line.family, ours, rival, ratio, low, high, fastest)


def ratios(line: LineResult, solver: str, to: str) -> tuple[float, float, float]:
    """Seconds of a solver over those of another, round by round: median, least and most.

    Returns
    -------
    (float, float, float)
    """
    each, base = seconds_of(line, solver), seconds_of(line, to)
    both = min(each.size, base.size)
    found = spread(each[:both] / base[:both])
    return found.p50, found.least, found.most


def verdicts(suite: SuiteResult) -> list[Verdict]:
    """The verdict on each line that copter was to solve, in order.

    Returns
    -------
    list of Verdict
    """
    return [verdict(line) for line in suite.lines.values() if line.solvers and line.order[0].startswith(OURS)]


def not_fastest(suite: SuiteResult) -> list[Verdict]:
    """Verdicts of the lines on which copter is not the fastest, or has no certified answer itself."""
    return [one for one in verdicts(suite) if not one.won]


def families(suite: SuiteResult) -> dict[str, list[LineResult]]:
    """The lines of each family, in order."""
    found: dict[str, list[LineResult]] = {}
    for line in suite.lines.values():
        found.setdefault(line.family, []).append(line)
    return found
