"""Comparison of two folders of results, line by line: the ratio of round times, and its uncertainty.

Each round is compared with the same round of the other folder.  The ratio of a line is the median over the
rounds of new seconds divided by old seconds.  The interval contains the central 95% of this median over
resampled rounds (bootstrap, with a fixed seed). A regression is a ratio whose whole interval is above the
threshold, or a lost certificate. Resampling cannot distinguish a slower solver from a slower machine, so
differences of machine and settings are listed first.

Source: B. Efron and R. Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from copter.arrays import Floats
from copter.bench.conditions import differences, differing
from copter.bench.result_files import LineResult, SuiteResult
from copter.bench.solvers import is_ours
from copter.bench.statistics import median_seconds, seconds_of

_RESAMPLES = 2000
_ENDS = (2.5, 97.5)
_CONDITIONS = ("tolerance", "threads", "rounds", "left_out", "limit", "x", "checker")
"""Conditions of a line; if one of them differs, the times are not comparable."""


@dataclass(frozen=True)
class Change:
    """Change of a solver on a line from the old to the new results.

    `old`, `new`: median seconds of a round. `ratio`, `low`, `high`: ratio of new to old seconds, and the ends
    of its interval; NaN unless both folders have the same number of rounds. `outcome`: "certificate lost",
    "slower" or "faster" if the whole interval is beyond the threshold, or "same".
    """

    line: str
    solver: str
    old: float
    new: float
    ratio: float
    low: float
    high: float
    outcome: str

    @property
    def regressed(self) -> bool:
        """True if the new result is slower or has lost its certificate."""
        return self.outcome in ("certificate lost", "slower")


def compare(old: SuiteResult, new: SuiteResult, threshold: float = 1.1) -> tuple[list[str], list[Change]]:
    """Return, in words, the differences of two folders' conditions, and the changes of copter's solvers.

    `threshold`: ratio, above 1, that counts as slower; its inverse counts as faster.
    """
    found, changes = differences(old, new), []
    for name in dict.fromkeys([*old.lines, *new.lines]):
        if name not in old.lines or name not in new.lines:
            found.append(f"line {name} is only in the {'old' if name in old.lines else 'new'} folder")
            continue
        before, after = old.lines[name], new.lines[name]
        then, now = ({one: getattr(line, one) for one in _CONDITIONS} for line in (before, after))
        found += [f"line {name}, {what} {was}, not {is_now}" for what, was, is_now in differing(then, now)]
        both = [solver for solver in before.order if solver in after.solvers and is_ours(solver)]
        changes += [_change(name, solver, before, after, threshold) for solver in both]
    return found, changes


def ratio_with_interval(old: Floats, new: Floats) -> tuple[float, float, float]:
    """Return the ratio of new to old seconds (rounds,), and the ends of its interval."""
    if not old.size or old.size != new.size:
        return math.nan, math.nan, math.nan
    logs = np.log(new / old)
    drawn = logs[np.random.default_rng(0).integers(logs.size, size=(_RESAMPLES, logs.size))]
    low, high = np.exp(np.percentile(np.median(drawn, axis=1), _ENDS)).tolist()
    return math.exp(float(np.median(logs))), low, high


def _change(name: str, solver: str, before: LineResult, after: LineResult, threshold: float) -> Change:
    ratio, low, high = ratio_with_interval(seconds_of(before, solver), seconds_of(after, solver))
    outcome = "slower" if low > threshold else "faster" if high < 1.0 / threshold else "same"
    if before.certified(solver) and not after.certified(solver):
        outcome = "certificate lost"
    medians = median_seconds(before, solver), median_seconds(after, solver)
    return Change(name, solver, *medians, ratio, low, high, outcome)
