"""`copter-exact` against brute force: all integral allocations of small programs, ties and odd shapes too."""

import itertools

import numpy as np
import pytest

from copter import ContinualProgram
from copter.solution import Status
from copter.solvers import make_solver

GAP = 1e-9


def whole_points(total, relation, upper):
    """All integral x of a request: 0 <= x <= upper, and its sum row."""
    top = np.floor(np.minimum(upper, np.inf if total is None else total) + 1e-9).astype(int)
    for point in itertools.product(*(range(most + 1) for most in top.tolist())):
        if total is None or (sum(point) == total if relation == "==" else sum(point) <= total):
            yield np.array(point, float)


def random_request(rng, rows, ties):
    """Costs, usage, total, relation and upper bounds of a request of some kind."""
    n = int(rng.integers(1, 5))
    costs = rng.integers(-4, 5, n).astype(float) if ties else rng.normal(size=n)
    usage = rng.integers(0, 4, (rows, n)).astype(float)
    kind = int(rng.integers(5))
    if kind == 0:
        return costs, usage, None, "<=", rng.integers(0, 3, n).astype(float)
    if kind == 1:
        return costs, usage, float(rng.integers(1, 4)), "<=", rng.uniform(0.5, 2.5, n)
    if kind == 2:
        upper = rng.integers(1, 3, n).astype(float)
        return costs, usage, float(rng.integers(0, min(3, int(upper.sum())) + 1)), "==", upper
    return costs, usage, 1.0, "<=" if kind == 3 else "==", np.full(n, 1.0)


def random_program(seed):
    """A small program, and the requests it was made of; some have no integral allocation at all."""
    rng = np.random.default_rng(seed)
    rows, ties = int(rng.integers(1, 4)), bool(rng.integers(2))
    program, requests = ContinualProgram(), []
    upper = rng.integers(2, 9, rows).astype(float)
    lower = np.where(rng.random(rows) < 0.25, upper - rng.integers(0, 3, rows), -np.inf)
    unit, rate = 10.0 ** rng.integers(-4, 5), 10.0 ** rng.integers(-4, 5)
    for r in range(rows):
        program.add_resource(r, upper[r] * unit, lower[r] * unit)
    for q in range(int(rng.integers(1, 6))):
        costs, usage, total, relation, box = random_request(rng, rows, ties)
        used = {r: usage[r] * unit for r in range(rows)}
        program.add_request(q, costs * rate, used, total=total, relation=relation, upper=box, integral=True)
        requests.append((costs * rate, usage, list(whole_points(total, relation, box))))
    return program, requests, lower, upper


def all_costs(requests, lower, upper):
    """Costs of all integral allocations that keep the rows."""
    states = [(0.0, np.zeros(upper.size))]
    for costs, usage, points in requests:
        states = [(cost + costs @ x, used + usage @ x) for cost, used in states for x in points]
    return [cost for cost, used in states if (used >= lower - 1e-9).all() and (used <= upper + 1e-9).all()]


@pytest.mark.parametrize("block", range(8))
def test_brute_force_finds_nothing_better(block):
    for seed in range(40 * block, 40 * block + 40):
        program, requests, lower, upper = random_program(seed)
        costs = all_costs(requests, lower, upper)
        solution = make_solver("copter-exact", integer_gap=GAP).solve(program)
        if not costs:
            assert solution.status is Status.INFEASIBLE, seed
            assert not solution.found
            continue
        assert solution.status is Status.OPTIMAL, (seed, solution.reason)
        best = min(costs)
        size = max(1e-9, max(map(abs, costs)))
        assert solution.objective == pytest.approx(best, abs=1e-9 * size), seed
        assert solution.integer.proven
        assert solution.integer.gap <= GAP
        assert solution.bound <= solution.integer.bound + 1e-12 * size
        assert solution.integer.bound <= best + 1e-12 * size
        assert solution.primal_residual <= 1e-9
        for request in program.request_ids:
            assert (solution.x[request] == np.rint(solution.x[request])).all()
