"""Columns of a store in parts: those of a store in one process, after any edits."""

from __future__ import annotations

from itertools import count

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.proof.pricing import price
from copter.store.view import caps_at, costs_at, take_entries
from support.amounts import examples
from support.in_parts import made
from support.random_programs import random_edits, random_program


def some_columns(store, rng):
    """Columns of live requests, in any order."""
    live = store.live_requests()
    slot = rng.choice(live, 2 * live.size)
    return slot, (rng.random(slot.size) * store.requests.n_columns[slot]).astype(np.int64)


def read(store, slot, column):
    view, place = store.executor.columns(slot, column)
    alive = store.rows.alive[: store.rows.size]
    pointer, row, value = take_entries(view, slot, place, alive)
    owner = np.repeat(np.arange(slot.size), np.diff(pointer))
    entries = sorted(zip(owner.tolist(), row.tolist(), value.tolist(), strict=True))
    return costs_at(view, slot, place).tolist(), caps_at(view, slot, place).tolist(), entries


@given(seed=st.integers(0, 2**32), parts=st.sampled_from([1, 3]))
@settings(max_examples=examples(30), deadline=None)
def test_fetched_columns_are_those_of_a_store_in_one_process(seed, parts):
    here, there = random_program(seed), made(parts, random_program, seed)
    rngs, ids = [np.random.default_rng(seed) for _ in range(2)], [count(100) for _ in range(2)]
    for _ in range(4):
        asked = some_columns(here.store, np.random.default_rng(seed))
        assert read(there.store, *asked) == read(here.store, *asked)
        prices = np.linspace(-1.0, 1.0, here.store.rows.size)
        for part, other in zip(*(price(p.store, prices, slack=0.5) for p in (here, there)), strict=True):
            assert np.array_equal(part, other, equal_nan=True)
        assert read(there.store, *asked) == read(here.store, *asked)
        for program, rng, fresh in zip((here, there), rngs, ids, strict=True):
            random_edits(program, rng, fresh)
