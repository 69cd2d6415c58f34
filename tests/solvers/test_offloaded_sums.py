"""Newton's sums where pieces of the set are offloaded: bit by bit those of threads, whatever is lost."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import ContinualProgram, ProximalPoint
from copter.parallel import chunk_bounds
from copter.solvers.inner import sums as sums_module
from copter.solvers.inner.gather import gather
from copter.solvers.inner.newton import SemismoothNewton
from copter.solvers.inner.offloaded_sums import OffloadedSums, pieces_of
from copter.solvers.inner.sums import Curvature, Sums
from copter.solvers.inner.tuning import NewtonSystems, NewtonTuning
from copter.solvers.proximal.tuning import ProximalTuning
from support.amounts import longer
from support.in_parts import InProcess, OnThreads, made
from support.large_programs import edit, large


def working_set(requests, columns, rows, seed):
    """Requests with two entries a column, totals and bounds on some columns."""
    rng = np.random.default_rng(seed)
    program, n = ContinualProgram(), requests * columns
    for row in range(rows):
        program.add_resource(row, 0.3 * requests / rows, lower=0.1 if row % 3 == 0 else 0.0)
    at = np.argsort(rng.random((n, rows)), axis=1)[:, :2].astype(np.int32)
    usage = csc_array(
        (rng.uniform(0.5, 1, 2 * n), np.sort(at).ravel(), np.arange(0, 2 * n + 1, 2)), (rows, n)
    )
    costs, totals = -rng.uniform(0.5, 1, n), rng.uniform(0.5, 1.5, requests)
    program.add_requests(range(requests), costs, [columns] * requests, usage, totals=totals)
    slots = program.request_slots
    working = gather(program.store, np.repeat(slots, columns), np.tile(np.arange(columns), requests))
    upper = np.where(rng.random(n) < 0.5, 0.4 * working.total[working.block], np.inf)
    return replace(working, upper=upper)


class Forgetful:
    """Pieces that are sent as bytes; at some calls one of them begins anew, as if its process were lost."""

    def __init__(self, pieces, lost=()):
        self.sent, self.lost, self.calls = [pickle.dumps(piece) for piece in pieces], set(lost), 0
        self.there = [pickle.loads(each) for each in self.sent]

    def each(self, task, *common, own=None):
        self.calls += 1
        if self.calls in self.lost:
            k = self.calls % len(self.there)
            self.there[k] = pickle.loads(self.sent[k])
        # what is sent is a copy
        common, own = pickle.loads(pickle.dumps((common, own)))
        return OnThreads(self.there).each(task, *common, own=own)


def answers(working, tuning, sums, enough=0.0):
    """Three steps, as bytes: the third begins where the second did, the second where the first ended."""
    newton = SemismoothNewton(working, bool, None, tuning, sums)
    y, centre, found = np.zeros(working.lower_row.size), np.zeros(working.column.size), []
    for sigma, go_on in ((1.0, True), (4.0, False), (2.0, True)):
        result = newton.solve(y, centre, sigma, 1e-9, 40, enough)
        figures = result.left, result.residual, result.paid, result.off
        found.append((result.x.tobytes(), result.y.tobytes(), result.converged, result.iterations, figures))
        y, centre = result.y, result.x if go_on else centre
    return found


DENSE = NewtonTuning(hessian_blocks=2_000)
GRADIENTS = NewtonTuning(systems=NewtonSystems(dense_rows=5), hessian_blocks=10)
CASES = {
    "few rows": ((9_000, 8, 7), DENSE),
    "many rows": ((20_000, 4, 60), GRADIENTS),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    (requests, columns, rows), tuning = CASES[request.param]
    working = working_set(requests, columns, rows, 3)
    assert Sums(working).bounds.size > 3
    return working, tuning


@pytest.fixture(params=[50_000, 100])
def few_blocks(request, monkeypatch):
    """Samples that are summed here, and samples that are summed where the pieces are."""
    monkeypatch.setattr(sums_module, "_FEW_BLOCKS", request.param)


@pytest.mark.usefixtures("few_blocks")
@pytest.mark.parametrize("enough", [0.0, longer(1e-3)])
def test_offloaded_pieces_lead_to_the_same_answer_whatever_is_lost(case, enough):
    working, tuning = case
    wanted = answers(working, tuning, Sums(working, 1), enough)
    assert answers(working, tuning, Sums(working, 2), enough) == wanted
    bounds = Sums(working).bounds
    lent = Forgetful(pieces_of(working, bounds))
    assert answers(working, tuning, OffloadedSums(working, lent), enough) == wanted
    rng = np.random.default_rng(0)
    lost = rng.choice(np.arange(1, lent.calls + 1), 12, replace=False).tolist()
    again = Forgetful(pieces_of(working, bounds), lost)
    assert answers(working, tuning, OffloadedSums(working, again), enough) == wanted
    assert again.calls > lent.calls


def test_what_crosses_does_not_grow_with_the_columns_but_at_the_ends_of_a_step(case):
    working, tuning = case
    sizes = []

    class Counting(Forgetful):
        def each(self, task, *common, own=None):
            results = super().each(task, *common, own=own)
            sizes.append((task.__name__, len(pickle.dumps((common, own))), len(pickle.dumps(results))))
            return results

    bounds = Sums(working).bounds
    answers(working, tuning, OffloadedSums(working, Counting(pieces_of(working, bounds))))
    columns, rows, chunks = 8 * working.column.size, 8 * working.lower_row.size, bounds.size - 1
    out = [size for name, size, _ in sizes if name == "_project"]
    # the first centre, and that of the third step, which is none of the last answer
    assert sum(size > columns for size in out) <= 2
    small = 3_000 + 2 * rows
    assert sum(size > small for size in out) <= 2
    back = [size for name, _, size in sizes if name == "_project"]
    assert max(back) < chunks * (1_000 + 2 * rows)


def test_sums_of_the_pieces_are_those_of_all_blocks(case):
    working, _ = case
    rng = np.random.default_rng(1)
    y, centre = rng.normal(size=working.lower_row.size) * 0.1, rng.random(working.column.size)
    here = Sums(working)
    there = OffloadedSums(working, OnThreads(pieces_of(working, here.bounds)))
    matrix = csc_array((working.value, working.row, working.pointer), (y.size, working.column.size))
    found = []
    for sums in (here, there):
        sums.begin(centre, 0.7)
        at = sums.project(y)
        x = sums.x(at)
        np.testing.assert_allclose(at.activity, matrix @ x, rtol=1e-12)
        np.testing.assert_allclose(at.square, x @ x, rtol=1e-12)
        np.testing.assert_allclose(sums.moved(at), (x - centre) @ (x - centre), rtol=1e-12)
        free, tight = sums.flags(at, np.arange(working.slot.size))
        assert not free[x == 0].any()
        assert tight.any()
        every = np.arange(working.slot.size), np.ones(working.slot.size)
        curvature = Curvature(sums, at, every, True)
        h = curvature.matrix(np.arange(y.size), y.size)
        np.testing.assert_allclose(curvature.diagonal(), sums.diagonal(at, every), rtol=1e-12)
        d = rng.normal(size=y.size)
        scale = abs(h).max()
        np.testing.assert_allclose(sums.times(at, every, d), h @ d, rtol=1e-9, atol=1e-9 * scale)
        np.testing.assert_allclose(curvature.times(d), h @ d, rtol=1e-9, atol=1e-9 * scale)
        found.append([each.tobytes() for each in (x, free, tight, h)])
    assert found[0] == found[1]


def test_the_pieces_are_the_chunks_of_the_set(case):
    working, _ = case
    bounds = Sums(working).bounds
    weights = np.diff(working.pointer[working.first]) + np.diff(working.first)
    np.testing.assert_array_equal(bounds, chunk_bounds(weights))
    pieces = pieces_of(working, bounds)
    for name in ("slot", "relation", "total", "cost", "upper", "row", "value"):
        whole = np.concatenate([getattr(piece.working, name) for piece in pieces])
        np.testing.assert_array_equal(whole, getattr(working, name))


# ---- in a solve, and on actors -----------------------------------------------------------------------

ALL_OFFLOADED = ProximalTuning(newton=NewtonTuning(compiled_rows=0, offload_columns=0))


def rounds():
    """Answers of a cold and two warm rounds, as bytes."""
    program, solver, found = large(), ProximalPoint(tuning=ALL_OFFLOADED, tolerance=1e-6), []
    for step in range(3):
        solution = solver.solve(program)
        assert solution.status == "optimal"
        arrays = *solution.nonzeros, solution.y
        found.append((solution.objective, solution.iterations, *(each.tobytes() for each in arrays)))
        edit(program, step)
    return found


def test_a_spread_program_that_offloads_its_working_sets_comes_to_the_same(monkeypatch):
    wanted, lent = rounds(), []

    def counted(workers, pieces):
        lent.append(len(pieces))
        return Forgetful(pieces, lost=(5, 9))

    monkeypatch.setattr(InProcess, "offload", counted)
    assert made(3, rounds) == wanted
    assert lent and min(lent) > 1


@pytest.mark.cluster
@pytest.mark.parametrize("case", ["many rows"], indirect=True)
def test_actors_lead_to_the_same_answer_and_one_may_die(local_ray, case):
    from copter.ray.on_actors import OffloadedToActors, OnActors

    working, tuning = case
    bounds = Sums(working).bounds
    workers = OnActors(2, 2, {"num_cpus": 1}, 1)

    class Mortal(OffloadedToActors):
        calls = 0

        def each(self, task, *common, own=None):
            self.calls += 1
            if self.calls == 6:
                local_ray.kill(workers.actors[1].handle)
            return super().each(task, *common, own=own)

    try:
        lent = Mortal(workers, 0, pieces_of(working, bounds))
        assert answers(working, tuning, OffloadedSums(working, lent)) == answers(
            working, tuning, Sums(working)
        )
        assert [actor.revived for actor in workers.actors] == [0, 1]
    finally:
        workers.close()


@pytest.mark.cluster
def test_pieces_are_offloaded_only_where_there_are_more_processors(monkeypatch, local_ray):
    from copter.ray import on_actors as module

    workers = module.OnActors(2, 2, {"num_cpus": 1}, 1)
    try:
        for here, wanted in ((2, None), (1, module.OffloadedToActors)):
            monkeypatch.setattr(module, "available_threads", lambda here=here: here)
            assert type(workers.offload([1, 2, 3])) is (wanted or type(None))
    finally:
        workers.close()
