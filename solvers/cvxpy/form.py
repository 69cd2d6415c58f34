"""What cvxpy hands to a solver of cones, as a general LP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy.settings as s
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from copter.models.general_lp import GeneralLP


def lp_of(data: Mapping[str, Any]) -> GeneralLP:
    """The LP of cvxpy's cone data, its integral columns marked; without the objective's constant.

    Parameters
    ----------
    data : mapping
        ``A x + s = b`` with s first in the zero cone, then in the nonnegative one; bounds of x, and which
        columns are Boolean or integral.
    """
    b = np.array(data[s.B], np.float64)
    A = csc_array(data[s.A], shape=(b.size, data[s.C].size), dtype=np.float64)
    row_lower = b.copy()
    row_lower[data["dims"].zero :] = -np.inf
    lower, upper = (
        np.full(A.shape[1], none) if data[side] is None else np.array(data[side], np.float64)
        for side, none in ((s.LOWER_BOUNDS, -np.inf), (s.UPPER_BOUNDS, np.inf))
    )
    boolean, integral = _indices(data[s.BOOL_IDX]), np.zeros(A.shape[1], np.bool_)
    integral[boolean] = True
    integral[_indices(data[s.INT_IDX])] = True
    lower[boolean], upper[boolean] = np.maximum(lower[boolean], 0.0), np.minimum(upper[boolean], 1.0)
    return GeneralLP(np.array(data[s.C], np.float64), A, row_lower, b, lower, upper, 0.0, integral)


def _indices(columns: Any) -> NDArray[np.int64]:
    return np.array(columns, np.int64)
