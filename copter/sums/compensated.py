"""Compensated sums, which do not depend on how the terms are split into parts.

A sum of n numbers is a pair ``high + low``. ``high`` is the result of plain additions. ``low`` is the sum of
their rounding errors, which Knuth's two-sum computes exactly. The error of the pair is about n^2 eps^2,
relative to the sum of the absolute terms. If the terms are split into parts, :func:`sum_of` adds the pairs of
the parts with one rounding. The result is the same for any split, except in the rare case that the sum is
nearly halfway between two floating-point numbers.

Source: Knuth, The Art of Computer Programming 2, section 4.2.2; Ogita, Rump and Oishi (2005), algorithm 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from typing import TypeAlias

from copter.compile.kernels import kernel

Pair: TypeAlias = tuple[float, float]
"""``high, low`` of a sum."""


@kernel(inlined=True)
def added(high, low, term):  # type: ignore[no-untyped-def]
    """Return the pair ``high + low`` with one more term."""
    whole = high + term
    part = whole - high
    return whole, low + ((high - (whole - part)) + (term - part))


def sum_of(pairs: Iterable[Pair]) -> float:
    """Return the total of pairs (high, low); plain additions if a number is infinite or NaN."""
    numbers = tuple(chain.from_iterable(pairs))
    return math.fsum(numbers) if math.isfinite(sum(numbers)) else sum(numbers[::2])
