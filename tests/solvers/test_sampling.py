"""Samples that stand for all."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from copter.solvers.inner.sampling import Sampler

DRAWS = 512


@given(
    sizes=st.lists(st.just(np.inf) | st.floats(0.0, 1e3), min_size=1, max_size=60),
    wanted=st.integers(1, 60),
)
def test_a_sample_is_drawn_in_proportion_and_stands_for_all(sizes, wanted):
    size = np.array(sizes)
    sampler = Sampler(size, wanted)
    count, factor = np.zeros(size.size), np.ones(size.size)
    for offset in (np.arange(DRAWS) + 0.5) / DRAWS:
        taken, stands_for = sampler.draw(offset)
        assert (np.diff(taken) > 0).all() and (stands_for >= 1.0).all()
        assert np.isin(np.flatnonzero(np.isinf(size)), taken).all()
        assert taken.size <= wanted + 1 or taken.size == np.count_nonzero(size)
        count[taken] += 1
        factor[taken] = stands_for
    often = count > 0
    # each is drawn as often as it takes for its weights to come to one a draw
    assert (abs(count * factor / DRAWS - 1.0)[often] <= factor[often] / DRAWS + 1e-9).all()


def test_few_items_that_carry_something_are_all_in_the_sample():
    taken, stands_for = Sampler(np.array([3.0, 0.0, 1.0]), 2).draw()
    assert taken.tolist() == [0, 2] and stands_for.tolist() == [1.0, 1.0]


def test_what_carries_most_is_certain_and_others_share_the_rest():
    sampler = Sampler(np.array([1.0] * 90 + [1e6]), 10)
    for offset in (0.0, 0.3, 0.9):
        taken, stands_for = sampler.draw(offset)
        assert taken.size == 10 and taken[-1] == 90
        assert stands_for.tolist() == [10.0] * 9 + [1.0]
