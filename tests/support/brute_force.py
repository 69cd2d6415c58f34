"""Small integer programs of many kinds, and their optima by enumeration; copter has no part in either."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

BYTES = 2.0**30
KINDS = ("links", "semi", "bytes", "equality", "big-m", "whole", "semi-whole")


@dataclass
class Program:
    """The arguments of ``milp``, with the kinds of difficulty that the program has."""

    c: np.ndarray
    integrality: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    A: np.ndarray
    low: np.ndarray
    high: np.ndarray
    unit: float
    kinds: Counter = field(default_factory=Counter)

    def arguments(self):
        return {
            "c": self.c,
            "integrality": self.integrality,
            "bounds": (self.lower, self.upper),
            "constraints": (self.A, self.low, self.high),
        }


def drawn(seed: int) -> Program:
    """A program of on/off columns, amounts that they switch, a demand and some rows beside."""
    rng = np.random.default_rng(seed)
    kinds: Counter = Counter()
    n = int(rng.integers(2, 5))
    unit = float(rng.choice([1.0, 1.0, BYTES]))
    step = float(rng.choice([1.0, 0.5, 0.1]))
    cap = rng.integers(5, 60, n) * step
    fraction = cap != np.rint(cap)
    kinds["fractions"] += int(fraction.any())
    if unit != 1.0:
        cap, kinds["bytes"] = cap * unit + rng.integers(0, 1000, n), 1
    integrality, lower, upper, cost, rows = [], [], [], [], []
    width = 2 * n + 1

    def column(kind, low, high, price):
        integrality.append(kind)
        lower.append(low)
        upper.append(high)
        cost.append(price)
        return len(cost) - 1

    def row(entries, low, high):
        line = np.zeros(width)
        for j, value in entries:
            line[j] += value
        rows.append((line, low, high))

    amounts = []
    for k in range(n):
        price = float(rng.integers(1, 9)) / unit
        kind = rng.choice(["link", "link", "big-m", "semi", "semi-whole"])
        if kind == "semi-whole" and unit != 1.0:
            kind = "semi"
        if kind in ("link", "big-m"):
            on = column(1, 0, 1, float(rng.integers(0, 9)))
            amount = column(0, 0, np.inf if kind == "link" else cap[k], price)
            large = cap[k] if kind == "link" else float(rng.choice([1e4, 1e6])) * unit
            row([(amount, 1.0), (on, -large)], -np.inf, 0.0)
            kinds["links" if kind == "link" else "big-m"] += 1
        elif kind == "semi":
            endless = rng.random() < 0.3
            least = cap[k] * float(rng.choice([0.2, 0.5]))
            amount = column(2, least, np.inf if endless else cap[k], price * float(rng.choice([1, -1])))
            if endless:
                row([(amount, 1.0)], -np.inf, cap[k])
            kinds["semi"] += 1
        else:
            amount = column(3, 2.0, 2.0 + float(rng.integers(1, 4)), price)
            kinds["semi-whole"] += 1
        amounts.append(amount)
    if rng.random() < 0.5:
        amounts.append(column(1, 0, float(rng.integers(1, 4)), float(rng.integers(-3, 9))))
        kinds["whole"] += 1
    total = float(np.rint(cap.sum() * rng.uniform(0.1, 0.9) / (unit * step))) * unit * step
    equal = rng.random() < 0.5
    row([(j, 1.0 if integrality[j] != 1 else unit) for j in amounts], total, total if equal else np.inf)
    kinds["equality"] += int(equal)
    if rng.random() < 0.6:
        use = rng.integers(0, 4, len(cost))
        scale = [1.0 if integrality[j] in (1, 3) else unit for j in range(len(cost))]
        reach = float(rng.integers(10, 200)) * step
        row([(j, use[j] / scale[j]) for j in range(len(cost))], -np.inf, reach)
    size = len(cost)
    A = np.array([line[:size] for line, _, _ in rows])
    low, high = (np.array([each[k] for each in rows]) for k in (1, 2))
    vectors = (np.array(each, float) for each in (cost, integrality, lower, upper))
    return Program(*vectors, A, low, high, unit, kinds)


def optimum(program: Program) -> float:
    """The least objective over all integral and on/off decisions; infinite if there is none."""
    choices = []
    for kind, low, high in zip(program.integrality, program.lower, program.upper, strict=True):
        whole = [(v, v) for v in np.arange(low, high + 1)] if kind in (1, 3) else [(low, high)]
        choices.append([(0.0, 0.0), *whole] if kind > 1 else whole)
    best = np.inf
    for boxes in itertools.product(*choices):
        best = min(best, _least(program, np.array(boxes)))
    return best


def _least(program: Program, boxes: np.ndarray) -> float:
    """The least objective within some bounds, with the columns and rows brought near 1 first."""
    fixed = boxes[:, 0] == boxes[:, 1]
    x = np.where(fixed, boxes[:, 0], 0.0)
    left = ~fixed
    used = program.A @ x
    low, high = program.low - used, program.high - used
    cost = float(program.c @ x)
    room = 1e-9 * (abs(program.A) @ abs(x) + 1e-9)
    if not left.any():
        return cost if ((low <= room) & (high >= -room)).all() else np.inf
    A = program.A[:, left] * program.unit
    size = abs(A).max(axis=1)
    size = np.where(size > 0, size, np.maximum(1.0, room))
    A, low, high = A / size[:, None], low / size, high / size
    empty = abs(A).max(axis=1) == 0
    if ((low > room / size) & empty).any() or ((high < -room / size) & empty).any():
        return np.inf
    equal = low == high
    sides = [(A[~equal], high[~equal]), (-A[~equal], -low[~equal])]
    upper = [(rows[np.isfinite(right)], right[np.isfinite(right)]) for rows, right in sides]
    found = linprog(
        program.c[left] * program.unit,
        np.vstack([rows for rows, _ in upper]),
        np.concatenate([right for _, right in upper]),
        A[equal],
        low[equal],
        boxes[left] / program.unit,
    )
    return cost + found.fun if found.status == 0 else np.inf
