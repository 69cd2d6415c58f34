"""Programs whose numbers HiGHS drops or refuses: in other units it answers as for the same program near 1."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csc_array, diags_array

from copter import ContinualProgram, Status, linprog, make_solver, milp, solve_lp
from copter.errors import SolverError
from copter.models.general_lp import GeneralLP
from copter.models.highs import load, run, status_of
from copter.models.highs_units import units_for
from support.lp_cases import random_general

INF = np.inf


@pytest.mark.parametrize(
    ("c", "A", "b", "x", "fun"),
    [
        ([1], [[-1e-10]], [-1], 1e10, 1e10),
        ([-1], [[1e-10]], [1], 1e10, -1e10),
        ([-1], [[1e16]], [1], 1e-16, -1e-16),
        ([-1e21], [[1]], [1], 1.0, -1e21),
        ([-1e-12], [[1]], [3], 3.0, -3e-12),
    ],
)
def test_one_number_outside(c, A, b, x, fun):
    found = linprog(c, A, b)
    assert found.status == 0, found.message
    assert found.x[0] == pytest.approx(x, rel=1e-9) and found.fun == pytest.approx(fun, rel=1e-9)


def by_highs(lp, **options):
    highs = load(lp, 1, **options)
    run(highs)
    return highs


def in_units(lp: GeneralLP, row, column, cost) -> GeneralLP:
    """The same program with rows, columns and costs in other units, all powers of two."""
    return replace(
        lp,
        A=csc_array(diags_array(row) @ lp.A @ diags_array(column)),
        c=cost * lp.c * column,
        offset=cost * lp.offset,
        row_lower=lp.row_lower * row,
        row_upper=lp.row_upper * row,
        lower=lp.lower / column,
        upper=lp.upper / column,
    )


#: Seeds of programs that are unbounded; all other programs have an optimum.
UNBOUNDED = {19, 23, 25, 28}


@pytest.mark.parametrize("seed", range(30))
def test_units_do_not_matter(seed):
    lp, draw = random_general(seed), np.random.default_rng(seed)
    m, n = lp.A.shape
    if seed % 3:  # more of them have an optimum
        lp = replace(lp, c=np.where(np.isfinite(lp.lower) | np.isfinite(lp.upper), lp.c, 0.0))
    row, column = (np.exp2(draw.integers(-40, 41, size)) for size in (m, n))
    cost = 2.0 ** draw.integers(-40, 41)
    other = in_units(lp, row, column, cost)
    truth, found = by_highs(lp, presolve="off"), by_highs(other, presolve="off")
    assert status_of(found)[0] is status_of(truth)[0]
    if seed in UNBOUNDED:
        assert status_of(truth)[0] is Status.UNBOUNDED
        return
    assert status_of(truth)[0] is Status.OPTIMAL
    objective = truth.getInfo().objective_function_value
    assert found.getInfo().objective_function_value == pytest.approx(
        cost * objective, rel=1e-6, abs=cost * 1e-6
    )
    solution = found.getSolution()
    x, y = np.array(solution.col_value) * column, np.array(solution.row_dual) * row / cost
    assert lp.c @ x + lp.offset == pytest.approx(objective, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(np.array(solution.row_value) / row, lp.A @ x, rtol=1e-6, atol=1e-6)
    reduced = np.array(solution.col_dual) / (column * cost)
    np.testing.assert_allclose(reduced, lp.c - lp.A.T @ y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_all_parts_together_in_other_units(seed):
    lp, draw = random_general(seed), np.random.default_rng(seed + 100)
    m, n = lp.A.shape
    row, column = (np.exp2(draw.integers(-40, 41, size)) for size in (m, n))
    truth, found = solve_lp(lp), solve_lp(in_units(lp, row, column, 1.0))
    assert found.status is truth.status is Status.OPTIMAL
    assert found.proof.objective == pytest.approx(truth.proof.objective, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_rays_in_other_units(seed):
    draw = np.random.default_rng(seed)
    A = draw.integers(1, 5, (3, 4)).astype(float)
    row, column = np.exp2(draw.integers(-40, 41, 3)), np.exp2(draw.integers(-40, 41, 4))
    box = np.zeros(4), np.full(4, INF)
    low, high = np.array([5.0, -INF, -INF]), np.array([INF, 1.0, 1.0])
    both = csc_array(np.vstack((A[0], A[0], A[2])))
    empty = GeneralLP(np.ones(4), both, low, high, *box, 0.0, np.zeros(4, bool))
    highs = by_highs(in_units(empty, row, column, 1.0), presolve="off", solver="simplex")
    _, known, y = highs.getDualRay()
    y = np.array(y) * row
    assert known and abs(y[0]) == pytest.approx(abs(y[1])) and abs(y[2]) <= 1e-9 * abs(y[0])
    free = replace(empty, c=-np.ones(4), row_lower=np.ones(3), row_upper=np.full(3, INF))
    highs = by_highs(in_units(free, row, column, 1.0), presolve="off", solver="simplex")
    _, known, direction = highs.getPrimalRay()
    assert known and min(direction) >= 0 and max(direction) > 0


def test_whole_numbers_keep_their_unit():
    found = milp([-3, -1e-3], integrality=[1, 0], bounds=([0, 0], [INF, INF]),
                 constraints=([[1e-10, 0], [1e-10, 1e-12]], -INF, [2.5e-10, 4e-10]))  # fmt: skip
    assert found.x == pytest.approx([2, 200.0])


def test_noise_may_be_dropped_and_what_fits_nowhere_is_named():
    box, one = (np.zeros(2), np.ones(2)), np.ones(1)
    lp = GeneralLP(np.ones(2), csc_array([[1.0, 1e-17]]), one, INF * one, *box, 0.0, np.zeros(2, bool))
    assert units_for(lp, None) is None
    A = np.ones((4, 4))
    A[1, 2] = 1e40
    names = {"column_names": tuple("abcd"), "row_names": tuple("wxyz")}
    side = {
        "row_lower": np.ones(4),
        "row_upper": np.full(4, INF),
        "lower": np.zeros(4),
        "upper": np.full(4, INF),
    }
    wide = replace(lp, c=np.ones(4), A=csc_array(A), integral=np.zeros(4, bool), **side, **names)
    with pytest.raises(SolverError, match=r"row x, column c: 1e\+40"):
        solve_lp(wide)
    with pytest.raises(SolverError, match=r"row 1, column 2: 1e\+40"):
        solve_lp(replace(wide, column_names=(), row_names=()))


@pytest.mark.parametrize("seed", range(12))
def test_noise_in_columns_that_rows_bound_does_not_matter(seed):
    draw = np.random.default_rng(seed)
    clean, c = draw.random((50, 80)), -draw.random(80)
    noise = draw.random(clean.shape) < 0.3
    clean[noise] = 0.0
    truth = linprog(c, clean, np.ones(50))
    for signs in (1.0, draw.choice([-1.0, 1.0], clean.shape)):
        found = linprog(c, np.where(noise, 5e-17 * signs, clean), np.ones(50))
        assert found.status == 0 and found.fun == pytest.approx(truth.fun, rel=1e-9)


@pytest.mark.parametrize("name", ["highs-simplex", "highs-hot", "highs-ipm"])
def test_baselines_through_edits(name):
    program = ContinualProgram()
    program.add_resource("r", upper=4.0)
    program.add_request("q", [-1.0, -2.0], {"r": [1.0, 1.0]}, upper=3.0)
    solver = make_solver(name)
    assert solver.solve(program).objective == pytest.approx(-7.0)
    program.add_request("tiny", [-3.0], {"r": [1e-10]}, upper=1e10)
    assert solver.solve(program).objective == pytest.approx(-3e10, rel=1e-6)
    program.update_request("tiny", costs=[-1e-11])
    assert solver.solve(program).objective == pytest.approx(-7.0, rel=1e-6)
    program.remove_request("tiny")
    assert solver.solve(program).objective == pytest.approx(-7.0)
    program.update_request("q", costs=[-1.0, -1e21])
    assert solver.solve(program).objective == pytest.approx(-3e21, rel=1e-6)
