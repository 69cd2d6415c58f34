"""Every example of an epoch is seen once, whatever the batches and the processes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.live.training.loader import Loader

STEPS = st.lists(
    st.tuples(
        st.integers(1, 4).flatmap(lambda k: st.tuples(st.just(k), st.integers(1, 5))),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=30,
)
"""Processes and local batch, accumulation, and whether the job is started anew before the step."""


@given(st.integers(1, 40), st.integers(0, 9), STEPS)
def test_any_sequence_of_steps_goes_through_every_epoch_once(examples, seed, steps):
    loader, seen = Loader(examples, seed), []
    for (processes, local), accumulation, anew in steps:
        if anew:
            loader = Loader(examples, seed, loader.consumed)
        batch = loader.take(processes * local * (accumulation + 1))
        seen += batch.reshape(accumulation + 1, processes, local).ravel().tolist()
    whole = len(seen) // examples
    assert (loader.epoch, loader.position) == (whole, len(seen) % examples)
    for epoch in range(whole):
        assert sorted(seen[epoch * examples : (epoch + 1) * examples]) == list(range(examples))
    rest = seen[whole * examples :]
    assert len(set(rest)) == len(rest)
    assert seen == Loader(examples, seed).take(len(seen)).tolist()


def test_epochs_and_seeds_have_orders_of_their_own():
    first, second = Loader(1000, 1).take(2000).reshape(2, 1000)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, Loader(1000, 2).take(1000))


@pytest.mark.parametrize("wrong", [{"examples": 0}, {"seed": -1}, {"consumed": -1}])
def test_what_is_no_position_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Loader(**{"examples": 5} | wrong)
