"""Exact sums of products, in which subtracting a term restores the previous sum in all bits.

A sum is an integer in units of 2^-1088, split into limbs of 32 bits, each in a word of 64 bits. Adding a
double changes at most three limbs, and the upper halves of the words collect carries. A product of two
doubles is the sum of two doubles (Dekker), exactly unless it is smaller than 1e-290. So subtracting an added
term restores the previous bits, and sums of the same terms are equal in any order.

Source: Kulisch, Computer Arithmetic and Validity (2008), chapter 8; Dekker, A floating-point technique for
extending the available precision (1971).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel

_LIMBS, _LOWEST = 68, -1088
"""Number of limbs of a sum, and the power of two of the first limb; 2^30 of the largest doubles fit."""
_MOST = 2**29
"""Number of terms after which carries must be propagated."""
_LOW = 4294967295
_SPLIT = 2.0**27 + 1.0


class ExactSums:
    """Array of exact sums; kernels call :func:`add_product` on `limbs` (sums, limbs)."""

    def __init__(self, count: int) -> None:
        self.limbs = np.zeros((count, _LIMBS), np.int64)
        self._terms = 0

    def grow(self, count: int) -> None:
        """Extend the array to `count` sums; new sums are 0."""
        more = np.zeros((count - self.limbs.shape[0], _LIMBS), np.int64)
        self.limbs = np.concatenate((self.limbs, more))

    def expect(self, terms: int) -> None:
        """Prepare for at most `terms` more terms in any sum: propagate carries if needed."""
        self._terms += terms
        if self._terms > _MOST:
            _carry(self.limbs)
            self._terms = terms

    def values(self, which: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of some sums, within one unit in the last place; equal sums have equal values."""
        values: NDArray[np.float64] = _values(self.limbs, which)
        return values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSums):
            return NotImplemented
        mine, others = self.limbs.copy(), other.limbs.copy()
        _carry(mine)
        _carry(others)
        return bool(np.array_equal(mine, others))

    __hash__ = None  # type: ignore[assignment]


@kernel(inner=True)
def _add_number(limbs, which, number):  # type: ignore[no-untyped-def]
    """Add a finite number to a sum."""
    if number == 0.0:
        return
    fraction, exponent = math.frexp(abs(number))
    whole = np.int64(fraction * 9007199254740992.0)  # 2^53
    at = np.int64(exponent) - 53 - _LOWEST
    first, shift = at >> 5, at & 31
    low, high = (whole & _LOW) << shift, (whole >> 32) << shift
    sign = np.int64(1 if number > 0.0 else -1)
    limbs[which, first] += sign * (low & _LOW)
    limbs[which, first + 1] += sign * ((low >> 32) + (high & _LOW))
    limbs[which, first + 2] += sign * (high >> 32)


@kernel(inner=True)
def add_product(limbs, which, a, b):  # type: ignore[no-untyped-def]
    """Add the product of two finite numbers to a sum."""
    product = a * b
    _add_number(limbs, which, product)
    if product == 0.0 or a == 1.0 or b == 1.0:
        return
    wide = _SPLIT * a
    a_high = wide - (wide - a)
    wide = _SPLIT * b
    b_high = wide - (wide - b)
    a_low, b_low = a - a_high, b - b_high
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    _add_number(limbs, which, rest)


@kernel
def _carry(limbs):  # type: ignore[no-untyped-def]
    """Propagate carries, so that equal sums have equal limbs, all but the last from 0 to 2^32 - 1."""
    for which in range(limbs.shape[0]):
        over = np.int64(0)
        for k in range(_LIMBS - 1):
            word = limbs[which, k] + over
            over = word >> 32
            limbs[which, k] = word - (over << 32)
        limbs[which, _LIMBS - 1] += over


@kernel(allocates=True)
def _values(limbs, numbers):  # type: ignore[no-untyped-def]
    """Return the values of the sums `numbers` (k,), for :meth:`ExactSums.values`."""
    values, own = np.zeros(numbers.size), np.empty(_LIMBS, np.int64)
    for at in range(numbers.size):
        which = numbers[at]
        sign, over, top = 1.0, np.int64(0), -1
        for turn in range(2):
            over, top = np.int64(0), -1
            for k in range(_LIMBS):
                word = (limbs[which, k] if turn == 0 else -limbs[which, k]) + over
                over = word >> 32 if k < _LIMBS - 1 else np.int64(0)
                own[k] = word - (over << 32)
                if own[k] != 0:
                    top = k
            if top < _LIMBS - 1 or own[top] > 0:
                break
            sign = -1.0
        if top < 0:
            continue
        head = float(own[top]) * 4294967296.0
        if top > 0:
            head += float(own[top - 1])
        last = float(own[top - 2]) if top > 1 else 0.0
        values[at] = sign * math.ldexp(head + last / 4294967296.0, 32 * (top - 1) + _LOWEST)
    return values
