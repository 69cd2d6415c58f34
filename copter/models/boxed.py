"""A general LP whose columns all lie between 0 and a width, as the columns of requests do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.models.general_lp import GeneralLP

if TYPE_CHECKING:
    from scipy.sparse import csc_array

_FAR = 1e4
"""A bound at least so far below 0 is not shifted to 0; if the other is as far above, the column is split."""


@dataclass(frozen=True)
class Boxed:
    """The LP after every column was shifted, mirrored or split: x = shift, plus sign times the new columns.

    Attributes
    ----------
    origin, sign : (k,) ndarrays
        Column of the LP that each new one stands for, and +1 or -1.
    shift : (n,) ndarray
        Value of each column of the LP at which the new ones are 0.
    cost, width : (k,) ndarrays
        Cost and upper bound of the new columns.
    A : (m, k) csc_array
    row_lower, row_upper : (m,) ndarrays
    constant : float
        What the shifts add to the objective.
    """

    origin: NDArray[np.int64]
    sign: NDArray[np.float64]
    shift: NDArray[np.float64]
    cost: NDArray[np.float64]
    width: NDArray[np.float64]
    A: csc_array
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    constant: float


def boxed(lp: GeneralLP) -> Boxed:
    """A :func:`~copter.models.general_lp.checked` LP with columns from 0 on.

    Returns
    -------
    Boxed
        A lower bound becomes 0 by a shift, or the upper one by a mirror if the lower is far away; a column
        whose bounds are both far away, on both sides of 0, is the difference of two, the second of which
        come after all others.
    """
    n, lower, upper = lp.c.size, lp.lower, lp.upper
    split = (lower <= -_FAR) & (upper >= _FAR)
    mirrored = ~split & (lower <= -_FAR) & (abs(upper) < abs(lower))
    shift = np.where(split, 0.0, np.where(mirrored, upper, lower))
    origin = np.concatenate((np.arange(n), np.flatnonzero(split)))
    sign = np.concatenate((np.where(mirrored, -1.0, 1.0), -np.ones(int(split.sum()))))
    width = np.concatenate((np.where(split, upper, upper - lower), -lower[split]))
    moved = lp.A @ shift
    A = lp.A[:, origin]
    A.data = A.data * np.repeat(sign, np.diff(A.indptr))
    return Boxed(
        origin,
        sign,
        shift,
        sign * lp.c[origin],
        width,
        A,
        lp.row_lower - moved,
        lp.row_upper - moved,
        float(lp.c @ shift) + lp.offset,
    )
