"""Sum rows found in plain LPs: what counts as one, and that values and prices come back."""

import numpy as np
import pytest
import scipy.optimize
from scipy.sparse import csc_array, csr_array

from copter import make_solver
from copter.models.formulation import find_blocks
from copter.solvers.general import GeneralLP, Model, solve_lp

INF = np.inf


def allocation(seed: int, equal: bool) -> GeneralLP:
    """Requests of four columns with a sum row each, over three resources; columns in a random order."""
    rng = np.random.default_rng([seed, int(equal)])
    requests = int(rng.integers(4, 12))
    n = 4 * requests
    use = rng.integers(0, 5, (3, n)).astype(float)
    use[0, ::4] = 0.0
    sums = np.kron(np.eye(requests), np.ones(4)) * rng.integers(1, 4, requests)[:, None]
    order = rng.permutation(n)
    total = rng.integers(1, 4, requests).astype(float)
    lower, upper = rng.choice([0.0, -1.0], n), rng.choice([2.0, INF], n)
    A = np.vstack((use, sums))[:, order]
    lowest = A @ lower
    high = np.concatenate((use.sum(axis=1) / 3, total + 1)) + lowest
    low = np.concatenate((np.full(3, -INF), high[3:] if equal else np.full(requests, -INF)))
    high[0] = INF if equal else high[0]
    high[1:3] = INF if equal else high[1:3]
    return GeneralLP(rng.normal(size=n) - 1, csc_array(A), low, high, lower, upper, 0.0, np.zeros(n, bool))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("solver", ["copter", "highs-simplex"])
def test_values_and_prices_come_back(seed, equal, solver):
    lp = allocation(seed, equal)
    model = Model(lp, share=0.5)
    assert len(model.program.resource_ids) == 3 and model.n_sums == lp.A.shape[0] - 3
    answer = solve_lp(lp, solver=make_solver(solver, tolerance=1e-7), presolve=False)
    rows = (lp.A.toarray(), lp.row_lower, lp.row_upper)
    truth = scipy.optimize.milp(
        lp.c, bounds=(lp.lower, lp.upper), constraints=scipy.optimize.LinearConstraint(*rows)
    )
    assert truth.status == {"optimal": 0, "infeasible": 2}.get(str(answer.status)), answer.reason
    if truth.status == 0:
        assert answer.proof.worst <= 1e-6  # of the LP itself: rows, reduced costs and gap
        assert answer.proof.objective == pytest.approx(truth.fun, rel=1e-5, abs=1e-5)


ROWS = {
    "a sum": ([2.0, 2.0, 2.0], -INF, 4.0, True),
    "an equation": ([1.0, 1.0, 1.0], 1.0, 1.0, True),
    "a lower bound that holds anyway": ([1.0, 1.0, 1.0], -1.0, 1.0, True),
    "different coefficients": ([1.0, 2.0, 1.0], -INF, 1.0, False),
    "negative coefficients": ([-1.0, -1.0, -1.0], -INF, 1.0, False),
    "two sides": ([1.0, 1.0, 1.0], 0.5, 1.0, False),
    "no upper bound": ([1.0, 1.0, 1.0], 0.5, INF, False),
    "a negative bound": ([1.0, 1.0, 1.0], -INF, -1.0, False),
    "one column": ([1.0, 0.0, 0.0], -INF, 1.0, False),
}


@pytest.mark.parametrize("case", ROWS)
def test_what_counts_as_a_sum(case):
    row, low, high, wanted = ROWS[case]
    found = find_blocks(csr_array([row]), np.array([low]), np.array([high]), np.zeros(3, bool))
    assert (found.row.size == 1) == wanted
    assert (found.member.tolist() == [0, 0, 0]) == wanted


def test_blocks_do_not_overlap_and_are_of_one_kind():
    A = csr_array([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    low, high = np.full(3, -INF), np.ones(3)
    assert find_blocks(A, low, high, np.zeros(4, bool)).row.tolist() == [1, 2]
    assert find_blocks(A, low, high, np.array([False, False, False, True])).row.tolist() == []


def test_a_few_sums_among_many_rows_are_left_as_rows():
    A = csr_array(np.vstack((np.ones((1, 4)), np.diag([1.0, 2.0, 3.0, 4.0])[:2] + np.eye(4)[1:3])))
    assert find_blocks(A, np.full(3, -INF), np.ones(3), np.zeros(4, bool)).row.size == 0
