"""WarmLP: one LP after the other from the last answer, which is that of a cold start."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csc_array, random_array

from copter import Status
from copter.models.general_lp import GeneralLP
from copter.solvers.general import hybrid, warm
from copter.solvers.general.hybrid import solve_lp
from copter.solvers.general.warm import WarmLP

FREE = np.inf


def dense_lp(seed, m=30, n=40):
    """A feasible, bounded LP without blocks."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, n))
    high = A @ rng.random(n) + rng.random(m)
    bounds = np.zeros(n), np.full(n, 3.0)
    return GeneralLP(
        rng.normal(size=n), csc_array(A), np.full(m, -FREE), high, *bounds, 0.0, np.zeros(n, np.bool_)
    )


def allocation(groups=600, wide=10, rows=30):
    """Blocks with sums of at most 1 and shared rows: large enough for the own solver."""
    rng = np.random.default_rng(0)
    n = groups * wide
    sums = np.kron(np.eye(groups), np.ones(wide))
    shared = random_array((rows, n), density=0.1, rng=rng).toarray()
    high = np.append(np.ones(groups), shared.sum(axis=1) / wide / 2)
    return GeneralLP(
        -rng.random(n),
        csc_array(np.vstack([sums, shared])),
        np.full(high.size, -FREE),
        high,
        np.zeros(n),
        np.full(n, FREE),
        0.0,
        np.zeros(n, np.bool_),
    )


@pytest.mark.parametrize("field", ["c", "row_upper", "upper", "A"])
def test_changed_numbers_take_fewer_iterations_than_a_cold_start(field):
    solver, warm, cold = WarmLP(), 0, 0
    for seed in range(5):
        lp = dense_lp(seed)
        solver.reset()
        solver.solve(lp)
        value = getattr(lp, field)
        lp = replace(lp, **{field: value * 1.02})
        if field == "c":
            lp.c[::5] += 0.1
        answer, why = solver.solve(lp)
        assert answer.status is Status.OPTIMAL
        assert answer.warm_started and why == "the last point and its basis"
        fresh = solve_lp(lp, presolve=False)
        assert answer.proof.objective == pytest.approx(fresh.proof.objective, rel=1e-6)
        warm, cold = warm + answer.iterations, cold + fresh.iterations
    assert warm < cold / 2


def test_the_own_solver_goes_on_with_an_allocation():
    solver, lp = WarmLP(patience=1e4), allocation()
    first, why = solver.solve(lp)
    assert first.finished_by == "copter" and not first.warm_started and why == "no answer yet"
    high = lp.row_upper.copy()
    high[:5] = 2.0
    high[-3:] *= 0.95
    lp = replace(lp, row_upper=high)
    again, why = solver.solve(lp)
    assert again.finished_by == "copter" and again.warm_started and why == "the last point and prices"
    assert again.proof.worst <= 1e-6
    assert again.iterations < first.iterations
    assert again.proof.objective == pytest.approx(solve_lp(lp).proof.objective, rel=1e-5)


def test_time_that_went_into_compiling_is_given_again(monkeypatch):
    """The program is made once, and a failure that is not the solver's is none."""
    solver, lp = WarmLP(patience=1e4), allocation()
    seconds, made, real = [0.0], [], solver._own.solve

    def late(program, *, deadline):
        made.append(program)
        if len(made) == 1:
            seconds[0] = 3.0
            return real(program, deadline=0.0)
        return real(program, deadline=deadline)

    monkeypatch.setattr(solver._own, "solve", late)
    monkeypatch.setattr(warm, "compile_seconds", lambda: seconds[0])
    answer, why = solver.solve(lp)
    assert answer.finished_by == "copter" and not answer.warm_started and why == "no answer yet"
    assert len(made) == 2 and made[0] is made[1]


def test_who_failed_is_not_asked_again(monkeypatch):
    asked = []
    monkeypatch.setattr(hybrid, "Model", lambda *_, **__: asked.append(1))
    answer, _ = WarmLP(patience=0.0).solve(allocation())
    assert answer.status is Status.OPTIMAL and answer.finished_by == "highs" and not asked


def test_a_claim_after_an_optimum_is_proved_and_the_way_back_is_warm():
    solver, lp = WarmLP(), dense_lp(1)
    solver.solve(lp)
    none = replace(lp, row_lower=lp.row_upper + 100, row_upper=np.full(lp.row_upper.size, FREE))
    answer, _ = solver.solve(none)
    assert answer.status is Status.INFEASIBLE and answer.ray is not None
    answer, _ = solver.solve(lp)
    assert answer.status is Status.OPTIMAL and answer.warm_started


def test_bounds_that_contradict_each_other_in_rows_are_infeasible():
    lp = allocation()
    solver = WarmLP()
    solver.solve(lp)
    row = np.zeros((2, lp.c.size))
    row[0, 0], row[1, 0] = 1.0, 1.0
    lp = replace(
        lp,
        A=csc_array(np.vstack([lp.A.toarray(), row])),
        row_lower=np.append(lp.row_lower, [0.75, -FREE]),
        row_upper=np.append(lp.row_upper, [FREE, 0.5]),
    )
    answer, why = solver.solve(lp)
    assert answer.status is Status.INFEASIBLE and why == "another shape than last time"


def test_a_vertex_is_asked_of_highs():
    solver, lp = WarmLP(), allocation()
    answer, _ = solver.solve(lp, polish=True)
    assert answer.basis is not None


def test_without_warm_start_everything_is_new():
    solver, lp = WarmLP(), dense_lp(2)
    solver.solve(lp)
    answer, why = solver.solve(lp, warm=False)
    assert not answer.warm_started and why == "warm start switched off"
