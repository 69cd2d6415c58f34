"""Every form of a verb's arguments is written, and made again from what was written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram, LogTerm
from copter.durable.edits import WrittenProgram, make_edit, read_edit
from copter.durable.soundness import Unsound, check_program, check_store
from copter.durable.values import ValueFormatError
from support.amounts import examples
from support.edit_forms import bulk, empty, requests, same
from support.strategies import snapshot


class Written(WrittenProgram):
    """A program that keeps its edits as bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.edits: list[bytes] = []

    def _write(self, edit: bytes) -> None:
        self.edits.append(edit)


def replayed(program: Written) -> ContinualProgram:
    twin = ContinualProgram()
    for edit in program.edits:
        make_edit(twin, read_edit(edit))
    return twin


@given(some=st.lists(requests(), min_size=1, max_size=3), form=st.sampled_from(["parts", "flat"]))
@settings(max_examples=examples(30), deadline=None)
def test_requests_in_bulk(some, form):
    program = Written()
    rows = empty().resources[:]
    program.add_resources(**vars(rows))
    given = bulk(some, form)
    program.add_requests(range(len(some)), **given)
    program.update_requests(range(len(some)), **given)
    for k, request in enumerate(some):
        program.update_request(k, **request)
    twin = replayed(program)
    assert snapshot(twin) == snapshot(program)
    same(twin, program)


def test_every_edit_of_a_lively_program():
    program, _ = lively()
    program.update_resources("a", by=2)
    program.update_requests(["v"], overrides=([1], [1], [9.0]))
    program.remove_request("v")
    twin = replayed(program)
    assert snapshot(twin) == snapshot(program) and twin.shared_columns == program.shared_columns


JUNK = [None, -1, 0, 2**62, 1.5, np.nan, np.inf, True, "x", (), [1], b"", {}, np.empty(0), np.zeros((2, 2))]


def mutated(rng, value):
    """Something else than a field of an edit."""
    if isinstance(value, tuple) and value and rng.random() < 0.8:
        k = int(rng.integers(len(value)))
        changed = [mutated(rng, each) if i == k else each for i, each in enumerate(value)]
        return type(value)(*changed) if hasattr(value, "_fields") else tuple(changed)
    if isinstance(value, np.ndarray) and value.size and value.dtype != object and rng.random() < 0.7:
        kind = int(rng.integers(4))
        if kind == 0:
            return value[:-1]
        if kind == 1:
            return value.astype(rng.choice([np.float64, np.int64, np.int8, np.bool_]))
        other = value.copy()
        other.flat[rng.integers(value.size)] = rng.choice(
            [-1, 0, 1, 3, 100, 2**62 if value.itemsize == 8 else 99]
        )
        return other
    return JUNK[int(rng.integers(len(JUNK)))]


def lively():
    """A program of all kinds of requests, and valid edits of it."""
    program = Written()
    program.add_resources(["a", "b"], upper=[8.0, 9.0])
    columns, costs = program.share_columns({"a": [1.0, 2.0]}, 2), [-1.0, -2.0]
    program.add_request("log", [-1.0, -1.0], {"b": [1.0, 1.0]}, total=2.0, term=LogTerm(1.0, 1.0))
    program.add_requests(["x", "y"], [costs, costs], None, columns, totals=1.0, overrides=[{0: 3.0}, None])
    before = len(program.edits)
    program.share_columns({"b": 2.0}, 1)
    usages = [columns, {"a": ([1], [1.0])}]
    program.add_requests(
        ["v", "w"], np.arange(4.0), [2, 2], usages, upper=[1.0, [2.0, 3.0]], starts=[{0: 1.0}, None]
    )
    program.update_requests(["x", "y"], scales=[2.0, 3.0], totals=[None, 2.0], upper=2.0, integral=True)
    program.update_requests(["x"], costs=[[1.0, 2.0, 3.0]], usage=[{"b": 1.0}], starts=[{2: 1.0}])
    program.update_request("log", term={"weight": 2.0})
    program.update_request("y", costs=costs, override={1: 0.5})
    program.update_resources("a", upper=3.0)
    program.remove_requests(["w"])
    program.forget(columns)
    program.remove_resources("b")
    return program, before


@pytest.mark.parametrize("seed", range(4))
def test_an_edit_that_does_not_fit_is_refused_and_whatever_is_made_is_sound(seed):
    rng, (program, before) = np.random.default_rng(seed), lively()
    refused = 0
    for _ in range(150):
        twin = ContinualProgram()
        stop = int(rng.integers(before, len(program.edits)))
        for content in program.edits[:stop]:
            make_edit(twin, read_edit(content))
        edit = read_edit(program.edits[stop])
        name = str(rng.choice(edit._fields[1:]))
        clock, wrong = twin.store.clock, edit._replace(**{name: mutated(rng, getattr(edit, name))})
        try:
            make_edit(twin, wrong)
        except ValueFormatError:
            refused += 1
            assert twin.store.clock == clock
        check_store(twin.store)
        check_program(twin)
    assert refused > 30


@pytest.mark.parametrize("column", [-1, 2])
def test_a_start_of_a_column_that_is_not_there_is_unsound(column):
    program = ContinualProgram()
    program.add_request("q", [1.0, 2.0], {}, total=1, start={1: 0.5})
    check_program(program)
    ((slot, (_, values)),) = program._starts.items()
    program._starts[slot] = np.array([column]), values
    with pytest.raises(Unsound, match="starts"):
        check_program(program)


def one_past_the_end(program, what):
    """Spoil a program by one number that is one too large."""
    store, (slot,) = program.store, program._starts
    if what == "columns of overrides":
        store.overrides.column[store.requests.override_start[slot]] = store.requests.n_columns[slot]
    else:
        program._starts[store.requests.size] = program._starts.pop(slot)


@pytest.mark.parametrize("what", ["columns of overrides", "starts"])
def test_a_number_that_is_one_too_large_is_unsound(what):
    program = ContinualProgram()
    program.add_request("q", [1.0, 2.0], {}, total=1, override={1: 3.0}, start={1: 0.5})
    check_store(program.store)
    check_program(program)
    one_past_the_end(program, what)
    with pytest.raises(Unsound, match=what):
        check_store(program.store)
        check_program(program)
