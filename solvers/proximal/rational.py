"""Simplex method in rational numbers for tiny programs, with exact pivots.

For some programs floating point proves nothing, however small they are. Examples are nearly parallel rows,
and unbounded columns at whose exact optimum the row prices are not binary fractions.  With about ten columns
and rows, a dense tableau of fractions takes milliseconds: two phases, Bland's rule, column bounds as rows.

Tests: ``tests/solvers/test_edges.py`` has points at 1e10 where two rows cross (``far feasible``, ``far
optimum``), and rows whose violation within the tolerance is a quarter of the objective (``meeting``).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram

ENTRIES = 2_000
"""Largest size of the tableau, rows times columns."""
_ROUNDED = Fraction(1, 2**48)
"""Largest sum of scaled violations that counts as rounding errors of the rows' coefficients."""
_NONE, _ONE = Fraction(0), Fraction(1)


class _Rational(NamedTuple):
    """Exact result for a program.

    `x` (n,): optimal or feasible point, rounded to floats; meaningless if infeasible. `ray` (n,): direction
    in which the objective is unbounded. `y` (m,): prices, or a proof of infeasibility, scaled to integers if
    they fit. `bound`: the optimum, rounded down.
    """

    status: Literal["optimal", "infeasible", "unbounded"]
    x: NDArray[np.float64]
    ray: NDArray[np.float64]
    y: NDArray[np.float64]
    bound: float


def _is_tiny(program: ContinualProgram) -> bool:
    """Return whether columns times rows are at most ENTRIES.

    Rows are the resource rows or the sum rows, whichever are more.
    """
    n, m = program.n_variables, len(program.resource_slots)
    return n * max(m, program.n_rows - m) <= ENTRIES


def solve_in_rationals(program: ContinualProgram, clock: Clock) -> _Rational | None:
    """Solve a program without convex terms in rational numbers.

    Return None if it is too large, or if it is infeasible only by rounding errors.
    """
    if not _is_tiny(program):
        return None
    n, m, lp = program.n_variables, len(program.resource_slots), compile_program(program)
    below = np.isfinite(lp.row_lower) & (lp.row_lower != lp.row_upper)
    limits = (np.isfinite(lp.row_upper), below, np.isfinite(lp.upper))
    sides = sum(int(np.count_nonzero(each)) for each in limits)
    if sides * (n + 2 * sides) > ENTRIES:
        return None
    rows = _rows(lp.A.toarray(), lp.row_lower, lp.row_upper, lp.upper)
    simplex = _Simplex([Fraction(float(c)) for c in lp.c], rows)
    status = simplex.solve(clock)
    if status == "infeasible" and simplex.value() <= _ROUNDED:
        return None
    x = np.array([float(value) for value in simplex.point()])
    ray, y, bound = np.zeros(n), np.zeros(m), -math.inf
    if status == "unbounded":
        ray = np.array([float(value) for value in simplex.direction()])
    else:
        y = _floats(simplex.prices(m), whole=status == "infeasible")
    if status == "optimal":
        bound = _down(simplex.value())
    return _Rational(status, x, ray, y, bound)


class _Row(NamedTuple):
    """Row a'x <= b, or ==, scaled so that its numbers are near 1; ``price`` converts its price back."""

    a: list[Fraction]
    equal: bool
    b: Fraction
    of: int
    price: Fraction

    @classmethod
    def make(
        cls, a: list[Fraction], b: Fraction, of: int = -1, sign: int = 1, *, equal: bool = False
    ) -> _Row:
        """Make a row from row number `of` of the program, or from its negative if `sign` is -1."""
        size = max([abs(b), *map(abs, a)])
        factor = Fraction(2) ** -math.frexp(float(size))[1] if size else _ONE
        return cls([sign * factor * value for value in a], equal, sign * factor * b, of, sign * factor)


def _rows(
    A: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    caps: NDArray[np.float64],
) -> list[_Row]:
    rows = []
    for i, entries in enumerate(A):
        a = [Fraction(float(value)) for value in entries]
        if lower[i] == upper[i]:
            rows.append(_Row.make(a, Fraction(float(upper[i])), i, equal=True))
            continue
        if np.isfinite(upper[i]):
            rows.append(_Row.make(a, Fraction(float(upper[i])), i))
        if np.isfinite(lower[i]):
            rows.append(_Row.make(a, Fraction(float(lower[i])), i, -1))
    for j, cap in enumerate(caps):
        if np.isfinite(cap):
            unit = [_NONE] * len(caps)
            unit[j] = _ONE
            rows.append(_Row.make(unit, Fraction(float(cap))))
    return rows


class _Simplex:
    """Tableau: the program's columns, a slack for each inequality, and an artificial column for each row."""

    def __init__(self, c: list[Fraction], rows: list[_Row]) -> None:
        self.c, self.rows, self.n = c, rows, len(c)
        slack = [k for k, row in enumerate(rows) if not row.equal]
        self.slack = {k: self.n + place for place, k in enumerate(slack)}
        self.real = self.n + len(slack)
        self.table: list[list[Fraction]] = []
        self.basis: list[int] = []
        for k, row in enumerate(rows):
            flip = -1 if row.b < 0 else 1
            line = [flip * value for value in row.a] + [_NONE] * (len(slack) + len(rows)) + [flip * row.b]
            if k in self.slack:
                line[self.slack[k]] = Fraction(flip)
            line[self.real + k] = _ONE
            self.table.append(line)
            self.basis.append(self.slack[k] if k in self.slack and flip == 1 else self.real + k)
        self.entering = -1

    def solve(self, clock: Clock) -> Literal["optimal", "infeasible", "unbounded"]:
        """Run both phases."""
        width = self.real + len(self.rows)
        self.cost = [_NONE] * self.real + [_ONE] * len(self.rows)
        self._run(clock, width)
        if self.value() > 0:
            return "infeasible"
        for k, at in enumerate(self.basis):  # artificial columns at 0 leave the basis, if possible
            if at >= self.real:
                j = next((j for j in range(self.real) if self.table[k][j]), None)
                if j is not None:
                    self._pivot(k, j)
        self.cost = self.c + [_NONE] * (width - self.n)
        return "optimal" if self._run(clock, self.real) else "unbounded"

    def _reduced(self, j: int) -> Fraction:
        basic = (self.cost[b] * line[j] for b, line in zip(self.basis, self.table, strict=True) if line[j])
        return self.cost[j] - sum(basic, _NONE)

    def _run(self, clock: Clock, columns: int) -> bool:
        """Pivot until none of the first `columns` columns reduces the cost; return False if unbounded."""
        while True:
            clock.check()
            inside = set(self.basis)
            free = (j for j in range(columns) if j not in inside and self._reduced(j) < 0)
            self.entering = next(free, -1)
            if self.entering < 0:
                return True
            j, leaving, least = self.entering, -1, _NONE
            for k, line in enumerate(self.table):
                # an artificial column that remained in the basis must stay 0
                if self.basis[k] >= self.real and columns == self.real and line[j]:
                    ratio = _NONE
                elif line[j] > 0:
                    ratio = line[-1] / line[j]
                else:
                    continue
                tie = leaving >= 0 and ratio == least and self.basis[k] < self.basis[leaving]
                if leaving < 0 or ratio < least or tie:
                    leaving, least = k, ratio
            if leaving < 0:
                return False
            self._pivot(leaving, j)

    def _pivot(self, k: int, j: int) -> None:
        unit = self.table[k][j]
        self.table[k] = [value / unit for value in self.table[k]]
        for other, line in enumerate(self.table):
            if other != k and line[j]:
                factor = line[j]
                self.table[other] = [
                    a - factor * b if b else a for a, b in zip(line, self.table[k], strict=True)
                ]
        self.basis[k] = j

    def value(self) -> Fraction:
        """Return the cost of the present point."""
        basic = zip(self.basis, self.table, strict=True)
        return sum((self.cost[b] * line[-1] for b, line in basic), _NONE)

    def point(self) -> list[Fraction]:
        """Return the values of the program's columns."""
        values = dict(zip(self.basis, (line[-1] for line in self.table), strict=True))
        return [values.get(j, _NONE) for j in range(self.n)]

    def direction(self) -> list[Fraction]:
        """Return the direction of the last entering column, along which the cost is unbounded."""
        values = dict(zip(self.basis, (-line[self.entering] for line in self.table), strict=True))
        return [_ONE if j == self.entering else values.get(j, _NONE) for j in range(self.n)]

    def prices(self, m: int) -> list[Fraction]:
        """Return prices of the first m rows of the program, positive for an active upper bound."""
        prices = [_NONE] * m
        for k, row in enumerate(self.rows):
            if 0 <= row.of < m:
                column = self.real + k
                flip = -1 if row.b < 0 else 1
                dual = flip * (self.cost[column] - self._reduced(column))
                prices[row.of] -= row.price * dual
        return prices


def _floats(values: list[Fraction], *, whole: bool) -> NDArray[np.float64]:
    """Return values as floats; `whole`: scaled to integers if these fit."""
    if whole:
        times = math.lcm(*(value.denominator for value in values)) if values else 1
        scaled = [value * times for value in values]
        if all(abs(value) < 2**53 for value in scaled):
            values = scaled
    return np.array([float(value) for value in values])


def _down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
