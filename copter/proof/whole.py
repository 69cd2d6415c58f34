"""Exact checks of integral allocations: rows, bounds and cost.

For whole numbers a row holds exactly or not at all: there is no tolerance, not even of one unit in a billion.
Numbers that are not whole are rounded. For example, 0.1 is not a double, but ten times 0.1 must fit into 1.
So a coefficient that is not whole may have an error of half a unit in its last place. A bound that is not
whole is often the result of a short calculation such as 0.6 - 0.4. It may have an error of ``CALCULATED``
half units in the last place of the larger bound of its row.

1. One pass in floating point, with a bound on its error, decides most rows. If coefficients and values are
   whole numbers and the sum of absolute terms is below 2^53, the error is 0.
2. The remaining rows, which hold or fail by less than this error, are summed in rational arithmetic.

A row with continuous columns holds if it is violated by at most ``_ROUNDING`` times its largest term or its
bound, because numbers such as 1/3 are not doubles.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.proof.certificate import GapDenominator
from copter.proof.integer import gap_between
from copter.store.allocation import SparseX
from copter.store.store import ConstraintStore
from copter.store.view import caps_at, costs_at, take_entries

if TYPE_CHECKING:
    from copter.solution import Solution

_ROUNDING = 1e-9
"""Relative tolerance of rows with continuous columns."""
CALCULATED = 8
"""Error of a bound that is not whole, in half units in the last place of the row's larger bound."""
_EXACT = 2.0**53
_EPS = 2.0**-53
_TINY = 1e-300


class Terms(NamedTuple):
    """Terms (k,) of sums, in any order.

    `row` has the number of the sum of each term. `whole` is True if the column of a term is integral.
    """

    row: NDArray[np.integer]
    coefficient: NDArray[np.float64]
    value: NDArray[np.float64]
    whole: NDArray[np.bool_]

    def of(self, row: int) -> Terms:
        """Return the terms of one sum."""
        own = self.row == row
        return Terms(*(each[own] for each in self))

    def exactly(self) -> Fraction:
        """Return the exact sum of all terms."""
        terms = zip(self.coefficient.tolist(), self.value.tolist(), strict=True)
        return sum((Fraction(a) * Fraction(x) for a, x in terms), Fraction())

    def represented(self) -> Fraction:
        """Return a bound on the error of the sum that is due to rounded, not whole coefficients."""
        rounded = self.coefficient != np.rint(self.coefficient)
        terms = zip(self.coefficient[rounded].tolist(), self.value[rounded].tolist(), strict=True)
        return sum((abs(Fraction(a) * Fraction(x)) for a, x in terms), Fraction()) / 2**53


def broken_row(terms: Terms, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> int:
    """Return the first sum that is not within its bounds (m,); -1 if all are."""
    m = lower.size
    product = terms.coefficient * terms.value
    gross = np.bincount(terms.row, abs(product), m).astype(np.float64)
    activity, error = np.bincount(terms.row, product, m), _error(terms, gross)
    mixed = np.bincount(terms.row, ~terms.whole, m) > 0
    forgiven = np.zeros(m)
    larger = larger_bound(lower, upper)
    if mixed.any():
        largest = np.zeros(m)
        np.maximum.at(largest, terms.row, abs(product))
        forgiven[mixed] = _ROUNDING * np.maximum(largest, larger)[mixed]
    held = (activity + error <= upper + forgiven) & (activity - error >= lower - forgiven)
    for row in np.flatnonzero(~held).tolist():
        over = max(activity[row] - upper[row], lower[row] - activity[row]) - forgiven[row]
        if over > 2.0 * (error[row] + _EPS * (gross[row] + abs(over) + CALCULATED * larger[row])):
            return int(row)
        own = terms.of(row)
        exactly, represented = own.exactly(), own.represented()
        calculated = CALCULATED * Fraction(larger[row]) / 2**53
        for bound, sign in ((upper[row], 1), (lower[row], -1)):
            if np.isfinite(bound):
                off = represented + (0 if bound == np.rint(bound) else calculated)
                if sign * (exactly - Fraction(bound)) > max(off, Fraction(forgiven[row])):
                    return int(row)
    return -1


def larger_bound(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the larger absolute finite bound of each row (m,); 0 if both bounds are infinite."""
    sizes: NDArray[np.float64] = np.maximum(
        *(np.where(np.isfinite(each), abs(each), 0.0) for each in (lower, upper))
    )
    return sizes


def _error(terms: Terms, gross: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rounding error of each sum; a term that is 0 is exact."""
    nothing = (terms.coefficient == 0.0) | (terms.value == 0.0)
    in_whole = nothing | (
        (terms.coefficient == np.rint(terms.coefficient)) & (terms.value == np.rint(terms.value))
    )
    count = np.bincount(terms.row, ~nothing, gross.size)
    exact = (np.bincount(terms.row, ~in_whole, gross.size) == 0) & (gross < _EXACT)
    return np.where(exact, 0.0, (2.0 * count + 4.0) * (_EPS * gross + _TINY))


def cost_between(cost: NDArray[np.float64], value: NDArray[np.float64]) -> tuple[float, float]:
    """Return a lower and an upper bound on the cost of an allocation; they are equal for whole numbers."""
    terms = Terms(np.zeros(cost.size, np.int64), cost, value, np.ones(cost.size, np.bool_))
    gross = np.array([abs(cost * value).sum()])
    if _error(terms, gross)[0] == 0.0:
        return (exactly := float(cost @ value)), exactly
    if cost.size > _FEW:
        near, error = math.fsum((cost * value).tolist()), 2.0 * _EPS * float(gross[0]) + _TINY
        return math.nextafter(near - error, -math.inf), math.nextafter(near + error, math.inf)
    exact = terms.exactly()
    near = float(exact)
    return (
        near if near <= exact else math.nextafter(near, -math.inf),
        near if near >= exact else math.nextafter(near, math.inf),
    )


_FEW = 2_000
"""Largest number of terms that are summed in rational arithmetic instead of an interval."""


def broken(store: ConstraintStore, x: SparseX) -> str:
    """Return a description of a violation of an allocation; an empty text without a violation.

    Integral columns must have whole values.
    """
    table, rows = store.requests, store.rows
    integral = table.integral[x.slot] | (x.value == np.rint(x.value))
    if (x.value[table.integral[x.slot]] != np.rint(x.value[table.integral[x.slot]])).any():
        return "an integral column is not a whole number"
    view, place = store.executor.columns(x.slot, x.column)
    caps = caps_at(view, x.slot, place)
    if (x.value < 0.0).any() or (x.value > np.where(integral, caps, caps * (1.0 + _ROUNDING))).any():
        return "a column is out of its bounds"
    first, row, coefficient = take_entries(view, x.slot, place, rows.alive[: rows.size])
    counts = np.diff(first)
    terms = Terms(row, coefficient, np.repeat(x.value, counts), np.repeat(integral, counts))
    alive = rows.alive[: rows.size]
    lower = np.where(alive, rows.lower[: rows.size], -np.inf)
    upper = np.where(alive, rows.upper[: rows.size], np.inf)
    if broken_row(terms, lower, upper) >= 0:
        return "a row is violated"
    summed = (table.total[: table.size] < np.inf) & (table.n_columns[: table.size] > 0)
    total = np.where(summed, table.total[: table.size], np.inf)
    least = np.where(summed & table.exact[: table.size], total, -np.inf)
    if broken_row(Terms(x.slot, np.ones(x.slot.size), x.value, integral), least, total) >= 0:
        return "a sum row is violated"
    return ""


def cost_of(store: ConstraintStore, x: SparseX) -> tuple[float, float]:
    """Return bounds on the cost of an allocation (:func:`cost_between`)."""
    view, place = store.executor.columns(x.slot, x.column)
    return cost_between(costs_at(view, x.slot, place), x.value)


def answer_gap(solution: Solution, objective: float, bound: float = -math.inf) -> float:
    """Return the relative gap (objective - bound) / denominator of an integral allocation.

    The bound is that of the solution's certificate, or `bound` if that is larger.

    The denominator is max(|objective - f|, |bound - f|) with the constant cost f, or at least the solution's
    ``gap_denominator`` if this is a substitute for a negligible objective. `objective` is the cost to be
    minimised, infinite without an allocation.
    """
    proof = solution.certificate
    bound = min(max(bound, proof.bound), objective)
    if not math.isfinite(objective) or not math.isfinite(bound):
        return math.inf
    floor = 0.0 if solution.gap_denominator_kind is GapDenominator.OBJECTIVE else solution.gap_denominator
    forced = proof.constant_cost if math.isfinite(proof.constant_cost) else 0.0
    size = max(abs(objective - forced), abs(bound - forced), floor)
    return gap_between(objective, bound, size)


def integrality_loss(objective: float, bound: float) -> float:
    """Return (objective - bound) / |objective|, the largest possible loss of an integral allocation.

    The bound holds for fractional allocations, too. Unlike in :func:`answer_gap`, the denominator is the
    whole cost, including the constant part. Return infinity without an allocation or a bound, or if the
    objective is 0 and above the bound.
    """
    if not math.isfinite(objective) or not math.isfinite(bound):
        return math.inf
    above = max(objective - bound, 0.0)
    if above == 0.0:
        return 0.0
    return above / abs(objective) if objective else math.inf
