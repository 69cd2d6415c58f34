"""Small integer programs of kinds that are hard for tolerances, and their optima in Fractions by enumeration.

copter has no part in the optima. A point may violate a row by as much as copter's pages allow, so that an
optimum is an interval: that of the rows relaxed by this, and that of the rows as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from support.exact_lp import exact_optimum

INF = np.inf
_ALLOWED = Fraction(2, 10**6)
"""Twice the violation of a row that a point may have."""
SIZES = (1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
"""Values of a big M."""


@dataclass
class Program:
    """Arguments of ``milp`` with scipy's kinds of columns, and the kind of difficulty."""

    c: np.ndarray
    A: np.ndarray
    low: np.ndarray
    high: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kinds: np.ndarray
    about: tuple
    known: tuple | None = None
    """Interval of a program whose integers have no bounds, known from how it was made."""

    @property
    def arguments(self) -> dict:
        return {
            "c": self.c,
            "integrality": self.kinds,
            "bounds": (self.lower, self.upper),
            "constraints": (self.A, self.low, self.high),
        }

    def interval(self) -> tuple[Fraction | None, Fraction | None]:
        """Optimum of the relaxed rows and of the rows; None where no point satisfies them."""
        if self.known is not None:
            return self.known
        reach = [max(abs(a), abs(b)) for a, b in zip(self.lower, self.upper, strict=True)]
        room = []
        for row in self.A:
            size = sum(abs(a) * (r if r < INF else 1e9) for a, r in zip(row, reach, strict=True) if a)
            room.append(_ALLOWED * min(Fraction(1), Fraction(float(size))))
        high = [b if b == INF else Fraction(float(b)) + r for b, r in zip(self.high, room, strict=True)]
        low = [a if a == -INF else Fraction(float(a)) - r for a, r in zip(self.low, room, strict=True)]
        return self._least(low, high), self._least(self.low, self.high)

    def _least(self, low, high) -> Fraction | None:
        choices = []
        for kind, a, b in zip(self.kinds, self.lower, self.upper, strict=True):
            whole = kind in (1, 3)
            boxes = [(v, v) for v in np.arange(np.ceil(a), np.floor(b) + 1)] if whole else [(a, b)]
            choices.append([(0.0, 0.0), *boxes] if kind > 1 else boxes)
        best = None
        for boxes in itertools.product(*choices):
            value = self._at(boxes, low, high)
            if value is not None and (best is None or value < best):
                best = value
        return best

    def _at(self, boxes, low, high) -> Fraction | None:
        """Least objective within some bounds; columns that these fix are no columns of the LP."""
        fixed = [Fraction(float(a)) if a == b else None for a, b in boxes]
        loose = [j for j, value in enumerate(fixed) if value is None]
        used = [
            sum((Fraction(float(a)) * v for a, v in zip(row, fixed, strict=True) if v), Fraction(0))
            for row in self.A
        ]
        cost = sum((Fraction(float(c)) * v for c, v in zip(self.c, fixed, strict=True) if v), Fraction(0))
        sides = [
            [side if abs(side) == INF else Fraction(side) - own for side, own in zip(each, used, strict=True)]
            for each in (low, high)
        ]
        if not loose:
            return cost if all(a <= 0 <= b for a, b in zip(*sides, strict=True)) else None
        box = np.array([boxes[j] for j in loose]).T
        status, value = exact_optimum(self.c[loose], self.A[:, loose], *sides, *box)
        assert status != "unbounded"
        return None if value is None else cost + value


def _made(about, c, rows, low, high, lower, upper, kinds, known=None) -> Program:
    n = len(c)
    arrays = [np.array(each, float) for each in (c, np.reshape(rows, (-1, n)), low, high)]
    box = [np.broadcast_to(np.array(each, float), (n,)).copy() for each in (lower, upper)]
    return Program(*arrays, *box, np.broadcast_to(kinds, (n,)).astype(int), about, known)


def big_m(rng: np.random.Generator) -> Program:
    """x <= a_k + M y_k or x + M y_k <= b_k for some switches of one amount, of which few may be on."""
    M, k = float(rng.choice(SIZES)), int(rng.integers(1, 4))
    form = str(rng.choice(["x <= a + M y", "x + M y <= b"]))
    rows, high = [], []
    for i in range(k):
        row = np.zeros(k + 1)
        row[0], row[1 + i] = 1.0, -M if form == "x <= a + M y" else M
        a = float(rng.integers(0, 9)) if rng.random() < 0.7 else float(rng.integers(1, 9)) / 10
        rows.append(row)
        high.append(a + (0.0 if form == "x <= a + M y" else M * float(rng.integers(0, 2))))
    rows.append(np.append(0.0, np.ones(k)))
    high.append(float(rng.integers(0, k + 1)))
    if rng.random() < 0.5:  # and the other way round: x is also limited where the first switch is on
        row = np.zeros(k + 1)
        row[0], row[1] = 1.0, M
        rows.append(row)
        high.append(M + float(rng.integers(0, 4)))
    c = np.append(-1.0, rng.integers(-2, 3, k))
    top = float(rng.choice([10.0, M]))
    return _made(("big M", M, form), c, rows, [-INF] * len(rows), high, 0, [top] + [1] * k, [0] + [1] * k)


def fixed_charge(rng: np.random.Generator) -> Program:
    """Amounts up to a capacity, each with a cost of opening, and one demand, perhaps exactly."""
    k, unit = int(rng.integers(2, 4)), float(10.0 ** rng.integers(-3, 6))
    cap = rng.integers(2, 30, k) * unit
    M = np.where(rng.random(k) < 0.3, float(rng.choice(SIZES)) * unit, cap)
    links = np.hstack((np.eye(k), -np.diag(M)))
    demand = float(np.rint(cap.sum() / unit * rng.uniform(0.1, 1.1))) * unit
    rows = np.vstack((links, np.append(np.ones(k), np.zeros(k))))
    top = demand if rng.random() < 0.3 else INF
    c = np.append(rng.integers(1, 9, k) / unit, rng.integers(0, 9, k))
    upper = np.append(cap, np.ones(k))
    return _made(("fixed charge",), c, rows, [-INF] * k + [demand], [0.0] * k + [top], 0, upper,
                 [0] * k + [1] * k)  # fmt: skip


def magnitudes(rng: np.random.Generator) -> Program:
    """Rows and costs in units from 1e-6 to 1e9, each with one unit to spare or one too few."""
    n, m = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    units = 10.0 ** rng.integers(-6, 10, m)
    rows = rng.integers(-3, 6, (m, n)).astype(float)
    high = rng.integers(0, 12, m).astype(float)
    low = np.where(rng.random(m) < 0.4, high - rng.integers(0, 3, m), -INF)
    price = float(10.0 ** rng.integers(-6, 7))
    kinds = np.where(rng.random(n) < 0.75, 1, 0)
    c = rng.integers(-5, 4, n) * price
    return _made(("magnitudes",), c, rows * units[:, None], low * units, high * units, 0, 4, kinds)


def multiples(rng: np.random.Generator) -> Program:
    """A row of whole coefficients with a common divisor, between bounds that may hold no multiple."""
    n, g = int(rng.integers(2, 4)), int(rng.choice([2, 3, 7, 10**6]))
    row = g * rng.integers(-2, 3, n)
    row[0] = g
    base = g * int(rng.integers(-1, 4))
    low = base + int(rng.integers(0, 2))
    high = low + int(rng.integers(0, g if g < 10 else 9))
    c = rng.integers(-4, 5, n)
    return _made(("multiples",), c, [row, rng.integers(0, 3, n)], [low, -INF], [high, 7], -2, 3, 1)


def free_integers(rng: np.random.Generator) -> Program:
    """Free integers whose rows are those of a box in other coordinates, or a row that no integers satisfy."""
    n = 2
    c = rng.integers(-4, 5, n)
    if rng.random() < 0.4:
        k = int(rng.integers(2, 6))
        rows, low = [[k, -k]], k * int(rng.integers(-3, 4)) + 1
        nothing = (None, None)
        return _made(("free, impossible",), [1, 0], rows, [low], [low + k - 2], -INF, INF, 1, nothing)
    U = np.array([[1, int(rng.integers(-3, 4))], [0, 1]]) @ np.array([[1, 0], [int(rng.integers(-3, 4)), 1]])
    inverse = np.rint(np.linalg.inv(U))
    low, high = rng.integers(-3, 1, n) - 0.5 * rng.integers(0, 2, n), rng.integers(0, 4, n) + 0.25
    best = min(int(c @ (U @ z)) for z in itertools.product(*(
        range(int(np.ceil(a)), int(np.floor(b)) + 1) for a, b in zip(low, high, strict=True)
    )))  # fmt: skip
    known = Fraction(best), Fraction(best)
    return _made(("free",), c, inverse, low, high, -INF, INF, 1, known)


def pure(rng: np.random.Generator) -> Program:
    """Whole numbers only, with small whole or decimal coefficients."""
    n, m = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    unit = float(rng.choice([1.0, 0.1]))
    rows = rng.integers(-4, 7, (m, n)) * unit
    high = rng.integers(-2, 16, m) * unit
    low = np.where(rng.random(m) < 0.3, high - rng.integers(0, 3, m) * unit, -INF)
    return _made(("pure",), rng.integers(-6, 5, n), rows, low, high, 0, rng.integers(1, 4, n), 1)


def mixed(rng: np.random.Generator) -> Program:
    """Whole numbers and one continuous column, with an equation of all of them."""
    program = pure(rng)
    n = program.c.size
    column = rng.integers(-3, 4, (program.A.shape[0], 1))
    rows = np.vstack((np.hstack((program.A, column)), np.append(rng.integers(0, 4, n), 1.0)))
    level = float(rng.integers(0, 9)) / 2
    return _made(("mixed",), np.append(program.c, rng.integers(-3, 4)), rows, [*program.low, level],
                 [*program.high, level], [0] * n + [-2], [*program.upper, 7], [1] * n + [0])  # fmt: skip


def equation(rng: np.random.Generator) -> Program:
    """M (x1 + ... + xk) + z = b with a small continuous z: b is within reach, or one unit off."""
    M, k = float(rng.choice(SIZES)), int(rng.integers(2, 4))
    top = float(rng.integers(1, 4))
    level = M * float(rng.integers(0, k + 1)) + float(rng.choice([-1.0, 0.0, 0.5, top, top + 1.0]))
    row = np.append(np.full(k, M), 1.0)
    return _made(("equation", M), np.append(np.arange(1.0, k + 1), 1.0), [row], [level], [level], 0,
                 [1] * k + [top], [1] * k + [0])  # fmt: skip


def semi(rng: np.random.Generator) -> Program:
    """Semi-continuous and semi-integer columns with a demand."""
    n, unit = int(rng.integers(2, 4)), float(rng.choice([1.0, 0.1, 2.0**30]))
    kinds = rng.choice([2, 2, 3, 1] if unit == 1.0 else [2], n)
    lower = rng.integers(1, 4, n) * unit
    upper = lower + rng.integers(0, 4, n) * unit
    lower = np.where(kinds == 1, 0.0, lower)
    demand = float(rng.integers(1, 12)) * unit
    use = rng.integers(0, 3, n).astype(float)
    use[0] = 1.0
    top = demand if rng.random() < 0.4 else INF
    return _made(("semi",), rng.integers(-2, 6, n) / unit, [np.ones(n), use], [demand, -INF],
                 [top, 9.0 * unit], lower, upper, kinds)  # fmt: skip


KINDS: dict[str, Callable[[np.random.Generator], Program]] = {
    make.__name__: make
    for make in (big_m, fixed_charge, magnitudes, multiples, free_integers, pure, mixed, equation, semi)
}
