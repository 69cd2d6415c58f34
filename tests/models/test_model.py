"""Model: edits follow changed numbers, and folded rows have their prices."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import ProximalPoint, from_arrays, make_solver
from copter.errors import CopterError, EditError
from copter.models import formulation
from copter.models.formulation import ProgramChanges
from copter.models.general_lp import GeneralLP
from copter.models.model import Model
from copter.models.reductions import ReducedPoint, fold_rows
from copter.proof.general_lp import prove
from copter.solvers.general import linprog
from copter.solvers.general.hybrid import solve_lp
from copter.solvers.general.warm import WarmLP

GROUPS, WIDE, ROWS = 6, 4, 3


def allocation(seed=0):
    """Blocks with sums of at most 1, shared rows, and the columns' signs as rows of their own."""
    rng = np.random.default_rng(seed)
    n = GROUPS * WIDE
    A = np.vstack([np.kron(np.eye(GROUPS), np.ones(WIDE)), rng.random((ROWS, n)) + 0.1, -np.eye(n)])
    high = np.concatenate([np.ones(GROUPS), np.full(ROWS, 1.5), np.zeros(n)])
    low, free = np.full(high.size, -np.inf), np.full(n, np.inf)
    return GeneralLP(-rng.random(n), csc_array(A), low, high, -free, free, 0.0, np.zeros(n, np.bool_))


def changed(lp, what):
    """The LP with other numbers, and the count of changes that says so."""
    c, A, high = lp.c.copy(), lp.A.toarray(), lp.row_upper.copy()
    if what == "costs":
        c[3] -= 1
    if what == "totals":
        high[1] = 2
    if what == "resources":
        high[GROUPS] = 1.2
    if what == "columns":
        A[GROUPS + 1, 5] = 0
        A[GROUPS, 6] += 1
    if what == "bounds":
        A, high = np.vstack([A, np.eye(A.shape[1])[7]]), np.append(high, 0.25)
    low = np.full(high.size, -np.inf)
    return replace(lp, c=c, A=csc_array(A), row_lower=low, row_upper=high)


def check(live, lp, solution):
    """The live program's answer is optimal for the LP, by its own prices, and as HiGHS has it."""
    found = live.solution(solution)
    x, y = found.x, found.y
    proof = prove(lp, x, y)
    assert proof.worst <= 1e-5
    least = solve_lp(lp).proof.objective
    assert proof.objective == pytest.approx(least, rel=1e-5)
    assert found.bound <= least + 1e-7


@pytest.mark.parametrize("what", ["costs", "totals", "resources", "columns"])
def test_an_edited_program_is_solved_warm_and_right(what):
    lp, solver = allocation(), ProximalPoint()
    live = Model(lp, fold=True, share=0.5)
    assert live.n_sums == GROUPS
    check(live, lp, solver.solve(live.program))
    program, lp = live.program, changed(lp, what)
    changes = live.update(lp)
    assert live.program is program and not changes.rebuilt and getattr(changes, what) > 0
    solution = solver.solve(program)
    assert solution.warm_started
    check(live, lp, solution)


def test_a_bound_that_is_a_row_changes_without_a_new_program():
    lp = changed(allocation(), "bounds")
    live = Model(lp, fold=True, share=0.5)
    high = lp.row_upper.copy()
    high[-1] = 0.125
    lp = replace(lp, row_upper=high)
    assert live.update(lp) == ProgramChanges(bounds=1)
    check(live, lp, ProximalPoint().solve(live.program))


def test_nothing_changed_is_nothing_edited():
    lp = allocation()
    live = Model(lp, fold=True, share=0.5)
    clock = live.program.store.clock
    assert not live.update(allocation())
    assert live.program.store.clock == clock


@pytest.mark.parametrize("what", ["another row", "another coefficient in a block", "a block that is none"])
def test_another_shape_is_another_program(what):
    lp = allocation()
    live = Model(lp, fold=True, share=0.5)
    before = live.program
    if what == "another row":
        lp = changed(lp, "bounds")
        lp = replace(lp, A=csc_array(np.vstack([lp.A.toarray(), np.ones(GROUPS * WIDE)])))
        lp = replace(lp, row_lower=np.append(lp.row_lower, 1.0), row_upper=np.append(lp.row_upper, 9.0))
    elif what == "another coefficient in a block":
        A = lp.A.toarray()
        A[0, 0] = 2
        lp = replace(lp, A=csc_array(A))
    else:
        low = lp.row_lower.copy()
        low[0] = 0.5
        lp = replace(lp, row_lower=low)
    assert live.update(lp) == ProgramChanges(rebuilt=True)
    assert live.program is not before
    check(live, lp, ProximalPoint().solve(live.program))


def test_bounds_that_contradict_each_other_change_nothing():
    lp = allocation()
    live = Model(lp, fold=True, share=0.5)
    high = lp.row_upper.copy()
    high[-1] = -2.0  # x >= 2
    worse = replace(lp, row_upper=high, upper=np.ones(lp.c.size))
    clock = live.program.store.clock
    with pytest.raises(EditError, match="column 23"):
        live.update(worse)
    assert live.program.store.clock == clock
    check(live, lp, ProximalPoint().solve(live.program))


@pytest.mark.parametrize("maximize", [False, True])
def test_values_and_duals_are_by_the_names_of_the_source(maximize):
    """2 x + y <= 4 is tight, and worth 1 a unit; y is wanted, x is not."""
    sign = -1.0 if maximize else 1.0
    lp = GeneralLP(
        np.array([1.0, -1.0]),
        csc_array([[2.0, 1.0]]),
        np.array([-np.inf]),
        np.array([4.0]),
        np.zeros(2),
        np.full(2, np.inf),
        3.0,
        np.zeros(2, np.bool_),
        maximize,
        ("x", "y"),
        ("room",),
    )
    model = Model(lp)
    found = model.solution(make_solver("highs-simplex").solve(model.program))
    assert found.values == pytest.approx({"x": 0.0, "y": 4.0}) and found.duals == {"room": -sign}
    assert found.objective == pytest.approx(-sign) and found.y.tolist() == [1.0]


def test_an_answer_from_before_an_edit_is_refused():
    model = Model(allocation())
    solution = ProximalPoint().solve(model.program)
    model.update(changed(allocation(), "costs"))
    with pytest.raises(CopterError, match="solve it again"):
        model.solution(solution)


def test_without_sum_rows_no_program_is_made(monkeypatch):
    """A plan that is large enough for the own solver, by cvxpy's way: HiGHS gets it at once."""
    made = []
    monkeypatch.setattr(formulation, "ContinualProgram", lambda: made.append(1))
    rng = np.random.default_rng(0)
    m, n = 300, 400
    rows = csc_array(rng.random((m, n)))
    lp = GeneralLP(-rng.random(n), rows, np.full(m, -np.inf), np.ones(m), np.zeros(n), np.ones(n), 0.0,
                   np.zeros(n, np.bool_))  # fmt: skip
    answer, _ = WarmLP().solve(lp)
    assert answer.finished_by == "highs" and not made


@pytest.mark.parametrize("seed", range(8))
def test_prices_of_folded_rows_prove_the_optimum(seed):
    rng = np.random.default_rng(seed)
    n = 6
    A = np.vstack([rng.normal(size=(3, n)), np.diag(rng.choice([-2.0, 0.5, 3.0], n)), np.eye(n)])
    inside = rng.normal(size=n)
    low, high = A @ inside - rng.random(3 + 2 * n), A @ inside + rng.random(3 + 2 * n)
    low[:3] = -np.inf
    lp = GeneralLP(
        rng.normal(size=n), csc_array(A), low, high, inside - 0.5, inside + 0.9, 0.0, np.zeros(n, np.bool_)
    )
    rest, fold = fold_rows(lp)
    assert rest.A.shape == (3, n)
    answer = solve_lp(rest)
    found = linprog(
        lp.c,
        np.vstack([A, -A])[np.isfinite(np.append(high, -low))],
        np.append(high, -low)[np.isfinite(np.append(high, -low))],
        bounds=np.stack([lp.lower, lp.upper], axis=1),
    )
    assert answer.proof.objective == pytest.approx(found.fun)
    assert prove(lp, answer.x, fold.invert(ReducedPoint(answer.x, answer.y)).y).worst <= 1e-6


def test_a_model_prints_its_size():
    model = from_arrays([-1.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[4.0])
    assert repr(model) == "<Model: 1 rows, 2 columns>"
