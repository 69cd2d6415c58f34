"""The view of a store: the last one as long as it is right, and no longer."""

import gc
import weakref

from copter import ContinualProgram, make_solver
from copter.store.view import view_of


def program_of(requests):
    program = ContinualProgram()
    program.add_resource("a", upper=3.0)
    for k in range(requests):
        program.add_request(k, [-1.0 - k, -2.0], {"a": [1.0, 2.0]}, total=1.0)
    return program


def test_a_view_is_kept_until_an_edit():
    program = program_of(3)
    view = view_of(program.store)
    assert view_of(program.store) is view
    make_solver("copter").solve(program)
    assert view_of(program.store) is view
    program.add_request("new", [1.0], {}, upper=1e3)
    after = view_of(program.store)
    assert after is not view and after.n_columns.size == view.n_columns.size + 1


def test_a_view_of_a_store_that_was_edited_behind_its_program_is_a_new_one():
    program = program_of(3)
    view = view_of(program.store)
    program.store.reserve(100_000)  # the pool of costs moves
    after = view_of(program.store)
    assert after is not view and after.cost is program.store.costs.cost


def test_a_view_keeps_neither_store_nor_old_pools():
    program = program_of(3)
    pool = weakref.ref(view_of(program.store).cost)
    program.reserve(100_000)
    gc.collect()
    assert pool() is None
    view_of(program.store)
    store = weakref.ref(program.store)
    del program
    gc.collect()
    assert store() is None
