"""Thousands of rounds without drift or growth; deadlines, limits and warm starts from round to round."""

from __future__ import annotations

import gc
import logging
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, Solution, Status
from copter.store.allocation import NOTHING, SparseX
from rounds.edits import Editor
from rounds.judges import judge
from rounds.kinds import FAMILIES, Draw
from rounds.reading import claim, compare, compare_arrays, values
from support.large_programs import edit, large
from support.numpy_twins import certificate
from support.strategies import PlainProgram, random_plain
from support.ticking import tick

CHECK_EVERY = 250


class Cluster:
    """Random edits of a program and of its mirror, which keep its size."""

    def __init__(self, seed: int) -> None:
        self.program, self.plain = ContinualProgram(), PlainProgram()
        draw = Draw(np.random.default_rng(seed), FAMILIES["total"])
        self.editor = Editor(draw, self.program, self.plain, Counter())
        self.editor.begin()

    def round(self) -> None:
        """An edit of any kind; what there is too much of leaves."""
        editor, plain = self.editor, self.plain
        editor.any()
        for kept, most, leave in (
            (plain.requests, 50, editor.remove_requests),
            (plain.resources, 9, editor.remove_resources),
            (plain.columns, 5, editor.forget),
        ):
            while len(kept) > most:
                leave()

    def make_feasible(self) -> None:
        """Without lower bounds of rows, an allocation of nothing is one."""
        rows = self.plain.resources
        self.program.update_resources(list(rows), lower=[-np.inf] * len(rows))
        rows |= {id: (-np.inf, upper) for id, (_, upper) in rows.items()}

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
            cluster.make_feasible()
            compare(cluster.program, cluster.plain)
            compare_arrays(cluster.program, cluster.plain)
            solution = claim(solver.solve(cluster.program))
            for request in cluster.plain.requests.values():
                request.start = None  # it was taken
            statuses.append(solution.status)
            judge(cluster.plain, solution, 1e-6, exactly=True, by_highs=True)
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
    x = np.concatenate([values(solution.x[id]) for id in plain.requests])
    found = certificate(model, x, np.array([solution.price[id] for id in plain.resources]))
    assert solution.objective == pytest.approx(found.objective)
    assert solution.bound == pytest.approx(found.bound)
    size = 1.0 + abs(found.objective)  # what rows are off by is a difference of sums of that size
    assert solution.absolute.primal == pytest.approx(found.primal, abs=1e-11 * size)
    assert solution.absolute.gap == pytest.approx(abs(found.objective - found.bound), abs=1e-11 * size)


@pytest.mark.parametrize(("inner", "status"), [("newton", Status.OPTIMAL), ("cd", Status.DEADLINE)])
def test_after_a_deadline_later_rounds_go_on_from_its_answer(inner, status, monkeypatch):
    program = large(small=2000)
    solver = ProximalPoint(inner=inner, tolerance=1e-9, time_limit=1e9)
    solver.solve(program, time_limit=0.0)  # loads the kernels
    solver.reset()
    tick(monkeypatch)
    worst = []
    for _ in range(3):
        solution = solver.solve(program, time_limit=0.1)  # a hundred looks at the clock
        assert solution.found and solution.status in (status, Status.DEADLINE), solution.reason
        worst.append(max(solution.gap, solution.primal_residual))
    assert solution.status is status, solution.reason
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
        return max(min(r, 1.0) for r in (solution.gap, solution.primal_residual))

    seen = [worth(kept)]
    for limit in (1, 3, 10, 1000):
        solver.iteration_limit = limit
        seen.append(worth(solver.solve(program)))
    assert seen[-1] <= solver.tolerance < seen[0]


@pytest.mark.parametrize(
    ("inner", "limit"), [("newton", 1), ("newton", 2), ("newton", 5), ("cd", 1), ("cd", 5), ("cd", 40)]
)
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


def test_progress_goes_to_logging(caplog):
    cluster = Cluster(3)
    with caplog.at_level(logging.DEBUG, "copter"):
        ProximalPoint().solve(cluster.program)
    assert any("gap" in record.getMessage() for record in caplog.records if record.name.startswith("copter"))
    caplog.clear()
    with caplog.at_level(logging.WARNING, "copter"):
        assert ProximalPoint().solve(cluster.program).timings.solve > 0
    assert not caplog.records
