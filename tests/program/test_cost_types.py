"""Costs of 32 bits: the program is that with the rounded costs, in every verb, query, file and answer."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from strategies import PlainProgram, random_plain, snapshot

from copter import ContinualProgram, EditError, FileError, Journal, ProximalPoint
from copter.durable.blocks import Blocks
from copter.durable.snapshot import MAGIC, pack
from copter.store.compiled import compile_program


def rounded(values):
    return np.asarray(values, np.float64).astype(np.float32).astype(np.float64)


def as_given(values):
    return np.asarray(values, np.float64)


def fill(program: ContinualProgram, plain: PlainProgram, costs) -> ContinualProgram:
    """The plain program in an empty one, every cost passed through ``costs``; scales are powers of two."""
    for id, (lower, upper) in plain.resources.items():
        program.add_resource(id, upper, lower=lower)
    for id, r in plain.requests.items():
        usage = {i: (list(e), list(e.values())) for i, e in r.usage.items()}
        columns = list(r.override)
        override = dict(zip(columns, costs(list(r.override.values())).tolist(), strict=True))
        row = {"total": r.total, "relation": r.relation, "upper": r.upper}
        program.add_request(id, costs(r.costs), usage, scale=r.scale, override=override, **row)
    return program


def with_scales(plain: PlainProgram, rng: np.random.Generator) -> PlainProgram:
    for request in plain.requests.values():
        request.scale = 2.0 ** int(rng.integers(-3, 4))
        if rng.random() < 0.5:
            column = int(rng.integers(len(request.costs)))
            request.override[column] = request.costs[column] * request.scale
        request.costs = [cost / request.scale for cost in request.costs]
    return plain


def same(one: ContinualProgram, two: ContinualProgram) -> None:
    """What both hold, as the queries and a build from scratch say it."""
    for id in two.request_ids:
        assert one.requests[id].costs.tolist() == two.requests[id].costs.tolist()
        assert one.requests[id].base_costs.tolist() == two.requests[id].base_costs.tolist()
        assert one.requests[id].scale == two.requests[id].scale
    mine, others = compile_program(one), compile_program(two)
    for name in ("c", "lower", "upper", "row_lower", "row_upper"):
        assert getattr(mine, name).dtype == np.float64
        assert getattr(mine, name).tolist() == getattr(others, name).tolist()
    assert (mine.A != others.A).nnz == 0
    data = one.requests[:]
    assert data.costs.dtype == np.float64
    assert data.costs.tolist() == two.requests[:].costs.tolist()


def same_answer(solvers, programs) -> None:
    mine, others = (solver.solve(program) for solver, program in zip(solvers, programs, strict=True))
    assert mine.status == others.status
    figures = [(each.objective, each.bound, each.gap) for each in (mine, others)]
    assert repr(figures[0]) == repr(figures[1])  # there may be NaN
    assert mine.found == others.found
    if not mine.found:  # it is infeasible, or unbounded
        assert repr(mine.x) == repr(others.x) and not mine.x
        return
    assert mine.y.tolist() == others.y.tolist()
    assert [mine.x[id].tolist() for id in programs[0].request_ids] == [
        others.x[id].tolist() for id in programs[1].request_ids
    ]


@settings(max_examples=30, deadline=None)
@example(seed=4255, kind="boxes")  # unbounded after the edits
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["packing", "mixed", "boxes", "wide"]))
def test_edits_and_answers_are_those_of_the_rounded_program(seed, kind):
    rng = np.random.default_rng(seed)
    plain = with_scales(random_plain(rng, kind), rng)
    one = fill(ContinualProgram(cost_dtype="float32"), plain, as_given)
    two = fill(ContinualProgram(), plain, rounded)
    solvers = ProximalPoint(), ProximalPoint()
    same(one, two)
    same_answer(solvers, (one, two))
    ids = list(plain.requests)
    id = ids[int(rng.integers(len(ids)))]
    fresh = [rng.normal(size=one.requests[each].costs.size) + 3.0 for each in ids]
    override = {0: float(rng.normal()) + 3.0}
    for program, costs in ((one, as_given), (two, rounded)):
        program.update_requests(ids, costs=[costs(each) for each in fresh])
        program.update_request(id, scale=0.5)
        program.update_request(id, override={0: float(costs([override[0]])[0])})
        program.add_requests(["new"], costs([1.1, 2.3]), [2], [{}], totals=[1.0])
    same(one, two)
    same_answer(solvers, (one, two))
    for program in (one, two):
        program.update_request(id, override={})
        program.remove_request("new")
    same(one, two)
    same_answer(solvers, (one, two))


def packing(cost_dtype="float32", seed=1, jobs=40):
    """Jobs that share a template, and their costs as they were given."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram(cost_dtype=cost_dtype)
    for name in "ab":
        program.add_resource(name, upper=10.0)
    template = program.share_columns({"a": ([0, 1, 2], [1, 2, 4]), "b": ([3, 4, 5], [1, 2, 4])}, 6)
    costs = -rng.random((jobs, 6)) - 0.1
    program.add_requests(list(range(jobs)), costs.ravel(), [6] * jobs, template, totals=np.ones(jobs))
    return program, costs


def test_the_answer_is_the_optimum_of_the_rounded_costs():
    program, costs = packing()
    compiled = compile_program(program)
    assert compiled.c.tolist() == rounded(costs.ravel()).tolist() != costs.ravel().tolist()
    bounds = np.column_stack((compiled.lower, compiled.upper))
    best = linprog(compiled.c, compiled.A, compiled.row_upper, bounds=bounds).fun
    solution = ProximalPoint(tolerance=1e-9).solve(program)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, rel=1e-8)
    assert solution.bound <= best + 1e-12 * abs(best)


def test_the_pool_takes_half_the_memory():
    sizes = [packing(kind)[0].store.costs.cost.nbytes for kind in ("float64", "float32")]
    assert sizes[0] == 2 * sizes[1]


def test_copies_and_files_keep_the_type(tmp_path):
    program, _ = packing()
    program.update_request(3, scale=1.7, override={1: 0.3})
    solver = ProximalPoint()
    solver.solve(program)
    program.save(tmp_path / "program", solver)
    again = ProximalPoint()
    loaded = ContinualProgram.load(tmp_path / "program", again)
    for twin in (copy.deepcopy(program), pickle.loads(pickle.dumps(program)), loaded):
        assert twin.cost_dtype == "float32"
        assert snapshot(twin) == snapshot(program)
    for each in (program, loaded):
        each.update_request(5, costs=np.full(6, -1.23))
    same_answer((solver, again), (program, loaded))


def test_a_journal_goes_on_with_the_type(tmp_path):
    with Journal(tmp_path / "j", ProximalPoint(), program=packing()[0]) as journal:
        journal.update_request(2, costs=np.full(6, -0.7), scale=1.3)
        first = journal.solve()
        before = snapshot(journal)
    with Journal(tmp_path / "j", ProximalPoint()) as journal:
        assert journal.cost_dtype == "float32"
        assert snapshot(journal) == before
        assert journal.solve().objective == pytest.approx(first.objective, rel=1e-6)


def test_a_file_with_another_type_is_refused(tmp_path):
    blocks = Blocks()
    pack(packing()[0], blocks)
    blocks.facts["cost_dtype"] = "float16"
    blocks.write(tmp_path / "p", MAGIC)
    with pytest.raises(FileError, match="float16"):
        ContinualProgram.load(tmp_path / "p")


def test_a_file_without_a_type_is_refused(tmp_path):
    program = packing("float64")[0]
    blocks = Blocks()
    pack(program, blocks)
    del blocks.facts["cost_dtype"]
    blocks.write(tmp_path / "p", MAGIC)
    with pytest.raises(FileError, match="cost_dtype"):
        ContinualProgram.load(tmp_path / "p")


def test_there_are_two_types():
    with pytest.raises(ValueError, match="float16"):
        ContinualProgram(cost_dtype="float16")


@pytest.mark.parametrize("cost", [1e39, -1e39, 1e-39])
def test_costs_beyond_the_range_are_named_and_change_nothing(cost):
    program, _ = packing()
    before = snapshot(program)
    row, costs = {"usage": {"a": 1.0}, "total": 1.0}, [1.0, cost]
    edits = [
        (lambda: program.add_request("x", costs, **row), "x", "column 1"),
        (lambda: program.add_request("x", [1.0], override={0: cost}, **row), "x", "column 0"),
        (lambda: program.add_requests(["w", "x"], [1.0, 2.0, *costs], [2, 2], [{}, {}]), "x", "column 1"),
        (lambda: program.update_request(7, costs=[1.0, 1.0, 1.0, cost, 1.0, 1.0]), "7", "column 3"),
        (lambda: program.update_request(7, costs=costs, usage={"a": 1.0}), "7", "column 1"),
        (lambda: program.update_request(7, override={4: cost}), "7", "column 4"),
        (lambda: program.update_requests([6, 7], overrides=[{}, {2: cost}]), "7", "column 2"),
        (
            lambda: program.update_requests([6, 7], overrides=([0, 1], [5], [cost]), scales=[1.0, 2.0]),
            "7",
            "column 5",
        ),
    ]
    for edit, request, column in edits:
        with pytest.raises(EditError, match="32 bits") as refused:
            edit()
        assert request in str(refused.value)
        assert column in str(refused.value)
        assert snapshot(program) == before


def test_a_scale_that_takes_a_kept_override_beyond_the_range_is_refused():
    program, _ = packing()
    program.update_request(4, override={2: 1e30})
    before = snapshot(program)
    with pytest.raises(EditError, match="4.*column 2"):
        program.update_requests([3, 4], scales=[1.0, 1e-20])
    assert snapshot(program) == before
    program.update_requests([3, 4], scales=[1.0, 1e-20], overrides=[None, {1: 0.5}])
    assert program.requests[4].costs[1] == pytest.approx(0.5, rel=1e-7)


def test_a_scale_may_take_costs_beyond_the_range():
    program, costs = packing()
    program.update_request(4, scale=1e60)
    assert program.requests[4].costs.tolist() == (1e60 * rounded(costs[4])).tolist()
