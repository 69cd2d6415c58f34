"""Sums that come out the same however they are cut: the rounding error of each addition is carried along.

A sum of n numbers is carried as two, ``high + low``: ``high`` is what plain additions come to, ``low`` the
sum of what each of them rounded away, which Knuth's two-sum finds exactly.  So it is wrong by about n squared
roundings of the square of the machine precision.  Cut into pieces, whose pairs :func:`sum_of` adds with one
rounding, it comes to the same number; but for sums that lie nearly halfway between two, which are rare.

Source: Knuth, The Art of Computer Programming 2, section 4.2.2; Ogita, Rump and Oishi (2005), algorithm 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from copter.compile.kernels import kernel

Pair: TypeAlias = tuple[float, float]
"""``high, low`` of a sum."""


@kernel(inlined=True)
def added(high, low, term):  # type: ignore[no-untyped-def]
    """The sum ``high + low`` with one more term."""
    whole = high + term
    part = whole - high
    return whole, low + ((high - (whole - part)) + (term - part))


def sum_of(pairs: Iterable[Pair]) -> float:
    """Return the total of sums (high, low); as by plain additions if one is infinite or NaN."""
    highs, lows = zip(*pairs, strict=True)
    plain = sum(highs)
    return math.fsum((*highs, *lows)) if math.isfinite(plain) and all(map(math.isfinite, lows)) else plain
