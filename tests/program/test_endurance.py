"""Thousands of rounds without drift or growth; deadlines, limits and warm starts from round to round."""

from __future__ import annotations

import gc
import logging
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import ContinualProgram, ProximalPoint, Solution, Status
from copter.store.allocation import NOTHING, SparseX
from copter.store.compiled import compile_program
from support.large_programs import edit, large
from support.numpy_twins import certificate, verify
from support.strategies import PlainProgram, PlainRequest, random_plain
from support.ticking import tick

CHECK_EVERY = 250
INF = np.inf


class Cluster:
    """Random edits of a program and of its plain model; feasible and bounded at all times."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.program, self.plain = ContinualProgram(), PlainProgram()
        self.templates: list = []
        self.serial = 0
        for _ in range(6):
            self.new_resource()
        for _ in range(3):
            self.new_template()
        for _ in range(40):
            self.add()

    def name(self) -> int:
        self.serial += 1
        return self.serial

    def some(self, ids, least: int = 1) -> list:
        ids = list(ids)
        count = min(len(ids), int(self.rng.integers(least, least + 3)))
        return [ids[i] for i in self.rng.choice(len(ids), count, replace=False)]

    def usage(self, n: int) -> dict:
        some = self.some(self.plain.resources)
        return {
            i: {int(j): float(self.rng.integers(1, 5)) for j in range(n) if self.rng.random() < 0.6}
            for i in some
        }

    def costs(self, n: int) -> list:
        return (self.rng.integers(-20, 5, n) / 4).tolist()

    def request(self, n: int, usage: dict) -> PlainRequest:
        rng = self.rng
        upper = (
            float(rng.integers(1, 4)) if rng.random() < 0.5 else rng.integers(0, 4, n).astype(float).tolist()
        )
        total = float(rng.integers(0, 4)) if rng.random() < 0.8 else None
        override = {int(rng.integers(n)): -3.25} if rng.random() < 0.3 else {}
        return PlainRequest(self.costs(n), usage, total, "<=", upper, float(rng.random() + 0.5), override)

    # ---- edits ---------------------------------------------------------------------------------

    def new_resource(self) -> None:
        id, upper = ("row", self.name()), float(self.rng.integers(5, 40))
        self.program.add_resource(id, upper)
        self.plain.resources[id] = (-INF, upper)

    def new_template(self) -> None:
        n = int(self.rng.integers(5, 25))
        usage = self.usage(n)
        given = {i: (list(e), list(e.values())) for i, e in usage.items()}
        self.templates.append((self.program.share_columns(given, n), n, usage))

    def columns(self) -> tuple:
        if self.rng.random() < 0.5:
            handle, n, usage = self.templates[int(self.rng.integers(len(self.templates)))]
            return n, handle, {i: dict(e) for i, e in usage.items()}
        n = int(self.rng.integers(1, 20))
        usage = self.usage(n)
        return n, {i: (list(e), list(e.values())) for i, e in usage.items()}, usage

    def add(self) -> None:
        id = self.name()
        n, given, usage = self.columns()
        r = self.request(n, usage)
        options = {"total": r.total, "upper": r.upper, "scale": r.scale, "override": r.override}
        self.program.add_request(id, r.costs, given, **options)
        self.plain.requests[id] = r

    def add_many(self) -> None:
        ids, sizes = [self.name(), self.name()], self.rng.integers(1, 15, 2).tolist()
        fresh = PlainProgram(dict(self.plain.resources))
        for id, n in zip(ids, sizes, strict=True):
            r = self.request(n, self.usage(n))
            fresh.requests[id] = PlainRequest(r.costs, r.usage, 2.0, upper=r.bounds(), scale=r.scale)
        model = fresh.model()
        costs = [c for r in fresh.requests.values() for c in r.costs]
        scales = [r.scale for r in fresh.requests.values()]
        matrix = csc_array(model.A)
        self.program.add_requests(
            ids, costs, sizes, matrix, totals=[2.0, 2.0], upper=model.upper, scales=scales
        )
        self.plain.requests.update(fresh.requests)

    def update(self) -> None:
        for id in self.some(self.plain.requests):
            r, n = self.plain.requests[id], len(self.plain.requests[id].costs)
            fresh = self.request(n, r.usage)
            self.program.update_request(
                id,
                costs=fresh.costs,
                scale=fresh.scale,
                override=fresh.override,
                upper=fresh.upper,
                total=fresh.total,
            )
            self.plain.requests[id] = fresh

    def update_columns(self) -> None:
        (id, *_) = self.some(self.plain.requests)
        n, given, usage = self.columns()
        r = self.plain.requests[id] = self.request(n, usage)
        r.override = {}
        self.program.update_request(
            id, costs=r.costs, usage=given, upper=r.upper, total=r.total, scale=r.scale, start={0: 0.5}
        )

    def scale(self) -> None:
        ids = self.some(self.plain.requests, 5)
        scales = self.rng.random(len(ids)) + 0.5
        columns = [int(self.rng.integers(len(self.plain.requests[id].costs))) for id in ids]
        self.program.update_requests(ids, scales=scales, overrides=([1] * len(ids), columns, scales))
        for id, factor, j in zip(ids, scales.tolist(), columns, strict=True):
            self.plain.requests[id].scale, self.plain.requests[id].override = factor, {j: factor}

    def resources(self) -> None:
        (id, *_) = self.some(self.plain.resources)
        lower, upper = self.plain.resources[id]
        self.program.update_resources(id, by=3)
        if upper >= 10 and self.rng.random() < 0.6:
            self.program.update_resources(id, by=-6)
            upper -= 6
        self.plain.resources[id] = (lower, upper + 3)

    def replace_resource(self) -> None:
        (id, *_) = self.some(self.plain.resources)
        self.program.remove_resources(id)
        self.plain.remove_resources(id)
        for _, _, usage in self.templates:
            usage.pop(id, None)
        self.new_resource()

    def replace_template(self) -> None:
        handle, _, _ = self.templates.pop(0)
        self.program.forget(handle)
        self.new_template()

    def remove(self) -> None:
        ids = self.some(self.plain.requests)
        self.program.remove_requests(ids)
        for id in ids:
            del self.plain.requests[id]

    def round(self) -> None:
        if len(self.program) < 50:
            self.add()
            if self.rng.random() < 0.3:
                self.add_many()
        else:
            self.remove()
        verbs = [self.update, self.update_columns, self.scale, self.resources]
        verbs[int(self.rng.integers(4))]()
        if self.rng.random() < 0.1:
            self.replace_resource()
        if self.rng.random() < 0.05:
            self.replace_template()

    def check(self) -> None:
        """The store holds exactly what the plain model does."""
        model, built = self.plain.model(), compile_program(self.program)
        rows = model.row_lower.size
        assert (self.program.n_variables, self.program.nnz) == (model.c.size, model.A.nnz)
        np.testing.assert_array_equal(
            np.concatenate([self.program.requests[id].costs for id in self.plain.requests]), model.c
        )
        np.testing.assert_array_equal(built.upper, model.upper)
        np.testing.assert_array_equal(built.row_upper[:rows], model.row_upper)
        assert (abs(built.A[:rows] - model.A)).max() == 0

    def held(self) -> dict:
        """Room that the store has taken, by part."""
        store = self.program.store
        pools = (store.costs, store.uppers, store.pointers, store.entries, store.overrides)
        sizes = {"/".join(p.names): getattr(p, p.names[0]).size for p in pools}
        tables = {"rows": store.rows, "usages": store.usages, "requests": store.requests}
        return sizes | {
            name: table.alive.size if name == "rows" else table.size for name, table in tables.items()
        }


@pytest.mark.parametrize("n_rounds", [1500, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_rounds(n_rounds):
    cluster, solver = Cluster(0), ProximalPoint()
    most: dict = {}
    statuses = []
    for k in range(1, n_rounds + 1):
        cluster.round()
        if k == n_rounds // 2:
            early = dict(most)
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
        if k == n_rounds // 2 + 2 * CHECK_EVERY:
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
        if k % CHECK_EVERY == 0:
            cluster.check()
            solution = solver.solve(cluster.program)
            statuses.append(verify(solution, cluster.program, cluster.plain.model(), 1e-6))
        most = {name: max(most.get(name, 0), room) for name, room in cluster.held().items()}
    assert statuses == ["optimal"] * (n_rounds // CHECK_EVERY)
    live = max(2000, cluster.program.n_variables)
    assert all(room <= 2 * early[name] for name, room in most.items()), (early, most)
    assert all(room <= 20 * live for room in most.values()), most
    assert grown < 1_000_000, grown  # bytes; the rounds in between made some hundred times as much
    assert not solver.solve(cluster.program).churn


# ---- deadlines and limits ------------------------------------------------------------------------------


def is_honest(solution: Solution, plain: PlainProgram) -> None:
    """What an answer says of itself, at any moment, is so."""
    model = plain.model()
    x = np.concatenate([solution.x[id] for id in plain.requests])
    found = certificate(model, x, np.array([solution.price[id] for id in plain.resources]))
    assert solution.objective == pytest.approx(found.objective)
    assert solution.bound == pytest.approx(found.bound)
    size = 1.0 + abs(found.objective)  # what rows are off by is a difference of sums of that size
    assert solution.absolute.primal == pytest.approx(found.primal, abs=1e-11 * size)
    assert solution.absolute.gap == pytest.approx(abs(found.objective - found.bound), abs=1e-11 * size)


@pytest.mark.parametrize("inner", ["newton", "cd", "auto"])
def test_a_deadline_of_zero_gives_an_answer_with_a_finite_gap(inner):
    cluster = Cluster(3)
    solution = ProximalPoint(inner=inner).solve(cluster.program, deadline=0.0)
    assert solution.status is Status.DEADLINE
    assert "deadline of 0 s" in solution.reason
    assert np.isfinite([solution.bound, solution.gap, solution.primal_residual]).all()
    is_honest(solution, cluster.plain)
    assert list(solution.x) == cluster.program.request_ids


@pytest.mark.parametrize(("inner", "status"), [("newton", Status.OPTIMAL), ("cd", Status.DEADLINE)])
def test_after_a_deadline_later_rounds_go_on_from_its_answer(inner, status, monkeypatch):
    program = large(small=2000)
    solver = ProximalPoint(inner=inner, tolerance=1e-9, deadline=1e9)
    solver.solve(program, deadline=0.0)  # loads the kernels
    solver.reset()
    tick(monkeypatch)
    worst = []
    for _ in range(3):
        solution = solver.solve(program, deadline=0.1)  # a hundred looks at the clock
        assert solution.found and solution.status is status, solution.reason
        worst.append(max(solution.gap, solution.primal_residual, solution.dual_residual))
    assert not np.isnan(worst).any()
    assert worst[2] <= worst[0]
    assert solution.warm_started


def test_the_best_iterate_is_never_worse_than_the_start():
    program = large()
    solver = ProximalPoint()
    start = solver.solve(program)
    edit(program, 0)
    solver.iteration_limit = 0
    kept = solver.solve(program)
    assert (kept.status, kept.iterations) == (Status.ITERATION_LIMIT, 0)
    assert start.nonzeros.value.sum() > kept.nonzeros.value.sum() > 0  # what was removed is gone

    def worth(solution):
        return max(min(r, 1.0) for r in (solution.gap, solution.primal_residual, solution.dual_residual))

    seen = [worth(kept)]
    for limit in (1, 3, 10, 1000):
        solver.iteration_limit = limit
        seen.append(worth(solver.solve(program)))
    assert seen[-1] <= solver.tolerance < seen[0]


@pytest.mark.parametrize("inner", ["newton", "cd"])
@pytest.mark.parametrize("limit", [1, 2, 5, 40])
def test_the_iteration_limit_is_a_limit(inner, limit):
    cluster = Cluster(3)
    solution = ProximalPoint(inner=inner, tolerance=1e-12, iteration_limit=limit).solve(cluster.program)
    assert solution.iterations <= limit
    assert solution.status is Status.ITERATION_LIMIT
    is_honest(solution, cluster.plain)


# ---- what a solver says --------------------------------------------------------------------------------


def test_a_warm_start_says_whether_it_was_used_and_why_not():
    one, other = (random_plain(np.random.default_rng(seed), "mixed").build() for seed in (3, 5))
    solver = ProximalPoint()

    def said():
        solution = solver.solve(one)
        return solution.warm_started, solution.warm_reason

    assert said() == (False, "no earlier round")
    assert said() == (True, "last round's x and prices")
    solver.solve(other)
    assert said() == (False, "the last round was another program")
    assert said()[0]
    solver.reset()
    assert said() == (False, "no earlier round")
    solver.warm_start = False
    assert said() == (False, "warm start switched off")
    solver.warm_start = True
    assert said()[0]


def test_a_warm_start_saves_work_and_a_cold_one_does_not():
    for warm_start in (True, False):
        program = large()
        solver = ProximalPoint(warm_start=warm_start)
        first = solver.solve(program)
        program.update_requests(range(0, 900, 9), scales=[1.01] * 100)
        second = solver.solve(program)
        assert second.status is Status.OPTIMAL
        assert (second.iterations < first.iterations / 2) == warm_start
        assert second.churn < 0.1  # counted against the last round, cold or not


def test_a_start_that_is_given_is_not_the_answer_that_churn_is_counted_against():
    program = large()
    solver = ProximalPoint()
    assert solver.start(program) is None
    first = solver.solve(program)
    x, y = solver.start(program)
    assert all(map(np.array_equal, x, first.nonzeros)) and y.tolist() == first.y.tolist()
    solver.start_from(program, x.where(np.zeros(x.slot.size, bool)), y)  # nothing, at the right prices
    assert not solver.start(program)[0].slot.size
    again = solver.solve(program)
    assert again.status is Status.OPTIMAL and again.churn < 0.5
    assert again.objective == pytest.approx(first.objective, rel=1e-5)
    other = large()
    solver.start_from(other, NOTHING, np.zeros(other.store.rows.size))
    assert solver.solve(other).churn == 1.0


@pytest.mark.parametrize("cost", [0.0, 1e-150, 1e-30, 1e-13])
@pytest.mark.parametrize("inner", ["newton", "cd", "auto"])
def test_prices_of_a_round_are_given_up_when_all_costs_are_gone(inner, cost):
    program = ContinualProgram()
    program.add_resource("r", upper=6.0)
    program.add_request("q", [cost], {"r": 2.0}, total=2.5, relation="==")
    solver = ProximalPoint(inner=inner, tolerance=1e-4)
    solver.start_from(program, SparseX(np.array([0]), np.array([0]), np.array([2.5])), np.array([1.25]))
    solution = solver.solve(program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == 2.5 * cost and abs(solution.bound) <= 1e-4


def test_the_callback_sees_every_pass():
    cluster, seen = Cluster(3), []
    solver = ProximalPoint(callback=lambda iteration, certificate: seen.append((iteration, certificate)))
    solution = solver.solve(cluster.program)
    iterations = [iteration for iteration, _ in seen]
    assert iterations == sorted(set(iterations)) and iterations[-1] == solution.iterations > 0
    assert seen[-1][1].bound == solution.bound and seen[-1][1].within(solver.tolerance)


def test_an_error_in_the_callback_leaves_solver_and_program_usable():
    cluster = Cluster(3)

    def stop(iteration, certificate):
        raise KeyboardInterrupt

    solver = ProximalPoint(callback=stop)
    with pytest.raises(KeyboardInterrupt):
        solver.solve(cluster.program)
    solver.callback = None
    verify(solver.solve(cluster.program), cluster.program, cluster.plain.model(), solver.tolerance)


def test_progress_goes_to_logging(caplog):
    cluster = Cluster(3)
    with caplog.at_level(logging.DEBUG, "copter"):
        ProximalPoint().solve(cluster.program)
    assert any("gap" in record.getMessage() for record in caplog.records if record.name.startswith("copter"))
    caplog.clear()
    with caplog.at_level(logging.WARNING, "copter"):
        assert ProximalPoint().solve(cluster.program).timings.solve > 0
    assert not caplog.records
