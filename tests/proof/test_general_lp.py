"""What a point with prices is worth on a general LP: nothing false is called proved, whatever the units."""

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import linprog
from copter.proof.general_lp import prove, quietest
from copter.proof.rigorous import _joined
from copter.solvers.general import GeneralLP

INF = np.inf


def program(c, A, row_lower, row_upper, lower, upper) -> GeneralLP:
    vectors = (np.array(vector, float) for vector in (row_lower, row_upper, lower, upper))
    return GeneralLP(np.array(c, float), csc_array(np.array(A, float)), *vectors, 0.0, np.zeros(len(c), bool))


def test_a_small_cost_counts_where_the_bound_is_far():
    far = {"c": [1.0, -1e-10], "bounds": [(1, None), (0, 1e15)]}
    found = linprog(**far)
    assert found.status == 0 and found.fun == pytest.approx(-99999.0)
    joined = linprog([1.0, -1e-10], A_ub=[[-1.0, 0.0]], b_ub=[-1.0], bounds=far["bounds"], presolve=False)
    assert joined.status == 0 and joined.fun == pytest.approx(1 - 1e5)


@pytest.mark.parametrize("presolve", [True, False])
def test_a_small_cost_that_nothing_holds_is_unbounded(presolve):
    found = linprog([1.0, -1e-10], A_ub=[[-1.0, 0.0]], b_ub=[-1.0], presolve=presolve)
    assert found.status == 3 and found.ray.kind == "unbounded"


def test_reduced_costs_are_judged_by_their_own_terms():
    lp = program([1.0, -1e-10], [[1.0, 0.0]], [1.0], [INF], [0.0, 0.0], [INF, INF])
    assert prove(lp, np.array([1.0, 0.0]), np.array([-1.0])).dual == 1.0
    boxed = program([1.0, -1e-10], [[1.0, 0.0]], [1.0], [INF], [0.0, 0.0], [INF, 1e15])
    assert prove(boxed, np.array([1.0, 0.0]), np.array([-1.0])).gap == pytest.approx(1.0, abs=1e-4)


def test_a_row_is_judged_by_its_own_bound_and_terms():
    rows = np.eye(2)
    lp = program([0.0, 1.0], rows, [1e-9, 1e6], [INF, INF], [0.0, 0.0], [INF, INF])
    y = np.array([0.0, -1.0])
    assert prove(lp, np.array([0.0, 1e6]), y).primal == pytest.approx(1.0)
    assert prove(lp, np.array([1e-9, 1e6]), y).worst <= 1e-15


def test_noise_is_taken_out_of_point_and_prices_not_forgiven():
    A = [[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]
    lp = program([0.0, 0.0, 1.0], A, [0.0, 1.0], [0.0, INF], [0.0] * 3, [INF] * 3)
    x, y = np.array([1e-14, 0.0, 1.0]), np.array([1e-15, -1.0])
    assert prove(lp, x, y).primal == pytest.approx(1.0)
    x, y, proof = quietest(lp, x, y, 1e-6)
    assert proof.worst <= 1e-15 and x.tolist() == [0.0, 0.0, 1.0]


def test_pairs_of_opposite_columns_are_joined_and_no_others():
    rng, joined = np.random.default_rng(2), 0
    for _ in range(30):
        m, n = int(rng.integers(1, 5)), int(rng.integers(1, 12))
        A, c = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.7), rng.normal(size=n)
        twins = rng.permutation(n)[: int(rng.integers(0, n + 1))]
        A, c = np.hstack([A, -A[:, twins]]), np.concatenate([c, -c[twins]])
        c[n:] += 1.0 * (rng.random(twins.size) < 0.2)  # the cost is another
        upper = np.where(rng.random(c.size) < 0.2, 5.0, INF)
        found = _joined(program(c, A, [0.0] * m, [1.0] * m, np.zeros(c.size), upper))
        pairs = sum(
            c[twin] == -c[n + k] and upper[twin] == upper[n + k] == INF for k, twin in enumerate(twins)
        )
        assert c.size - found.c.size == pairs == np.count_nonzero(found.lower == -INF)
        joined += pairs
    assert joined > 30
