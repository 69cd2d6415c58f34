"""The store's log of edits: against a plain list of all edits that were made."""

import copy
import pickle

import numpy as np
import pytest

from copter import ContinualProgram
from copter.store.edit_log import EditLog


def of_each_revision(edits, revision):
    """Slots of the edits after a revision, from a plain list of (revision, slots)."""
    return np.unique(
        np.concatenate([np.empty(0, np.int64), *(slots for at, slots in edits if at > revision)])
    )


@pytest.mark.parametrize("seed", range(6))
def test_what_was_edited_since_any_revision_or_that_it_is_not_known(seed):
    rng = np.random.default_rng(seed)
    log, edits, revision, known, unknown = EditLog(), [], 0, 0, 0
    for _ in range(400):
        revision += int(rng.integers(1, 3))
        slots = rng.integers(0, 6000, int(rng.choice([0, 1, 3, 50, 2500], p=[0.05, 0.5, 0.28, 0.14, 0.03])))
        log.note(revision, slots, 6000)
        edits.append((revision, slots))
        asked = int(rng.integers(max(0, revision - 300), revision + 1))
        found = log.since(asked)
        if found is None:
            unknown += 1
            assert asked < log.complete_after
        else:
            known += 1
            np.testing.assert_array_equal(found, of_each_revision(edits, asked))
    assert known > 100
    assert unknown > 5
    assert log.complete_after <= log.arrays()["revision"][0]
    again = EditLog()
    again.set_arrays(log.arrays())
    for other in (again, copy.deepcopy(log), pickle.loads(pickle.dumps(log))):
        np.testing.assert_array_equal(other.since(log.complete_after), log.since(log.complete_after))
        assert other.since(log.complete_after - 1) is None


def test_an_edit_of_most_requests_empties_the_log():
    log = EditLog()
    log.note(1, np.arange(3), 10_000)
    log.note(2, np.arange(6000), 10_000)
    assert log.since(1) is None
    assert log.since(2).size == 0
    log.note(3, np.array([7, 7]), 10_000)
    np.testing.assert_array_equal(log.since(2), [7])


def test_entries_that_are_forgotten_are_not_taken_for_all():
    log = EditLog()
    log.note(1, np.arange(1500), 0)
    log.note(2, np.arange(1500, 3000), 0)
    log.note(3, np.arange(3000, 4500), 0)  # more than is kept: half of the entries go
    assert log.complete_after >= 1
    for revision in range(4):
        found = log.since(revision)
        if found is not None:
            np.testing.assert_array_equal(found, np.arange(1500 * revision, 4500))
    assert log.since(0) is None
    assert log.since(2) is not None


def test_every_edit_of_a_request_is_logged_and_no_other_edit():
    program = ContinualProgram()
    program.add_resource("a", 5.0)
    shared = program.share_columns({"a": [1.0, 2.0]}, 2)
    store = program.store
    edits = [
        lambda: program.add_request("one", [-1.0, -2.0], shared, total=1.0),
        lambda: program.update_request("one", costs=[-2.0, -1.0]),
        lambda: program.update_request("one", scale=2.0),
        lambda: program.update_request("one", override={1: -4.0}),
        lambda: program.update_request("one", total=0.5),
        lambda: program.update_request("one", relation="==", total=1.0),
        lambda: program.update_request("one", upper=[1.0, 0.5]),
        lambda: program.update_request("one", upper=2.0),
        lambda: program.update_request("one", integral=True),
        lambda: program.update_request("one", costs=[-1.0], usage={"a": [1.0]}),
        lambda: program.price_moves(["one"], [0], 0.5),
        lambda: program.remove_request("one"),
    ]
    for number, edit in enumerate(edits):
        before = store.clock
        edit()
        assert store.clock > before, number
        np.testing.assert_array_equal(store.edited_since(before), [0])
        assert store.edited_since(store.clock).size == 0
    before = store.clock
    program.add_resource("b", 1.0)
    program.update_resources("a", upper=4.0)
    program.remove_resources("b")
    program.forget(shared)
    assert store.edited_since(before).size == 0
