"""Families of column generation and cut generation: the optimum of a round determines the next round."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from copter.bench.sequences.family import SequenceRounds
from copter.bench.sequences.program import SequenceProgram

_NEGATIVE = 1e-7
"""Reduced cost, and violation of a cut, below which a column or a cut is not added."""
_IDLE = 4
"""Rounds after which an idle column or a slack cut is removed."""


# ---- cutting stock -----------------------------------------------------------------------------------------


class _Stock:
    """Restricted master program of cutting stock: least number of rolls of width `roll` for all orders."""

    def __init__(self, rng: np.random.Generator, widths: int, roll: int) -> None:
        self.program, self.rng, self.roll = SequenceProgram(), rng, roll
        self.rows: dict[int, str] = {}
        self.patterns: dict[str, dict[int, int]] = {}
        self.idle: dict[str, int] = {}
        for width in rng.choice(np.arange(roll // 12, roll // 2), widths, replace=False).tolist():
            self.add_width(width)

    def add_width(self, width: int) -> None:
        """Add an order of a new width, with the pattern of this width alone."""
        self.rows[width] = self.program.add_row(float(self.rng.integers(20, 200)), math.inf)
        self.add_pattern({width: self.roll // width})

    def add_pattern(self, pattern: dict[int, int]) -> None:
        """Add a pattern: the number of pieces by width."""
        entries = {self.rows[width]: float(count) for width, count in pattern.items()}
        name = self.program.add_column(1.0, math.inf, entries)
        self.patterns[name], self.idle[name] = pattern, 0

    def replace_width(self) -> None:
        """Remove a random width with all its patterns, and add a new one."""
        width = int(self.rng.choice(list(self.rows)))
        for name in [name for name, pattern in self.patterns.items() if width in pattern]:
            self._remove(name)
        self.program.remove_row(self.rows.pop(width))
        free = [w for w in range(self.roll // 12, self.roll // 2) if w not in self.rows and w != width]
        self.add_width(int(self.rng.choice(free)))
        for each in self.rows:  # every width keeps the pattern of it alone
            alone = {each: self.roll // each}
            if alone not in self.patterns.values():
                self.add_pattern(alone)

    def change_orders(self) -> None:
        """Draw new orders of a fifth of the widths."""
        widths = list(self.rows)
        for width in self.rng.choice(widths, len(widths) // 5, replace=False).tolist():
            self.program.set_sides(self.rows[width], float(self.rng.integers(20, 200)), math.inf)

    def drop_idle(self, x: Mapping[str, float]) -> None:
        """Remove patterns of several widths that were 0 in the last rounds."""
        for name in list(self.patterns):
            self.idle[name] = self.idle[name] + 1 if x.get(name, 0.0) == 0.0 else 0
            if self.idle[name] >= _IDLE and len(self.patterns[name]) > 1:
                self._remove(name)

    def _remove(self, name: str) -> None:
        self.program.remove_column(name)
        del self.patterns[name], self.idle[name]

    def best_patterns(self, y: Mapping[str, float], most: int) -> list[dict[int, int]]:
        """Return patterns with negative reduced cost: the best one, and the best ones with other widths."""
        values = {width: -y.get(row, 0.0) for width, row in self.rows.items()}
        found: list[dict[int, int]] = []
        while len(found) < most and values:
            value, pattern = _best_pattern(values, self.roll)
            if value <= 1.0 + _NEGATIVE:
                break
            found.append(pattern)
            for width in pattern:
                del values[width]
        return found


def _best_pattern(values: Mapping[int, float], roll: int) -> tuple[float, dict[int, int]]:
    """Return the most valuable pattern and its value: an unbounded knapsack, by dynamic programming."""
    best, taken = np.zeros(roll + 1), np.zeros(roll + 1, np.int64)
    widths = np.array(list(values))
    worth = np.array(list(values.values()))
    for room in range(1, roll + 1):
        best[room], taken[room] = best[room - 1], 0
        fits = widths <= room
        if fits.any():
            total = np.where(fits, worth + best[np.maximum(room - widths, 0)], -np.inf)
            at = int(total.argmax())
            if total[at] > best[room]:
                best[room], taken[room] = total[at], widths[at]
    pattern: dict[int, int] = {}
    room = roll
    while room > 0:
        width = int(taken[room])
        if width:
            pattern[width] = pattern.get(width, 0) + 1
        room -= max(width, 1)
    return float(best[roll]), pattern


def cutting_stock(seed: int, widths: int = 60, roll: int = 1000, most: int = 8) -> SequenceRounds:
    """Yield the rounds of column generation for cutting stock."""
    model = _Stock(np.random.default_rng(seed), widths, roll)
    while True:
        optimum = yield model.program
        patterns = model.best_patterns(optimum.y, most)
        model.drop_idle(optimum.x)
        for pattern in patterns:
            model.add_pattern(pattern)
        if not patterns:
            model.change_orders()
            model.replace_width()


# ---- cover cuts --------------------------------------------------------------------------------------------


class _Covers:
    """Relaxation of the assignment of items to knapsacks with cover cuts; profits are negated costs."""

    def __init__(self, rng: np.random.Generator, items: int, knapsacks: int) -> None:
        self.program, self.rng = SequenceProgram(), rng
        self.weight = rng.integers(20, 100, (knapsacks, items))
        self.room = (0.4 * self.weight.sum(axis=1) / knapsacks).astype(np.int64)
        self.profit = self.weight.mean(axis=0) * rng.uniform(0.8, 1.2, (knapsacks, items))
        limits = [self.program.add_row(-math.inf, float(room)) for room in self.room]
        once = [self.program.add_row(-math.inf, 1.0) for _ in range(items)]
        self.names = [
            [
                self.program.add_column(
                    -float(self.profit[i, j]), 1.0, {limits[i]: float(self.weight[i, j]), once[j]: 1.0}
                )
                for j in range(items)
            ]
            for i in range(knapsacks)
        ]
        self.cuts: dict[str, tuple[list[str], int]] = {}
        self.slack: dict[str, int] = {}

    def separate(self, x: Mapping[str, float]) -> list[tuple[list[str], int]]:
        """Return violated cuts, at most one a knapsack: an extended cover by a greedy choice."""
        found = []
        for i, names in enumerate(self.names):
            value, weight = np.array([x.get(name, 0.0) for name in names]), self.weight[i]
            order = np.argsort((1.0 - value) / weight, kind="stable")
            size = int(np.searchsorted(np.cumsum(weight[order]), self.room[i], side="right")) + 1
            cover = order[:size]
            for j in cover[np.argsort(value[cover], kind="stable")]:  # a minimal cover
                rest = cover[cover != j]
                if weight[rest].sum() > self.room[i]:
                    cover = rest
            heavy = np.flatnonzero(weight >= weight[cover].max())
            every = np.union1d(cover, heavy)
            if value[every].sum() > cover.size - 1 + 1e-3:
                found.append(([names[j] for j in every.tolist()], int(cover.size) - 1))
        return found

    def drop_slack(self, x: Mapping[str, float]) -> None:
        """Remove cuts that were slack in the last rounds."""
        for row, (names, right) in list(self.cuts.items()):
            used = sum(x.get(name, 0.0) for name in names)
            self.slack[row] = self.slack[row] + 1 if used < right - _NEGATIVE else 0
            if self.slack[row] >= _IDLE:
                self.program.remove_row(row)
                del self.cuts[row], self.slack[row]

    def add(self, cut: tuple[list[str], int]) -> None:
        """Add a cut."""
        names, right = cut
        row = self.program.add_row(-math.inf, float(right), dict.fromkeys(names, 1.0))
        self.cuts[row], self.slack[row] = cut, 0

    def change_profits(self) -> None:
        """Draw new profits of a fifth of the items."""
        items = self.profit.shape[1]
        for j in self.rng.choice(items, items // 5, replace=False).tolist():
            for i, names in enumerate(self.names):
                self.profit[i, j] *= float(self.rng.uniform(0.9, 1.1))
                self.program.set_cost(names[j], -float(self.profit[i, j]))


def cover_cuts(seed: int, items: int = 150, knapsacks: int = 30) -> SequenceRounds:
    """Yield the rounds of cut generation for an assignment to knapsacks."""
    model = _Covers(np.random.default_rng(seed), items, knapsacks)
    while True:
        optimum = yield model.program
        cuts = model.separate(optimum.x)
        model.drop_slack(optimum.x)
        for cut in cuts:
            model.add(cut)
        if not cuts:
            model.change_profits()
