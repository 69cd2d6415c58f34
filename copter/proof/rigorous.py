"""Bounds and rays that hold in exact arithmetic, for a linear program given by its matrix.

    minimise c'x   subject to   row_lower <= A x <= row_upper,   lower <= x <= upper

Let z = c + A'y for arbitrary prices y. Let b_i be row_upper_i if y_i > 0 and row_lower_i if y_i < 0. Then

    d(y) = -sum_i b_i y_i + sum_j min { z_j x_j : lower_j <= x_j <= upper_j }

is at most the optimum. In floating point, z_j has an error of up to e_j = (n_j + 4) eps (|c_j| + |A_j|'|y|),
where n_j is the number of entries of the column, and d(y) is evaluated at the worst z within this error. If
z_j x_j decreases without limit towards a missing bound, d(y) is minus infinity, however small z_j is. For
such columns z_j is summed exactly, and there are two remedies:

1. Prices are changed slightly, so that z has the right sign on all such columns (:func:`right_prices`).
2. Bounds that the rows imply, rounded outwards, replace missing bounds (:func:`implied_bounds`).

Source: Neumaier and Shcherbina, Safe bounds in linear and mixed-integer linear programming (2004), sections 3
and 4; exact products and sums as in Ogita, Rump and Oishi (2005).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Floats

EPS = 2.0**-52
"""Twice the unit roundoff, so that error bounds need no second-order terms."""
_SPLIT = 2.0**27 + 1.0
_TINY = 1e-280
"""Products below this may lose bits to underflow; products above its inverse overflow when they are split."""
_MANY = 64
"""Largest number of entries of a column that is summed together with other columns."""
_PASSES = 10
"""Largest number of passes over implied bounds; a bound from one pass may imply others."""
_NEAR = 1e-6
"""A reduced cost of at most this fraction of its terms may be exactly 0, so that its sign is checked."""
_TIGHTEN = 1e-9
"""If rounding errors exceed this fraction of a bound, they are reduced by exact reduced costs."""
_ATTEMPTS = 5
_DENSE = 400_000
"""Largest number of entries of a system that is solved densely."""


class LPArrays(Protocol):
    """Data of a linear program that a bound needs; ``A`` is a CSC matrix."""

    @property
    def c(self) -> Floats: ...  # noqa: D102
    @property
    def A(self) -> Any: ...  # noqa: D102
    @property
    def row_lower(self) -> Floats: ...  # noqa: D102
    @property
    def row_upper(self) -> Floats: ...  # noqa: D102
    @property
    def lower(self) -> Floats: ...  # noqa: D102
    @property
    def upper(self) -> Floats: ...  # noqa: D102


class _OutwardBound(NamedTuple):
    """Rigorous bound, rounded outwards.

    `value` is at most the optimum, in exact arithmetic; -inf if the prices prove nothing. `y` (m,) has the
    prices of the bound, 0 for infinite bounds. `rounding` estimates the rounding error that was subtracted.
    """

    value: float
    y: Floats
    rounding: float


def absolute(A: Any) -> Any:
    """Return |A| of a sparse matrix; scipy's abs would sort the entries of A, and HiGHS' path with them."""
    size = A.copy()
    np.abs(size.data, out=size.data)
    return size


def paid_prices(lp: LPArrays, y: Floats) -> Floats:
    """Return prices with 0 in place of prices of infinite bounds."""
    nothing = ((y > 0) & np.isinf(lp.row_upper)) | ((y < 0) & np.isinf(lp.row_lower)) | ~np.isfinite(y)
    return np.where(nothing, 0.0, y)


def bound_at(lp: LPArrays, y: Floats, lower: Floats, upper: Floats) -> _OutwardBound:
    """Return d(y) with given bounds of the columns, rounded downwards; y are :func:`paid_prices`."""
    z, error, magnitude = reduced_costs(lp, y)
    endless = np.isinf(lower) | np.isinf(upper)
    doubtful = np.flatnonzero(endless & (abs(z) <= error))
    if doubtful.size:
        z[doubtful] = exact_reduced_costs(lp, y, doubtful)
        error[doubtful] = EPS * abs(z[doubtful])
    found = _with_reduced_costs(lp, y, z, error, lower, upper)
    if -math.inf < found.value and found.rounding > _TIGHTEN * abs(found.value):  # due to very large bounds
        reach = np.where(np.isfinite(lower) & np.isfinite(upper), np.maximum(abs(lower), abs(upper)), 0.0)
        many = np.flatnonzero(error * reach > _TIGHTEN / lp.c.size * found.rounding)
        z[many] = exact_reduced_costs(lp, y, many)
        error[many] = EPS * abs(z[many])
        found = _with_reduced_costs(lp, y, z, error, lower, upper)
    return found


def _with_reduced_costs(
    lp: LPArrays, y: Floats, z: Floats, error: Floats, lower: Floats, upper: Floats
) -> _OutwardBound:
    """Return d(y) at the worst reduced costs within their errors."""
    low, high = z - error, z + error
    if (np.isinf(upper) & (low < 0)).any() or (np.isinf(lower) & (high > 0)).any():
        return _OutwardBound(-math.inf, y, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        ends = np.array([low * lower, low * upper, high * lower, high * upper])
    worst = np.where(np.isnan(ends), np.inf, ends).min(axis=0)  # NaN is 0 times an infinite bound
    worst = np.where((low == 0) & (high == 0), 0.0, worst)
    worst -= EPS * abs(worst)
    paid = np.where(y > 0, lp.row_upper, np.where(y < 0, lp.row_lower, 0.0))
    rows = [-each for each in exact_products(y, paid)]
    value = math.fsum([*worst.tolist(), *rows])
    reach = np.where(np.isfinite(lower) & np.isfinite(upper), np.maximum(abs(lower), abs(upper)), 0.0)
    rounding = float(error @ reach) + EPS * float(abs(y) @ abs(paid))
    return _OutwardBound(math.nextafter(value, -math.inf) if value else value, y, rounding)


def reduced_costs(lp: LPArrays, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return z = c + A'y, bounds on its rounding errors, and |c| + |A|'|y|, all (n,)."""
    counts = np.diff(lp.A.indptr)
    z = lp.c + lp.A.T @ y
    magnitude = abs(lp.c) + absolute(lp.A).T @ abs(y)
    return z, (counts + 4) * EPS * magnitude, magnitude


def exact_reduced_costs(lp: LPArrays, y: Floats, columns: NDArray[np.int64]) -> Floats:
    """Return z = c + A'y of some columns, each rounded once or twice, with the sign of the exact number.

    Entries of all columns are added at once, in three floats for each column. The few columns for which three
    floats are not exact are summed one by one.
    """
    A, counts = lp.A, np.diff(lp.A.indptr)[columns]
    begin = A.indptr[columns]
    high = lp.c[columns].astype(np.float64)
    middle, low, lost = np.zeros(columns.size), np.zeros(columns.size), np.zeros(columns.size)
    lost[counts > _MANY] = np.inf
    with np.errstate(all="ignore"):  # numbers out of range make `lost` infinite
        for k in range(min(int(counts.max(initial=0)), _MANY)):
            active = np.flatnonzero((counts > k) & (counts <= _MANY))
            entry = begin[active] + k
            factor, price = A.data[entry], y[A.indices[entry]]
            product, rest = exact_product(factor, price)
            size = abs(product)
            wild = ((size < _TINY) & (factor != 0) & (price != 0)) | ~(size <= 1 / _TINY)
            lost[active[wild | (abs(factor) > 1 / _TINY) | (abs(price) > 1 / _TINY)]] = np.inf
            for term in (product, rest):
                high[active], term = _two_sum(high[active], term)
                middle[active], term = _two_sum(middle[active], term)
                low[active], term = _two_sum(low[active], term)
                lost[active] += abs(term)
        high, middle = _two_sum(high, middle)
        middle, low = _two_sum(middle, low)
        high, middle = _two_sum(high, middle)
        z = high + (middle + low)
        hard = np.flatnonzero(
            ~(lost <= EPS * EPS * abs(z)) | (abs(high) < 2.0 * abs(middle + low)) & (high != 0)
        )
    for k in hard.tolist():
        part = slice(begin[k], begin[k] + counts[k])
        z[k] = math.fsum([float(lp.c[columns[k]]), *exact_products(A.data[part], y[A.indices[part]])])
    return z


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return a + b, and its rounding error (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def exact_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a b, and its rounding error (Dekker)."""
    product = a * b
    high_a, high_b = _SPLIT * a, _SPLIT * b
    high_a, high_b = high_a - (high_a - a), high_b - (high_b - b)
    low_a, low_b = a - high_a, b - high_b
    return product, low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)


def exact_products(a: Floats, b: Floats) -> list[float]:
    """Return numbers whose sum is exactly a'b: each product and its rounding error (Dekker's product)."""
    product = a * b
    size = abs(product)
    wild = (size > 0) & ((size < _TINY) | (size > 1 / _TINY)) | (abs(a) > 1 / _TINY) | (abs(b) > 1 / _TINY)
    wild |= (size == 0) & (a != 0) & (b != 0)
    if wild.any():
        tame = exact_products(a[~wild], b[~wild])
        left = sum((Fraction(p) * Fraction(q) for p, q in zip(a[wild], b[wild], strict=True)), Fraction(0))
        for _ in range(3):  # three doubles are enough
            tame.append(float(left))
            left -= Fraction(tame[-1])
        return tame
    return np.concatenate(exact_product(a, b)).tolist()


def implied_bounds(lp: LPArrays) -> tuple[Floats, Floats]:
    """Return the bounds of the columns, with missing ones replaced by bounds that rows imply.

    A row a'x <= u bounds x_j, a_j > 0, by (u - the least sum of the other terms) / a_j. Bounds are rounded
    outwards.
    """
    rows = lp.A.tocsr()
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    column, value = rows.indices, rows.data
    lower, upper = lp.lower.copy(), lp.upper.copy()
    keep = value != 0
    row, column, value = row[keep], column[keep], value[keep]
    counts = np.bincount(row, minlength=rows.shape[0])
    for _ in range(_PASSES):
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            break
        before = np.isinf(lower).sum() + np.isinf(upper).sum()
        for sign, side in ((1.0, lp.row_upper), (-1.0, -lp.row_lower)):
            a = sign * value
            least = np.where(a > 0, a * lower[column], a * upper[column])
            endless = np.isinf(least)
            held = np.where(endless, 0.0, least)
            missing = np.bincount(row, endless, rows.shape[0])[row] - endless
            others = np.bincount(row, held, rows.shape[0])[row] - held
            size = (
                np.bincount(row, abs(held), rows.shape[0])[row] + np.where(np.isinf(side), 0, abs(side))[row]
            )
            tells = (missing == 0) & np.isfinite(side[row])
            room = (side[row] - others + (counts[row] + 4) * EPS * size)[tells]
            j, a = column[tells], a[tells]
            most = room / a
            most += 2 * EPS * abs(most) * np.sign(a)
            above, below = np.full(upper.size, np.inf), np.full(lower.size, -np.inf)
            np.minimum.at(above, j[a > 0], most[a > 0])
            np.maximum.at(below, j[a < 0], most[a < 0])
            upper, lower = np.where(np.isinf(upper), above, upper), np.where(np.isinf(lower), below, lower)
        if np.isinf(lower).sum() + np.isinf(upper).sum() == before:
            break
    return lower, np.maximum(lower, upper)


def right_prices(lp: LPArrays, y: Floats) -> Floats | None:
    """Return prices near ``y`` with the right sign of every reduced cost, or None.

    A column without an upper (lower) bound must have a reduced cost >= 0 (<= 0). A column without both must
    have a reduced cost of exactly 0.
    """
    up, down = np.isinf(lp.upper), np.isinf(lp.lower)
    loose = np.flatnonzero(up | down)
    may = _may_move(lp, y)
    target = 0.0
    for attempt in range(_ATTEMPTS):
        z, error, magnitude = reduced_costs(lp, y)
        doubtful = loose[abs(z[loose]) <= error[loose]]
        z[doubtful] = exact_reduced_costs(lp, y, doubtful)
        wrong = (up & (z < 0)) | (down & (z > 0))
        if not wrong.any():
            return y
        if (abs(z) > _NEAR * magnitude)[wrong].any():
            return None
        target = 4.0 * 8.0**attempt
        near = loose[abs(z[loose]) <= np.maximum(_NEAR * 1e-3 * magnitude[loose], target * error[loose])]
        near = np.union1d(near, np.flatnonzero(wrong))
        wanted = np.where(up[near] & down[near], 0.0, np.where(up[near], 1.0, -1.0)) * target * error[near]
        rows = np.flatnonzero(may & (np.bincount(lp.A[:, near].indices, minlength=y.size) > 0))
        if not rows.size:
            return None
        step = _least_squares(lp.A[:, near][rows].T, wanted - z[near], abs(y[rows]))
        there = y.copy()
        there[rows] += step
        if not np.isfinite(step).all() or (np.sign(there[rows]) * np.sign(y[rows]) < 0).any():
            return None
        y = paid_prices(lp, there)
    return None


def _may_move(lp: LPArrays, y: Floats) -> NDArray[np.bool_]:
    """Return the rows whose price can change slightly: it is nonzero, or the row has both bounds."""
    return (y != 0) | (np.isfinite(lp.row_lower) & np.isfinite(lp.row_upper))


def _least_squares(matrix: Any, right: Floats, size: Floats) -> Floats:
    """Return the least change, relative to ``size``, that solves a linear system."""
    typical = float(np.median(size[size > 0])) if (size > 0).any() else 1.0
    scale = np.where(size > 0, size, typical)
    if matrix.shape[0] * matrix.shape[1] <= _DENSE:
        return np.asarray(
            scale * np.linalg.lstsq(matrix.toarray() * scale, right, rcond=1e-12)[0], np.float64
        )
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import lsqr

    return np.asarray(scale * lsqr(matrix @ diags_array(scale), right, atol=1e-15, btol=1e-15)[0], np.float64)
