"""ContinualProgram: what each verb does, one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array

from copter import ContinualProgram
from copter.errors import EditError
from copter.solvers.proximal import solver as proximal
from copter.store.compiled import compile_program


@pytest.fixture
def program() -> ContinualProgram:
    program = ContinualProgram()
    program.add_resource("cpu", 8.0)
    program.add_resource("link", 5.0, lower=1.0)
    return program


def rows(program: ContinualProgram) -> np.ndarray:
    """Coupling rows, dense."""
    return compile_program(program).A[: len(program.resource_ids)].toarray()


def test_ids_are_any_hashable_and_keep_their_order():
    program = ContinualProgram()
    for id in ("a", 1, (2, "b"), None, frozenset({3})):
        program.add_resource(id, 1.0)
        program.add_request(id, [1.0], {id: 1.0}, upper=1e3)
    program.remove_request(1)
    program.add_request(1, [1.0], {}, upper=1e3)
    assert program.request_ids == ["a", (2, "b"), None, frozenset({3}), 1]
    assert program.resource_ids == ["a", 1, (2, "b"), None, frozenset({3})]
    assert len(program) == 5 and None in program and "z" not in program


def test_an_empty_bulk_edit_is_no_edit(program):
    clock = program.store.clock
    program.add_requests([], [], [], csc_array((2, 0)), totals=[])
    program.remove_requests([])
    program.update_requests([])
    program.update_requests([], totals=[], scales=[], overrides=([], [], []), costs=[])
    assert (len(program), program.store.clock) == (0, clock)


def test_starts_are_handed_to_the_next_solve_and_die_with_their_request(program):
    program.add_request("q", [-1.0, -1.0], {"cpu": 1.0}, start={1: 0.5}, upper=1e3)
    program.add_request("gone", [-1.0], {}, start={0: 1.0}, upper=1e3)
    program.remove_request("gone")
    program.add_request("replaced", [-1.0], {}, start={0: 1.0}, upper=1e3)
    program.update_request("replaced", costs=[1.0, 1.0], usage={})
    starts = program.take_starts()
    assert list(starts) == [program.request_slots[0]]
    assert [part.tolist() for part in starts[program.request_slots[0]]] == [[1], [0.5]]
    assert program.take_starts() == {}


def test_a_start_decides_between_equal_optima():
    answers = []
    for column in (0, 1):
        program = ContinualProgram()
        program.add_request("q", [-1.0, -1.0], {}, total=1.0, start={column: 1.0})
        answers.append(proximal.ProximalPoint().solve(program).x["q"])
    np.testing.assert_allclose(answers, [[1.0, 0.0], [0.0, 1.0]], atol=1e-6)


# ---- bulk totals and capacities ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, range, np.array], ids=["list", "tuple", "range", "array"])
def test_ids_that_were_mapped_before_follow_the_requests(kind):
    n = 3000  # many, so that they are remembered
    program = ContinualProgram()
    program.add_requests(range(n), np.ones(n), np.ones(n, int), csc_array((0, n)), totals=np.ones(n))
    every = range(n) if kind is range else kind(range(n))
    for totals in (np.arange(n), np.arange(n) + 1):
        program.update_requests(every, totals=totals)
        assert [program.requests[k].total for k in range(n)] == totals.tolist()
    program.remove_requests([0, 1, 2])
    with pytest.raises(EditError, match="no request with this id"):
        program.update_requests(every, totals=np.ones(n))
    # the three come back in another order, and so in other slots
    program.add_requests([2, 0, 1], np.ones(3), np.ones(3, int), csc_array((0, 3)), totals=np.ones(3))
    program.update_requests(every, totals=np.arange(n) + 2)
    assert [program.requests[k].total for k in range(n)] == list(range(2, n + 2))


def test_a_list_of_ids_that_the_caller_changes_is_mapped_again():
    n = 2000
    program = ContinualProgram()
    program.add_requests(range(n), np.ones(n), np.ones(n, int), csc_array((0, n)), totals=np.ones(n))
    ids = list(range(n - 1))
    program.update_requests(ids, totals=np.full(n - 1, 2.0))
    ids[0] = n - 1
    program.update_requests(ids, totals=np.full(n - 1, 3.0))
    assert (program.requests[0].total, program.requests[n - 1].total) == (2.0, 3.0)
    ids[1] = 2
    with pytest.raises(EditError, match="is given twice"):
        program.update_requests(ids, totals=np.full(n - 1, 4.0))


def test_slots_that_were_handed_out_stay_as_they_were(program):
    program.add_request("a", [1.0], {}, total=1)
    slots, by_id = program.request_slots, program.slot_of
    program.add_request("b", [1.0], {}, total=1)
    assert (slots.size, list(by_id), list(program.slot_of)) == (1, ["a"], ["a", "b"])
    assert program.request_slots.tolist() == list(program.slot_of.values())
    program.remove_request("a")
    assert list(program.slot_of) == ["b"] and program.request_slots.size == 1
    with pytest.raises(ValueError, match="read-only"):
        program.request_slots[0] = 7


def test_a_matrix_that_is_given_stays_as_it_was_and_may_be_anything_sparse(program):
    program.add_resource("gone", 1.0)
    program.add_resource("disk", 1.0)
    program.remove_resources("gone")  # rows are no longer their slots
    dense = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0], [5.0, 6.0, 0.0]])
    sorted_columns = csc_array(dense)
    doubled = csc_array(
        (
            np.array([5.0, 0.5, 0.5, 6.0, 3.0, 4.0, 2.0]),
            np.array([2, 0, 0, 2, 1, 1, 0]),
            np.array([0, 3, 5, 7]),
        ),
        shape=(3, 3),
    )
    data, indices = doubled.data.copy(), doubled.indices.copy()
    for k, matrix in enumerate((sorted_columns, doubled, csr_array(dense), coo_array(dense))):
        program.add_requests([(k, 0), (k, 1)], np.zeros(3), [1, 2], matrix, upper=1e3)
    assert rows(program).tolist() == np.tile(dense, 4).tolist()
    assert (doubled.data.tolist(), doubled.indices.tolist()) == (data.tolist(), indices.tolist())
    assert program.nnz == 24
