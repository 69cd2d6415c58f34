"""Semi-continuous columns, expressed by integral columns for branch and bound.

A semi-continuous column x is 0 or within [l, u], l > 0.  With an integral column z this is expressed by the
rows l z <= x <= M z: z = 0 implies x = 0, and z = k implies x in [k l, k M].  For M >= u the column z is
binary.  For 2 l <= M < u the ranges [k l, k M] cover [l, u] without a gap, so a large or infinite u needs no
large coefficient.  A column with u < 0 is the negative of one with l > 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from copter.models.linear_program import LinearProgram

_MOST = 1024.0
"""Largest ratio of M to l."""


def with_indicators(lp: LinearProgram) -> LinearProgram:
    """Return the program in which two rows and an integral column describe each semi-continuous column.

    The columns and rows of the program are the first ones.
    """
    if lp.semi is None:
        return lp
    from scipy.sparse import csc_array, hstack, vstack

    at = np.flatnonzero(lp.semi)
    k, n, m = at.size, lp.c.size, lp.row_lower.size
    sign = np.where(lp.lower[at] > 0.0, 1.0, -1.0)
    least = np.minimum(abs(lp.lower[at]), abs(lp.upper[at]))
    most = np.maximum(abs(lp.lower[at]), abs(lp.upper[at]))
    steep = np.minimum(most, _MOST * least)
    place = np.arange(k)
    one = csc_array((sign, (place, at)), shape=(k, n))
    links = [
        hstack((csc_array(lp.A), csc_array((m, k)))),
        hstack((one, csc_array((-least, (place, place)), shape=(k, k)))),
        hstack((one, csc_array((-steep, (place, place)), shape=(k, k)))),
    ]
    nothing, endless = np.zeros(k), np.full(k, np.inf)
    return replace(
        lp,
        c=np.append(lp.c, nothing),
        A=csc_array(vstack(links)),
        row_lower=np.concatenate((lp.row_lower, nothing, -endless)),
        row_upper=np.concatenate((lp.row_upper, endless, nothing)),
        lower=np.append(np.where(lp.semi, np.minimum(lp.lower, 0.0), lp.lower), nothing),
        upper=np.concatenate(
            (np.where(lp.semi, np.maximum(lp.upper, 0.0), lp.upper), np.where(most > steep, np.inf, 1.0))
        ),
        integral=np.append(lp.integral, np.ones(k, np.bool_)),
        column_names=(),
        row_names=(),
        semi=None,
    )


def without_indicators(lp: LinearProgram, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the given program's point from one of :func:`with_indicators`, rounded and within its bounds.

    The integral columns decide which semi-continuous columns are 0.
    """
    own = x[: lp.c.size].copy()
    if lp.semi is not None:
        at = np.flatnonzero(lp.semi)
        own[at[np.rint(x[lp.c.size :]) == 0.0]] = 0.0
    lower, upper = lp.box_at(own)
    return np.clip(np.where(lp.integral, np.rint(own), own), lower, upper)
