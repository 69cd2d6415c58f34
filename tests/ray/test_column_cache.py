"""Columns of a store in parts that the driver has: those of one process, after any edits, fetched once."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.proof.pricing import price
from copter.store.view import caps_at, costs_at, take_entries
from support.amounts import examples
from support.in_parts import InProcess, made
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


@pytest.fixture
def trips(monkeypatch):
    """Names of the tasks that parts were asked."""
    asked, original = [], InProcess.each

    def each(self, task, common, own):
        asked.append(task.__name__)
        return original(self, task, common, own)

    monkeypatch.setattr(InProcess, "each", each)
    return asked


@given(seed=st.integers(0, 2**32), parts=st.sampled_from([1, 3]))
@settings(max_examples=examples(30), deadline=None)
def test_the_cache_has_the_columns_of_now(seed, parts):
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


def test_columns_that_edits_leave_are_not_fetched_again(trips):
    program = made(3, random_program, 4)
    program.add_request("summed", [1.0, 2.0], {"r0": 1.0}, total=1.0)
    store = program.store
    asked = some_columns(store, np.random.default_rng(0))
    store.executor.columns(*asked)
    assert trips == ["fetch"]
    program.update_requests(["summed"], totals=[2.0])
    program.update_resources("r0", upper=31.0)
    program.add_request("other", [1.0], {"r0": 1.0}, upper=1e3)
    before = read(store, *asked)
    assert trips == ["fetch"]
    program.update_request("summed", costs=[3.0, 4.0])
    slot = np.array([program.slot_of["summed"]])
    assert read(store, slot, np.array([1]))[0] == [4.0]
    others = asked[0] != slot[0]
    after = read(store, asked[0][others], asked[1][others])
    assert after[0] == [cost for cost, other in zip(before[0], others, strict=True) if other]
