"""Samples that stand for all: drawn as likely as what they carry is large, and weighted by the inverse.

Prices of millions of columns, or the curvature of half a million requests, are those of some ten thousand
of them to within a few parts in a thousand, if no single one carries much.  So whatever carries more than a
share is drawn for certain, and the others at equal distances of the running sum of what they carry
(systematic sampling with probability proportional to size): the same for any number of threads.

Source: Madow (1949), On the theory of systematic sampling II, section 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_PASSES = 20


class Sampler:
    """Draws about `wanted` of n items by their sizes (n,) >= 0; infinite for items of every sample."""

    def __init__(self, size: NDArray[np.float64], wanted: int) -> None:
        self._size, self._step = size, _distance(size, wanted)
        self._sum = np.cumsum(np.minimum(size, self._step)) / self._step if self._step else None

    def draw(self, offset: float = 0.5) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Items in ascending order, and how many each stands for; other ``offset`` in [0, 1), others."""
        if self._sum is None:
            taken = np.flatnonzero(self._size > 0)
            return taken, np.ones(taken.size)
        passed = np.diff(np.floor(self._sum + offset), prepend=0.0) > 0
        taken = np.flatnonzero(passed | (self._size >= self._step))
        return taken, np.maximum(1.0, self._step / self._size[taken])


def _distance(size: NDArray[np.float64], wanted: int) -> float:
    """Distance of draws; 0 if all are certain."""
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
