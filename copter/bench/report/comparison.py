"""Comparison of two folders of results, line by line: the ratio of round times, and its uncertainty.

If both folders have equally many rounds, each round is compared with itself. The ratio is then the median of
new over old seconds, round by round. Its uncertainty is the central 95% of that median over resampled rounds
(bootstrap, with a fixed seed); for three rounds the interval ends are the least and the largest ratio.  If
the numbers of rounds differ, the sides are resampled separately, and the ratio is that of the medians.

A regression is a ratio whose lower end is above the threshold, a lost certificate, or a lost answer.
Resampling cannot distinguish a slower solver from a slower machine, such as a busy one. Therefore differences
of machine and settings are listed first.

Source: B. Efron and R. Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.bench.conditions import differing, flat
from copter.bench.result_files import LineResult, SuiteResult
from copter.bench.solvers import is_ours
from copter.bench.statistics import seconds_of, spread

_Outcome: TypeAlias = Literal[
    "slower", "faster", "same", "certificate lost", "certificate won", "answer lost", "gone", "new", "-"
]
_REGRESSIONS: tuple[_Outcome, ...] = ("slower", "certificate lost", "answer lost")
_THRESHOLD = 1.1
_RESAMPLES = 2000
_ENDS = (2.5, 97.5)
_CONDITIONS = ("tolerance", "threads", "rounds", "left_out", "limit", "x", "checker")
"""Conditions of a line; if one of them differs, times cannot be compared."""


@dataclass(frozen=True)
class _Change:
    """Change of a solver on a line between the old and the new results.

    `old`, `new`: median seconds of a round; NaN without rounds. `ratio`, `low`, `high`: new over old, with
    the ends of its interval. `memory`: peak memory, new over old; NaN if one was not measured. `outcome`: the
    first that applies. ``gone`` or ``new``: only one side was run. ``certificate lost``, ``certificate won``
    or ``answer lost``: the new side differs in this. ``-``: the ratio cannot be computed. ``slower`` or
    ``faster``: the whole interval is beyond the threshold. ``same``: otherwise. `reason`: why the solver has
    no answer in the new results.
    """

    line: str
    solver: str
    old: float
    new: float
    ratio: float
    low: float
    high: float
    memory: float
    outcome: _Outcome
    reason: str = ""

    @property
    def regressed(self) -> bool:
        """True if the new result is worse."""
        return self.outcome in _REGRESSIONS


@dataclass(frozen=True)
class Comparison:
    """Differences of machine, versions, settings and conditions of two folders, and the changes of times."""

    differences: tuple[str, ...]
    changes: tuple[_Change, ...]

    @property
    def regressions(self) -> list[_Change]:
        """Changes that are regressions."""
        return [change for change in self.changes if change.regressed]

    def means(self) -> dict[str, tuple[float, int]]:
        """Return, by solver, the geometric mean of the ratios and the number of lines."""
        found: dict[str, list[float]] = {}
        for change in self.changes:
            if math.isfinite(change.ratio) and change.ratio > 0.0:
                found.setdefault(change.solver, []).append(math.log(change.ratio))
        return {solver: (math.exp(sum(logs) / len(logs)), len(logs)) for solver, logs in found.items()}


def compare(
    old: SuiteResult, new: SuiteResult, *, threshold: float = _THRESHOLD, all_solvers: bool = False
) -> Comparison:
    """Compare two folders of results.

    `threshold`: ratio, above 1, that counts as slower; its inverse counts as faster. `all_solvers`: True to
    include the other solvers, not only copter's.
    """
    changes = []
    for name in dict.fromkeys([*old.lines, *new.lines]):
        before, after = old.lines.get(name), new.lines.get(name)
        solvers = dict.fromkeys(
            solver for line in (before, after) if line is not None for solver in line.order
        )
        changes += [
            _change(name, solver, before, after, threshold)
            for solver in solvers
            if all_solvers or is_ours(solver)
        ]
    return Comparison(tuple(_differences(old, new)), tuple(changes))


def ratio_with_spread(old: NDArray[np.float64], new: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the ratio of new to old seconds (rounds,), with the ends of its interval.

    The result is NaN unless both have rounds. Medians are taken of logarithms, so that the ratio of old to
    new is the inverse.
    """
    if not old.size or not new.size:
        return math.nan, math.nan, math.nan
    rng = np.random.default_rng(0)
    before, after = np.log(old), np.log(new)
    if old.size == new.size:
        middle, medians = _medians(after - before, rng)
    else:
        (above, over), (below, under) = _medians(after, rng), _medians(before, rng)
        middle, medians = above - below, over - under
    low, high = np.exp(np.percentile(medians, _ENDS)).tolist()
    return math.exp(middle), low, high


def _medians(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, NDArray[np.float64]]:
    """Return the median, and the medians of resampled values."""
    drawn = values[rng.integers(values.size, size=(_RESAMPLES, values.size))]
    return float(np.median(values)), np.median(drawn, axis=1)


def _change(
    name: str, solver: str, before: LineResult | None, after: LineResult | None, threshold: float
) -> _Change:
    old, new = _seconds(before, solver), _seconds(after, solver)
    ratio, low, high = ratio_with_spread(old, new)
    return _Change(
        name,
        solver,
        spread(old)["median"],
        spread(new)["median"],
        ratio,
        low,
        high,
        _memory(after, solver) / _memory(before, solver),
        _outcome(solver, before, after, (low, high), threshold),
        "" if after is None or solver not in after.solvers else after.solvers[solver].reason,
    )


def _outcome(
    solver: str,
    before: LineResult | None,
    after: LineResult | None,
    ends: tuple[float, float],
    threshold: float,
) -> _Outcome:
    if before is None or solver not in before.solvers:
        return "new" if after is not None and solver in after.solvers else "-"
    if after is None or solver not in after.solvers:
        return "gone"
    then, now = before.certified(solver), after.certified(solver)
    if then != now:
        return "certificate lost" if then else "certificate won"
    if before.solvers[solver].status == "measured" != after.solvers[solver].status:
        return "answer lost"
    if not all(map(math.isfinite, ends)):
        return "-"
    if ends[0] > threshold:
        return "slower"
    return "faster" if ends[1] < 1.0 / threshold else "same"


def _seconds(line: LineResult | None, solver: str) -> NDArray[np.float64]:
    if line is None or solver not in line.solvers or line.solvers[solver].status != "measured":
        return np.empty(0)
    found = seconds_of(line, solver)
    return found if bool((found > 0.0).all()) else np.empty(0)


def _memory(line: LineResult | None, solver: str) -> float:
    """Return the peak memory; NaN if it was not measured."""
    if line is None or solver not in line.solvers:
        return math.nan
    return line.solvers[solver].peak_memory_mb or math.nan


def _differences(old: SuiteResult, new: SuiteResult) -> list[str]:
    """Return differences of machine, settings and lines in words, those of the machine first."""
    found = [
        *(("machine ", one) for one in differing(flat(old.machine), flat(new.machine))),
        *(("", one) for one in differing({"profile": old.profile}, {"profile": new.profile})),
        *(("", one) for one in differing({"copter": old.version}, {"copter": new.version})),
        *(("setting ", one) for one in differing(old.settings, new.settings)),
    ]
    for name in old.lines.keys() & new.lines.keys():
        then, now = (
            {one: getattr(lines[name], one) for one in _CONDITIONS} for lines in (old.lines, new.lines)
        )
        found += [(f"line {name}, ", one) for one in differing(then, now)]
    only = [
        f"only {which}: {', '.join(missing)}"
        for which, missing in (
            ("in the old folder", [name for name in old.lines if name not in new.lines]),
            ("in the new folder", [name for name in new.lines if name not in old.lines]),
        )
        if missing
    ]
    return [*(f"{what}{name}: {then} and {now}" for what, (name, then, now) in found), *only]
