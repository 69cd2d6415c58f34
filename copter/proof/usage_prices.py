"""What the columns of usages pay at given prices, and what rounding may do to that.

The price p_j = c_j + a_j'y of a column with k entries, summed in floating point, is off by at most

    (k + 4) eps (|c_j| + |a_j|'|y|),   eps twice the unit roundoff.

:func:`price_error` takes it for the dearest and longest column of a request, so that one number a request
covers all of its columns.
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

    `price`: A'y of their columns. By usage: `offset`, where the prices of its columns begin, -1 if it is not
    shared; `widest`, the largest |a_j|'|y|; `longest`, the most entries of a column.
    """

    offset: NDArray[np.int64]
    price: NDArray[np.float64]
    widest: NDArray[np.float64]
    longest: NDArray[np.int64]


@kernel(inlined=True)
def paid_and_size(view, usage, j, y, no_rebates):  # type: ignore[no-untyped-def]
    """(a_j'y, |a_j|'|y|, entries of the column); ``no_rebates``: no price is negative."""
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
    """Rounding error of a price of a request, from its largest |c_j|, |a_j|'|y| and number of entries.

    Where nothing is paid for rows a price is the cost itself, so that a total of 1 of it is exact too.
    """
    return 0.0 if widest == 0.0 and total == 1.0 else (longest + 4) * _EPS * (dearest + widest)


@kernel(allocates=True)
def usage_prices(view, y, references, n_columns):  # type: ignore[no-untyped-def]
    """A'y of every usage that several requests share, and the most of |A|'|y| and of entries of its columns.

    ``references`` and ``n_columns``, (usages,): how many requests use it, and how many columns it has.
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
    """Whether no price is negative."""
    least = 0.0
    for i in range(y.size):
        least = min(least, y[i])
    return least >= 0.0
