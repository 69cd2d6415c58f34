"""Prices A'y of the columns of usages, and bounds on their rounding errors.

The price p_j = c_j + a_j'y of a column with k entries, summed in floating point, has an error of at most

    (k + 4) eps (|c_j| + |a_j|'|y|),   eps twice the unit roundoff.

:func:`price_error` uses the largest cost, the largest |a_j|'|y| and the most entries of a request. So one
bound covers all columns of a request.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.store.view import coefficients_of, entries_of

_EPS = 2.0**-52


class UsagePrices(NamedTuple):
    """Prices of the usages that several requests share.

    `price` has A'y of their columns. By usage, `offset` has the position of its first price: usages with -1,
    or beyond the end of `offset`, are not shared. `widest` has the largest |a_j|'|y|, and `longest` has the
    largest number of entries of a column.
    """

    offset: NDArray[np.int64]
    price: NDArray[np.float64]
    widest: NDArray[np.float64]
    longest: NDArray[np.int64]


NO_USAGE_PRICES = UsagePrices(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.int64))
"""No usage is shared: the prices of each request's columns are computed from their entries."""


@kernel(inlined=True)
def paid_and_size(view, usage, j, y, no_rebates):  # type: ignore[no-untyped-def]
    """Return (a_j'y, |a_j|'|y|, number of entries) of a column; ``no_rebates`` if no price is negative."""
    first, last = entries_of(view, usage, j, j + 1)
    paid, size = 0.0, 0.0
    if view.value_start[usage] < 0:
        for k in range(first, last):
            paid += y[np.uint32(view.row[k])]
        size = paid
        if not no_rebates:
            size = 0.0
            for k in range(first, last):
                size += abs(y[np.uint32(view.row[k])])
    else:
        shift, _ = coefficients_of(view, usage)
        for k in range(first, last):
            term = y[np.uint32(view.row[k])] * view.coefficient[shift + k]
            paid += term
            size += abs(term)
    return paid, size, np.int64(last - first)


@kernel(inlined=True)
def price_error(total, dearest, widest, longest):  # type: ignore[no-untyped-def]
    """Return a bound on the rounding error of a request's prices.

    ``dearest``, ``widest`` and ``longest`` are its largest |c_j|, |a_j|'|y| and number of entries. If all
    prices of rows are 0, a price is the cost itself, and its product with a total of 1 is exact.
    """
    return 0.0 if widest == 0.0 and total == 1.0 else (longest + 4) * _EPS * (dearest + widest)


@kernel(allocates=True)
def usage_prices(view, y, references, n_columns):  # type: ignore[no-untyped-def]
    """Return the UsagePrices of every usage that several requests share.

    ``references`` and ``n_columns`` (usages,) have the number of requests that use it, and of its columns.
    """
    offset, length = np.full(references.size, -1), 0
    for usage in range(references.size):
        if references[usage] > 1:
            offset[usage] = length
            length += n_columns[usage]
    prices, no_rebates = np.empty(length), no_rebates_in(y)
    widest, longest = np.zeros(references.size), np.zeros(references.size, np.int64)
    for usage in range(references.size):
        if offset[usage] >= 0:
            for j in range(n_columns[usage]):
                paid, size, entries = paid_and_size(view, usage, j, y, no_rebates)
                prices[offset[usage] + j] = paid
                widest[usage] = max(widest[usage], size)
                longest[usage] = max(longest[usage], entries)
    return UsagePrices(offset, prices, widest, longest)


@kernel(inner=True)
def no_rebates_in(y):  # type: ignore[no-untyped-def]
    """Return whether no price is negative."""
    least = 0.0
    for i in range(y.size):
        least = min(least, y[i])
    return least >= 0.0
