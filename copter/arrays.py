"""Type aliases of arrays, and bounds that count as infinite."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

INFINITE = 1e20
"""A bound counts as infinite if its absolute value is at least this, as in scipy and HiGHS."""


def as_bounds(values: Floats) -> Floats:
    """Return bounds in which values of at least 1e20 in absolute value are replaced by infinity.

    Return the array itself if no finite value is that large.
    """
    size = abs(values)
    if not ((size >= INFINITE) & (size < np.inf)).any():
        return values
    return np.where(size >= INFINITE, np.copysign(np.inf, values), values)
