"""Weighted samples, with inclusion probabilities proportional to size and inverse weights.

Prices of millions of columns, or the curvature of half a million requests, can be estimated from about ten
thousand of them to within a few parts in a thousand, unless single items dominate. So an item larger than a
share of the sum is always drawn. All other items are drawn at equal distances on the cumulative sum of sizes
(systematic sampling with probability proportional to size). The sample does not depend on the number of
threads.

Source: Madow (1949), On the theory of systematic sampling II, section 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_PASSES = 20


class Sampler:
    """Sampler of about `wanted` of n items by sizes (n,) >= 0; an item of infinite size is always drawn."""

    def __init__(self, size: NDArray[np.float64], wanted: int) -> None:
        self._size, self._step = size, _distance(size, wanted)
        self._sum = np.cumsum(np.minimum(size, self._step)) / self._step if self._step else None

    def draw(self, offset: float = 0.5) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return items in ascending order and their weights; `offset` in [0, 1) selects the sample."""
        if self._sum is None:
            taken = np.flatnonzero(self._size > 0)
            return taken, np.ones(taken.size)
        passed = np.diff(np.floor(self._sum + offset), prepend=0.0) > 0
        taken = np.flatnonzero(passed | (self._size >= self._step))
        return taken, np.maximum(1.0, self._step / self._size[taken])


def _distance(size: NDArray[np.float64], wanted: int) -> float:
    """Return the distance of draws on the cumulative sum; 0 if all items are drawn."""
    step, certain = np.inf, np.isinf(size)
    for _ in range(_PASSES):
        if size.size - np.count_nonzero(size == 0) <= wanted or np.count_nonzero(certain) >= wanted:
            return 0.0
        step = float(size[~certain].sum()) / (wanted - np.count_nonzero(certain))
        more = size >= step
        if np.array_equal(more, certain):
            break
        certain = more
    return step
