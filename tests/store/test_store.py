"""LocalStore: slabs that are used again, moved together, and never hold more than they must."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import ContinualProgram
from copter.store import kernels
from copter.store.compiled import compile_program
from copter.store.local import LocalStore
from copter.store.slabs import GrowableArrays, SlotTable, places, slice_indices
from copter.store.view import caps_at, costs_at, view_of
from support.strategies import PlainProgram, PlainRequest


def assert_same(program: ContinualProgram, plain: PlainProgram) -> None:
    """The program's coupling rows and costs are the plain ones."""
    model, built = plain.model(), compile_program(program)
    np.testing.assert_array_equal(built.A[: len(plain.resources)].toarray(), model.A.toarray())
    np.testing.assert_array_equal(built.c, model.c)
    np.testing.assert_array_equal(built.upper, model.upper)


# ---- pools -----------------------------------------------------------------------------------------


def test_pool_keeps_what_was_written_while_it_grows():
    pool = GrowableArrays(value=np.float64, row=np.int32)
    starts = []
    for k in range(200):
        start = pool.allocate(k % 7)
        pool.value[start : start + k % 7] = k
        pool.row[start : start + k % 7] = -k
        starts.append(start)
    for k, start in enumerate(starts):
        assert (pool.value[start : start + k % 7] == k).all()
        assert (pool.row[start : start + k % 7] == -k).all()


def test_pool_uses_a_freed_slice_of_the_same_length_again():
    pool = GrowableArrays(value=np.float64)
    first, second = pool.allocate(5), pool.allocate(5)
    pool.free(first, 5)
    assert pool.garbage == 5
    assert pool.allocate(4) == second + 5  # another length: at the end
    assert pool.allocate(5) == first
    assert (pool.garbage, pool.used) == (0, 14)


def test_pool_of_length_zero_takes_and_frees_nothing():
    pool = GrowableArrays(value=np.float64)
    assert pool.allocate(0) == 0
    pool.free(0, 0)
    assert (pool.used, pool.garbage) == (0, 0)
    assert pool.allocate(3) == 0


def test_compact_moves_live_slices_together_in_their_order():
    pool = GrowableArrays(value=np.float64, row=np.int32)
    lengths = np.array([3, 1, 0, 4, 2])
    starts = np.array([pool.allocate(int(n)) for n in lengths])
    for start, n in zip(starts, lengths, strict=True):
        pool.value[start : start + n] = np.arange(n) + 10 * n
        pool.row[start : start + n] = n
    pool.free(int(starts[1]), 1)
    live = np.array([4, 0, 2, 3])  # not in the order of their starts
    moved = pool.compact(starts[live], lengths[live])
    assert (pool.used, pool.garbage) == (9, 0)
    for start, n in zip(moved, lengths[live], strict=True):
        assert pool.value[start : start + n].tolist() == [10.0 * n + j for j in range(n)]
        assert (pool.row[start : start + n] == n).all()
    assert pool.allocate(1) == 9  # the free list is gone with the garbage


@pytest.mark.parametrize(
    ("used", "freed", "wasteful"), [(8000, 4000, False), (20000, 8000, False), (9000, 5000, True)]
)
def test_pool_is_wasteful_when_more_is_free_than_used_and_it_matters(used, freed, wasteful):
    pool = GrowableArrays(value=np.float64)
    pool.allocate(used - freed)
    pool.free(pool.allocate(freed), freed)
    assert pool.wasteful is wasteful


def test_put_uses_freed_slices_of_the_same_length_and_the_end_for_the_rest():
    pool = GrowableArrays(value=np.float64, row=np.int32)
    first = pool.put(np.array([2, 3, 2]), value=np.arange(7.0), row=np.arange(7))
    assert first.tolist() == [0, 2, 5]
    pool.free_all(first[[0, 2]], np.array([2, 2]))
    lengths = np.array([3, 2, 0, 2, 2, 1])
    starts = pool.put(lengths, value=np.arange(10.0, 20.0), row=np.arange(10))
    assert (pool.used, pool.garbage) == (13, 0)
    assert set(starts[[1, 3]].tolist()) == {0, 5}
    assert pool.value[2:5].tolist() == [2.0, 3.0, 4.0]  # what was not freed
    found = np.concatenate([pool.value[s : s + n] for s, n in zip(starts, lengths, strict=True)])
    assert found.tolist() == list(range(10, 20))
    found = np.concatenate([pool.row[s : s + n] for s, n in zip(starts, lengths, strict=True)])
    assert found.tolist() == list(range(10))


def test_bulk_replacement_takes_no_more_room():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    matrix = csc_array(np.ones((1, 4000)))
    for k in range(20):
        program.add_requests(range(4 * k, 4 * k + 4), np.zeros(4000), [1000] * 4, matrix, upper=np.ones(4000))
        if k >= 5:
            program.remove_requests(range(4 * k - 20, 4 * k - 16))
    store = program.store
    assert (store.costs.used, store.uppers.used, store.entries.used) == (24_000, 24_000, 24_000)
    assert store.pointers.used == 24_024


@pytest.mark.parametrize("count", [3, 200])
def test_places_name_the_same_entries(count):
    rng = np.random.default_rng(0)
    for slots in (
        np.arange(5, 5 + count),
        rng.permutation(count),
        np.arange(count) * 2,
        np.arange(count)[::-1],
    ):
        array = np.zeros(1000)
        array[places(slots)] = np.arange(count)
        assert array[slots].tolist() == list(range(count))
        assert np.count_nonzero(array) == count - 1


def test_table_blanks_a_freed_slot_and_hands_it_out_again():
    table = SlotTable(size_of=(np.int64, -1), open=(np.bool_, False))
    slots = table.allocate(100)
    table.size_of[slots], table.open[slots] = 7, True
    table.free(np.array([42]))
    assert (table.size_of[42], table.open[42]) == (-1, False)
    again = table.allocate(2)
    assert again.tolist() == [42, 100]
    assert table.size_of[again].tolist() == [-1, -1]
    assert (table.size_of[: table.size] == 7).sum() == 99


def test_spread():
    assert slice_indices(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert slice_indices(np.empty(0, np.int64), np.empty(0, np.int64)).size == 0


# ---- the store -------------------------------------------------------------------------------------


def test_sharing_a_template_stores_nothing_but_costs():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    template = program.share_columns({"r": np.arange(1.0, 101.0)}, 100)
    store = program.store
    before = store.entries.used, store.pointers.used
    for k in range(50):
        program.add_request(k, np.full(100, float(k)), template, total=1)
    assert (store.entries.used, store.pointers.used) == before
    assert store.costs.used == 5000
    assert (program.nnz, program.n_variables) == (5000, 5000)


def test_columns_are_freed_with_the_last_that_points_at_them():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    template = program.share_columns({"r": 1.0}, 6)
    program.add_request("a", np.zeros(6), template, upper=1e3)
    program.forget(template)
    assert program.nnz == 6
    program.remove_request("a")
    assert (program.store.entries.garbage, program.store.pointers.garbage) == (6, 7)
    program.add_request("b", np.zeros(6), {"r": 1.0}, upper=1e3)
    assert (program.store.entries.garbage, program.store.entries.used) == (0, 6)


def test_unused_template_is_freed_at_once():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.forget(program.share_columns({"r": 1.0}, 6))
    assert program.store.entries.garbage == 6


def random_edits(rng: np.random.Generator, rounds: int, width: int) -> tuple[ContinualProgram, PlainProgram]:
    program, plain = ContinualProgram(), PlainProgram()
    for i in range(4):
        program.add_resource(i, 10.0)
        plain.resources[i] = (-np.inf, 10.0)
    for k in range(rounds):
        n = int(rng.integers(1, width))
        dense = rng.integers(0, 3, (4, n)).astype(float)
        cost, upper = rng.random(n).tolist(), rng.integers(1, 5, n).astype(float).tolist()
        override = {int(j): float(j) for j in rng.integers(0, n, 3)}
        program.add_request(k, cost, dict(enumerate(dense)), upper=upper, override=override)
        usage = {i: {j: v for j, v in enumerate(row.tolist()) if v} for i, row in enumerate(dense)}
        plain.requests[k] = PlainRequest(cost, usage, upper=upper, override=override)
        while len(program) > 12:
            victim = program.request_ids[int(rng.integers(len(program)))]
            program.remove_request(victim)
            del plain.requests[victim]
    return program, plain


def test_every_pool_is_compacted_and_nothing_is_lost():
    program, plain = random_edits(np.random.default_rng(0), 400, 400)
    store = program.store
    live = program.n_variables
    for pool in (store.costs, store.uppers, store.pointers, store.entries):
        # without compaction: some 400 * 200 entries
        assert pool.used <= 2 * (live + 4 * live) + 4096 + 400
        assert pool.used - pool.garbage <= 5 * live
    assert store.costs.used - store.costs.garbage == live
    assert store.uppers.used - store.uppers.garbage == live
    assert store.overrides.used - store.overrides.garbage == sum(
        len(r.override) for r in plain.requests.values()
    )
    assert store.entries.used - store.entries.garbage == program.nnz
    assert_same(program, plain)


def test_dropped_rows_are_purged_and_their_slots_used_again():
    program, plain = ContinualProgram(), PlainProgram()
    program.add_resource("keep", 5.0)
    plain.resources["keep"] = (-np.inf, 5.0)
    for k in range(1000):
        program.add_resource(k, 1.0)
        plain.resources[k] = (-np.inf, 1.0)
        if k == 500:
            template = program.share_columns({"keep": 1.0, k: [2.0, 0.0]}, 2)
            program.add_request("shared", [1.0, 1.0], template, upper=9.0)
            plain.requests["shared"] = PlainRequest(
                [1.0, 1.0], {"keep": {0: 1.0, 1: 1.0}, k: {0: 2.0}}, upper=9.0
            )
        program.add_request(f"q{k}", [1.0, 2.0], {"keep": 3.0, k: [1.0, 2.0]}, upper=9.0)
        plain.requests[f"q{k}"] = PlainRequest(
            [1.0, 2.0], {"keep": {0: 3.0, 1: 3.0}, k: {0: 1.0, 1: 2.0}}, upper=9.0
        )
        if k >= 10:
            program.remove_resources(k - 10)
            plain.remove_resource(k - 10)
        if k >= 20:
            program.remove_request(f"q{k - 20}")
            del plain.requests[f"q{k - 20}"]
    assert program.store.rows.size < 250
    assert program.nnz == plain.model().A.nnz
    assert_same(program, plain)


def test_scale_and_override_come_back_exactly():
    program = ContinualProgram()
    costs = [0.1, 0.2, 0.3]
    program.add_request("q", costs, {}, scale=3.0, override={1: 7.7}, upper=1e3)
    for scale in (0.7, 1e-9, 1e9, 1.0 / 3.0):
        program.update_request("q", scale=scale)
        assert program.requests["q"].costs.tolist() == [scale * 0.1, 7.7, scale * 0.3]
    program.update_request("q", override={})
    assert program.requests["q"].costs.tolist() == [scale * c for c in costs]
    program.update_request("q", override={0: 5.0}, scale=1.0)
    program.update_request("q", costs=[4.0, 5.0, 6.0])
    assert program.requests["q"].costs.tolist() == [5.0, 5.0, 6.0]  # an override outlives new costs


def test_edits_stamp_what_they_change_and_nothing_else():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    for id in ("a", "b"):
        program.add_request(id, [1.0, 2.0], {"r": 1.0}, total=1)
    table, clock = program.store.requests, program.store.clock
    slot, other = program.request_slots
    program.update_request("a", scale=2.0)
    assert table.cost_stamp[slot] > clock >= table.bound_stamp[slot]
    program.update_request("a", total=2.0)
    assert table.bound_stamp[slot] > table.cost_stamp[slot] > table.generation[slot]
    program.update_request("a", costs=[1.0], usage={"r": 1.0})
    assert table.generation[slot] == program.store.clock
    assert max(table.cost_stamp[other], table.bound_stamp[other], table.generation[other]) <= clock
    program.update_resources("r", upper=3.0)
    row = program.resource_slots[0]
    assert program.store.rows.stamp[row] == program.store.clock > program.store.rows.generation[row]


def test_priced_columns_are_costs_plus_prices_of_what_they_use():
    program, plain = random_edits(np.random.default_rng(1), 30, 20)
    y = np.zeros(program.store.rows.size)
    y[program.resource_slots] = [1.0, -2.0, 0.5, 3.0]
    model = plain.model()
    wanted = model.c + model.A.T @ y[program.resource_slots]
    found = [program.store.priced_columns(slot, y) for slot in program.request_slots.tolist()]
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-12, atol=1e-12)


def test_single_columns_are_read_as_their_requests_are():
    program, plain = random_edits(np.random.default_rng(2), 30, 20)
    program.add_request("one bound", [1.0, 2.0], {}, upper=3.0, scale=2.0)
    store, rng = program.store, np.random.default_rng(3)
    slot = rng.choice(program.request_slots, 500)
    column = (rng.random(500) * store.requests.n_columns[slot]).astype(np.int64)
    by_slot = {s: (store.effective_costs(s), store.upper_bounds(s)) for s in program.request_slots.tolist()}
    costs = [by_slot[s][0][j] for s, j in zip(slot.tolist(), column.tolist(), strict=True)]
    uppers = [by_slot[s][1][j] for s, j in zip(slot.tolist(), column.tolist(), strict=True)]
    np.testing.assert_allclose(costs_at(view_of(store), slot, column), costs, rtol=1e-15)
    assert caps_at(view_of(store), slot, column).tolist() == uppers


# ---- what kernels take -----------------------------------------------------------------------------


def test_kernels_name_the_rows_of_the_tables_as_the_store_lays_them_out():
    store = LocalStore()
    requests, usages = store.requests, store.usages
    for table, block, rows in (
        (requests, requests.whole, "COST_START N_COLUMNS USAGE UPPER_START OVERRIDE_START OVERRIDE_LENGTH"),
        (requests, requests.whole, "GENERATION COST_STAMP BOUND_STAMP"),
        (requests, requests.real, "SCALE UPPER TOTAL"),
        (requests, requests.small, "EXACT INTEGRAL"),
        (usages, usages.whole, "POINTER_START ENTRY_START WIDTH NNZ"),
    ):
        for name in rows.split():
            field = getattr(table, {"WIDTH": "n_columns"}.get(name, name.lower()))
            row = block[getattr(kernels, name)]
            assert field.ctypes.data == row.ctypes.data, name
            assert field.itemsize == row.itemsize, name


def test_a_table_keeps_its_fields_in_its_blocks_while_it_grows():
    table = SlotTable(size_of=(np.int64, -1), weight=(np.float64, 2.0), open=(np.bool_, False))
    for k in range(300):
        slot = table.allocate(1)
        table.size_of[slot], table.weight[slot], table.open[slot] = k, k / 2, k % 2
    assert table.whole[0, :300].tolist() == table.size_of[:300].tolist() == list(range(300))
    assert table.real[0, :300].tolist() == [k / 2 for k in range(300)]
    assert table.small[0, :300].tolist() == [k % 2 for k in range(300)]
    assert (table.whole[0, -1], table.real[0, -1], table.small[0, -1]) == (-1, 2.0, 0)


@pytest.mark.parametrize("way", ["plain", "list", "read-only", "strided", "float32", "int32"])
def test_numbers_may_lie_as_they_like(way):
    def given(values, dtype=np.float64):
        array = np.array(values, dtype)
        if way == "list":
            return array.tolist()
        if way == "strided":
            return np.repeat(array, 2)[::2]
        if way == "float32" and dtype is np.float64:
            return array.astype(np.float32)
        if way == "int32" and dtype is np.int64:
            return array.astype(np.int32)
        array.setflags(write=way != "read-only")
        return array

    program = ContinualProgram()
    program.add_resource("r", 9.0)
    program.add_resource("s", 9.0)
    matrix = csc_array(np.array([[1.0, 0.0, 2.0, 0.0, 0.0], [0.0, 3.0, 4.0, 0.0, 5.0]]))
    matrix.data, matrix.indices = np.array(given(matrix.data)), np.array(given(matrix.indices, np.int64))
    costs = given([1.0, 2.0, 3.0, 4.0, 5.0])
    program.add_requests(["a", "b"], costs, given([2, 3], np.int64), matrix, totals=given([1.0, 2.0]))
    program.add_request(
        "c", given([6.0, 7.0]), {"r": (given([1], np.int64), given([8.0])), "s": given([0.0, 9.0])}, upper=1e3
    )
    program.update_requests(
        ["b", "a"],
        scales=given([2.0, 4.0]),
        overrides=(given([2, 1], np.int64), given([2, 0, 1], np.int64), given([0.5, 1.5, 2.5])),
    )
    built = compile_program(program)
    assert built.A[:2].toarray().tolist() == [[1, 0, 2, 0, 0, 0, 8], [0, 3, 4, 0, 5, 0, 9]]
    assert built.c.tolist() == [4.0, 2.5, 1.5, 8.0, 0.5, 6.0, 7.0]
    assert [program.requests[id].total for id in "abc"] == [1.0, 2.0, None]


def test_coefficients_may_come_unsorted_and_zeros_are_not_kept():
    program = ContinualProgram()
    program.add_resource("r", 9.0)
    program.add_resource("s", 9.0)
    columns, values = np.array([3, 0, 2]), np.array([1.0, 0.0, 5.0])
    program.add_request(
        "a", np.zeros(4), {"s": (columns, values), "r": (np.array([1, 3]), np.array([0.0, 2.0]))}, upper=1e3
    )
    assert program.nnz == 3
    assert compile_program(program).A.toarray().tolist() == [[0, 0, 0, 2], [0, 0, 5, 1]]
