"""A program in parts beside one in one piece: the same verbs, the same queries, the same columns."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ContinualProgram, make_solver
from copter.errors import EditError, UnusableError
from copter.ray.distributed import DistributedProgram
from copter.store.edit import Edit, EditedColumns, Entries, Runs
from copter.store.slabs import GrowableArrays
from support.in_parts import InProcess


def pair(parts=3):
    """A program in parts and one in one piece."""
    return DistributedProgram(InProcess(parts)), ContinualProgram()


def fill(program, rng):
    """Requests of every kind: shared and own usages, bounds, overrides, terms."""
    program.add_resources(range(4), upper=[9.0, 8.0, 7.0, 6.0])
    template = program.share_columns({0: [1, 2, 0, 3], 2: ([1, 3], [1.5, 2.5])}, 4)
    program.add_requests([f"t{k}" for k in range(20)], -rng.random(80), np.full(20, 4), template, totals=1)
    program.add_requests(
        [f"v{k}" for k in range(9)], [-rng.random(4)] * 9, None, template, totals=2, upper=1.0
    )
    for k in range(8):
        own = {k % 4: rng.random(3) + 0.1, (k + 1) % 4: ([1], [1.0])}
        program.add_request(f"o{k}", -rng.random(3), own, upper=rng.random(3), override={1: -3.0})
    program.update_requests(
        ["v1", "v2"], scales=[2.0, 0.5], overrides=([1, 2], [3, 0, 1], [-4.0, -1.0, -2.0])
    )
    program.forget(template)


def read(program):
    """All that can be asked of a program."""
    data = vars(program.requests[:]) | vars(program.resources[:])
    told = {name: value.toarray() if hasattr(value, "toarray") else value for name, value in data.items()}
    terms = told.pop("terms")
    told["terms"] = [
        term and (type(term), dict(term.parameters), np.asarray(term.image).tolist()) for term in terms
    ]
    for name in ("costs", "base_costs", "upper", "override", "total", "relation", "scale"):
        told[f"each {name}"] = [getattr(program.requests[id], name) for id in program.request_ids]
    told["each usage"] = [
        {
            row: (columns.tolist(), values.tolist())
            for row, (columns, values) in program.requests[id].usage.items()
        }
        for id in program.request_ids
    ]
    told["shared"] = [bool(program.requests[id].shared_columns) for id in program.request_ids]
    told["size"] = program.n_variables, program.n_rows, program.nnz, program.store.clock
    return told


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_equal(value, b[name], err_msg=name)


def test_what_was_given_may_change_before_it_is_sent():
    program, _ = pair()
    costs, scales = np.array([1.0, 2.0]), np.array([2.0])
    program.add_requests(["q"], costs, [2], [{}], upper=1e3)
    program.update_requests(["q"], scales=scales)
    costs[:], scales[:] = 9.0, 9.0
    assert program.requests["q"].costs.tolist() == [2.0, 4.0]


def test_a_refused_edit_is_not_even_put_down():
    program, _ = pair()
    fill(program, np.random.default_rng(0))
    before, logged = read(program), len(program.store.executor._log)
    with pytest.raises(EditError):
        program.update_requests(["o1", "o2"], scales=[2.0, np.nan])
    with pytest.raises(EditError):
        program.add_requests(["x", "y"], [1.0, 2.0], [1, 1], [{0: 1.0}, {"nowhere": 1.0}])
    assert len(program.store.executor._log) == logged
    assert_same(read(program), before)


def test_the_driver_keeps_no_column():
    program, _ = pair()
    fill(program, np.random.default_rng(0))
    program.store.executor.flush()
    store = program.store
    assert not any(isinstance(each, GrowableArrays) for each in vars(store).values())
    assert not store.executor._log


def test_an_edit_is_cut_by_part_and_by_neighbours():
    slots = np.array([5, 0, 4, 3, 7])
    values = np.array([50.0, 51.0, 0.0, 40.0, 41.0, 42.0, 30.0])
    lengths = np.array([2, 1, 3, 1, 0])
    given = np.array([True, True, False, True, True])
    widths = np.array([1, 0, 2, 0, 0])
    columns = EditedColumns(widths, np.array([0, 2, 2, 3]), np.array([50, 51, 40]), np.array([5.0, 5.1, 4.0]))
    edit = Edit(
        "update_requests",
        slots=slots,
        scales=slots * 10.0,
        costs=Runs(lengths, values),
        starts=Entries(given, lengths, values.astype(np.int64), values),
        columns=columns,
        upper=2.0,
    ).cut(3)
    assert edit.of(0, 1).scales.tolist() == [0, 30] and edit.of(0, 1).slots.tolist() == [0, 1]
    assert edit.of(0, 1).costs.values.tolist() == [0.0, 30.0]
    assert edit.of(0, 1).columns.row.size == 0
    two = edit.of(1, 3)  # of whom holds the last two parts
    assert two.of(0, 1).scales.tolist() == [40, 70]
    assert two.of(0, 1).costs.values.tolist() == [40.0, 41.0, 42.0]
    assert two.of(0, 1).starts.given.tolist() == [False, True]
    assert two.of(0, 1).columns.pointer.tolist() == [0, 0, 1]
    assert two.of(0, 1).columns.row.tolist() == [40]
    assert two.of(1, 2).costs.values.tolist() == [50.0, 51.0]
    assert two.of(1, 2).columns.pointer.tolist() == [0, 2]
    assert two.of(1, 2).columns.value.tolist() == [5.0, 5.1]
    assert two.of(1, 2).upper == 2.0
    assert Edit("remove_requests", slots=slots[:1]).cut(3).of(0, 2) is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_edits_that_reach_some_parts_only_make_it_refuse_to_go_on(monkeypatch, error):
    program, _ = pair()
    fill(program, np.random.default_rng(0))
    _ = program.requests["t1"].costs
    last = program.store.executor.workers.stores[-1]

    def fail(edit):
        raise error("no room")

    program.update_requests(["o1", "o2", "o3"], scales=2.0)
    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(last, "apply", fail)
        _ = program.requests["o1"].costs
    for _ in range(2):
        with pytest.raises(UnusableError, match="did not reach all parts .*no room"):
            _ = program.requests["t1"].costs
        with pytest.raises(UnusableError, match="make a new one"):
            make_solver("copter").solve(program)


def test_a_closed_program_says_so():
    program, _ = pair()
    fill(program, np.random.default_rng(0))
    solver = make_solver("copter")
    solver.solve(program)
    program.update_request("o1", scale=2.0)
    program.close()
    program.close()
    asked = (
        lambda: program.requests["o1"].costs,
        lambda: program.nnz,
        lambda: solver.solve(program),
        lambda: make_solver("highs-simplex").solve(program),
        lambda: program.add_resource("new", 1.0),
        lambda: program.update_request("o1", scale=3.0),
        lambda: program.requests[:],
    )
    for ask in asked:
        with pytest.raises(UnusableError, match="closed"):
            ask()
