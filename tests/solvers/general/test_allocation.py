"""LPs that are allocations: which rows are sums, `as_program` and its answers, and when a Model uses it."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from copter import Model, as_program, make_solver
from copter.errors import UnsupportedError
from copter.models.linear_program import LinearProgram
from copter.solvers.general import allocation as module
from copter.solvers.general import model as models
from support.amounts import seeds
from support.lp_cases import scipy_form
from support.lp_families import made

INF = np.inf


def allocation(seed: int, requests: int = 9, *, equal: bool = False) -> LinearProgram:
    """Requests of four columns with a sum row each, over three resources; columns in a random order."""
    rng = np.random.default_rng([seed, int(equal)])
    n = 4 * requests + 2
    use = rng.integers(0, 5, (3, n)).astype(float)
    use[:, 1::4] = 0.0
    factor = rng.integers(1, 4, requests).astype(float)
    sums = np.hstack((np.kron(np.eye(requests), np.ones(4)) * factor[:, None], np.zeros((requests, 2))))
    order = rng.permutation(n)
    total = rng.integers(1, 4, requests) * factor
    high = np.append(use.sum(axis=1) / 3, total)
    low = np.append(np.full(3, -INF), total if equal else np.full(requests, -INF))
    upper = np.append(rng.choice([4.0, INF], 4 * requests), [1.0, 2.0])
    A = np.vstack((use, sums))[:, order]
    return made(np.round(rng.normal(size=n) - 1, 3), A, low, high, 0.0, upper[order])


def check(lp: LinearProgram, x, y, tolerance=1e-5) -> None:
    """Assert that x is within the rows and optimal by the prices y, as scipy has it."""
    truth = scipy.optimize.linprog(**scipy_form(lp))
    size = tolerance * max(1.0, abs(truth.fun))
    assert truth.status == 0 and lp.c @ x == pytest.approx(truth.fun, abs=size)
    at = lp.A @ x
    assert (at <= lp.row_upper + size).all() and (at >= lp.row_lower - size).all()
    assert (x >= -size).all() and (x <= lp.upper + size).all()
    z = lp.c + lp.A.T @ y
    ends = np.where(z > 0, 0.0, np.where(np.isinf(lp.upper), 0.0, lp.upper))
    paid = np.where(y > 0, lp.row_upper, np.where(y < 0, lp.row_lower, 0.0))
    assert z @ ends - y @ np.where(y == 0.0, 0.0, paid) == pytest.approx(truth.fun, abs=10 * size)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("seed", seeds(4, 12))
def test_values_and_prices_come_back_after_changed_numbers(seed, equal):
    rng, lp = np.random.default_rng(seed), allocation(seed, equal=equal)
    kept = as_program(lp)
    program, solver, counts = kept.program, make_solver("copter", tolerance=1e-7), Counter()
    assert len(program) == 11 and list(program.resource_ids) == [0, 1, 2] and kept.sums.size == 9
    check(lp, *kept.point(solver.solve(program)))
    for what in ("costs", "upper", "sums", "resources"):
        new = {"c": lp.c.copy(), "upper": lp.upper.copy(), "row_upper": lp.row_upper.copy()}
        if what == "costs":
            new["c"][rng.integers(lp.c.size, size=3)] -= 0.5
        elif what == "upper":
            new["upper"][:5] = 2.5
        else:
            new["row_upper"][3 if what == "sums" else 1] += 1.0
        if equal and what == "sums":
            new["row_lower"] = np.where(np.isinf(lp.row_lower), -INF, new["row_upper"])
        lp = replace(lp, **new)
        assert kept.follow(lp) and kept.program is program
        solution = solver.solve(program)
        counts["warm"] += solution.warm_started
        check(lp, *kept.point(solution))
    assert counts["warm"] == 4
    assert not kept.follow(replace(lp, row_lower=np.append(lp.row_lower[:-1], 0.5)))
    assert not kept.follow(replace(lp, lower=lp.lower - 1.0))
    assert not kept.follow(replace(lp, A=lp.A * 2.0))


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
    found = module.find_blocks(made([1.0] * 3, [row], low, high))
    assert (found.row.size == 1) == wanted == (found.member.tolist() == [0, 0, 0])


def test_blocks_do_not_overlap_and_are_of_one_kind():
    lp = made([1.0] * 4, [[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]], -INF, 1.0)
    assert module.find_blocks(lp).row.tolist() == [1, 2]
    lp = replace(lp, integral=np.array([False, True, False, True]))
    assert module.find_blocks(lp).row.size == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lower": -1.0}, "every column must have a lower bound of 0"),
        ({"A": [[1.0, 2.0, 3.0], [1.0, 1.0, 0.0]]}, "column 2 has no upper bound and is in no sum row"),
        ({"A": [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]}, "only 0 of 3 columns"),
    ],
)
def test_what_is_no_allocation_is_told(given, said):
    numbers = {"c": [1.0] * 3, "A": [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]], "low": -INF, "high": 5.0} | given
    with pytest.raises(UnsupportedError, match=said):
        as_program(made(**numbers))


# ---- by a Model ------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """Programs of almost any size may be solved as a ContinualProgram."""
    monkeypatch.setattr(models, "LARGE", 10)
    monkeypatch.setattr(module, "_COLUMNS_A_ROW", 5)


def test_a_model_says_when_it_solves_an_allocation_as_a_program(small):
    """From the second solve on, if many costs change; then HiGHS' basis is of no use for a small change."""
    rng, model, engines = np.random.default_rng(0), Model(allocation(0)), []
    truths = Counter()
    for what in ("cold", "costs", "one cost", "one cost", "one cost", "costs", "rows"):
        n = model.lp.c.size
        if what == "costs":
            model.update(c=model.lp.c * rng.uniform(0.5, 1.5, n))
        elif what == "one cost":
            model.update(c={int(rng.integers(n)): -1.0})
        elif what == "rows":
            model.add_rows(np.ones((1, n)), row_upper=50.0)
        found = model.solve()
        engines.append(found.details["engine"])
        truth = scipy.optimize.linprog(**scipy_form(model.lp))
        assert found.objective == pytest.approx(truth.fun, rel=1e-5) and found.certified
        assert found.bound <= truth.fun + 1e-6 and found.primal_residual <= 1e-6
        truths[engines[-1]] += 1
    assert engines[0] == engines[-1] == "highs" and truths["program"] >= 2, engines
    assert engines[4] == "highs", "a small change starts from HiGHS' basis"


@pytest.mark.parametrize("why", ["small", "no allocation"])
def test_other_lps_stay_in_highs(why, monkeypatch):
    if why == "no allocation":
        monkeypatch.setattr(models, "LARGE", 10)
    lp = allocation(1) if why == "small" else made(np.ones(20), np.eye(20) + 1.0, 1.0, INF)
    model = Model(lp)
    for factor in (1.0, 1.5):
        model.update(c=lp.c * factor)
        assert model.solve().details["engine"] == "highs"


def test_a_program_that_misses_the_tolerance_is_solved_by_highs(small, monkeypatch):
    model = Model(allocation(2))
    model.solve()
    model.update(c=model.lp.c * 1.5)
    x, y = np.zeros(model.lp.c.size), np.zeros(model.lp.row_lower.size)
    monkeypatch.setattr(module.LPProgram, "point", lambda *_: (x, y))
    found = model.solve()
    truth = scipy.optimize.linprog(**scipy_form(model.lp))
    assert found.details["engine"] == "highs" and found.objective == pytest.approx(truth.fun, rel=1e-6)
