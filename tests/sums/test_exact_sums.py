"""Exact sums: against rational numbers, in any order, and with nothing left of what is taken off."""

from fractions import Fraction
from math import ulp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.compile.kernels import kernel
from copter.sums.exact import ExactSums, add_product

numbers = st.floats(-1e100, 1e100, allow_subnormal=False).filter(lambda x: x == 0.0 or abs(x) > 1e-100)
terms = st.lists(st.tuples(numbers, numbers), max_size=30)


@kernel
def add_all(limbs, a, b, sign):
    for k in range(a.size):
        add_product(limbs, 0, sign * a[k], b[k])


def summed(pairs, sums=None, sign=1.0) -> ExactSums:
    sums = sums or ExactSums(1)
    a, b = (np.array([pair[k] for pair in pairs], float) for k in (0, 1))
    add_all(sums.limbs, a, b, sign)
    return sums


def value(sums: ExactSums) -> float:
    return float(sums.values(np.zeros(1, np.int64))[0])


@given(terms)
def test_a_sum_is_that_of_rational_numbers(pairs):
    exact = sum(Fraction(a) * Fraction(b) for a, b in pairs)
    assert abs(Fraction(value(summed(pairs))) - exact) <= Fraction(ulp(float(exact)))


@given(terms, st.randoms())
def test_the_order_does_not_matter(pairs, random):
    shuffled = pairs.copy()
    random.shuffle(shuffled)
    assert summed(shuffled) == summed(pairs)


@given(terms, terms)
def test_what_is_taken_off_leaves_no_trace(pairs, others):
    both = summed(others, summed(pairs))
    assert summed(others, both, -1.0) == summed(pairs)
    assert value(summed(pairs, both, -1.0)) == 0.0


def test_what_cancels_hides_nothing():
    pairs = [(1e80, 1.0), (3.0, 1.0), (-1e80, 1.0)]
    assert value(summed(pairs)) == 3.0


def test_sums_that_grow_keep_what_they_have():
    sums = summed([(2.0, 3.0)])
    sums.grow(5)
    assert sums.values(np.arange(5)).tolist() == [6.0, 0.0, 0.0, 0.0, 0.0]


def test_many_terms_move_their_carries_on():
    sums = ExactSums(1)
    for _ in range(5):
        sums.expect(2**28)
        summed([(1.0, 2.0**40 - 1.0)] * 3, sums)
    assert value(sums) == 15.0 * (2.0**40 - 1.0)


@pytest.mark.parametrize("number", [5e-324, 2.0**-1000, 1.7e308])
def test_the_smallest_and_largest_numbers_are_kept(number):
    assert value(summed([(number, 1.0)])) == number
