"""Sums with their rounding errors: the same however they are cut, and those of exact arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from copter.sums.compensated import added, sum_of


def pair(terms):
    high = low = 0.0
    for term in terms:
        high, low = added(high, low, term)
    return high, low


@pytest.mark.parametrize("seed", range(10))
def test_any_cut_gives_the_correctly_rounded_sum(seed):
    rng = np.random.default_rng(seed)
    terms = rng.normal(size=3_000) * 10.0 ** rng.uniform(-8, 8, 3_000)
    exact = math.fsum(terms)
    for pieces in (1, 2, 7, 100):
        cut = np.array_split(rng.permutation(terms), pieces)
        assert sum_of(pair(piece) for piece in cut) == exact


def test_what_cancels_is_not_lost():
    assert sum_of([pair([1e16, 1.0]), pair([-1e16])]) == 1.0


@pytest.mark.parametrize("beyond", [np.inf, -np.inf])
def test_infinite_terms_make_infinite_sums(beyond):
    assert sum_of([pair([1.0, beyond, 2.0]), pair([3.0])]) == beyond


def test_opposite_infinities_make_no_number():
    assert math.isnan(sum_of([pair([np.inf]), pair([-np.inf])]))
