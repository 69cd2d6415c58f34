"""`milp` on switches, semi-continuous columns, bytes, equalities and big-M, against enumeration."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import Status, linprog, milp
from copter.models.general_lp import GeneralLP
from copter.proof.whole import Terms, broken_row
from copter.solvers.general import integer
from copter.solvers.milp import MilpAnswer, confirmed
from support.amounts import some
from support.brute_force import BYTES, KINDS, drawn, optimum

INF = np.inf
SEEDS, FEW = range(60), 20


@pytest.fixture(scope="module")
def programs():
    return {seed: drawn(seed) for seed in SEEDS}


def test_every_kind_is_drawn(programs):
    counts = sum((program.kinds for program in programs.values()), Counter())
    assert all(counts[kind] >= 5 for kind in KINDS), counts
    early = sum((programs[seed].kinds for seed in SEEDS[:FEW]), Counter())
    assert all(early[kind] for kind in KINDS), early


@pytest.mark.parametrize("seed", some(FEW, SEEDS))
def test_answers_are_those_of_enumeration(programs, seed):
    program = programs[seed]
    truth, found = optimum(program), milp(**program.arguments())
    assert found.status == (0 if np.isfinite(truth) else 2), (truth, found.message)
    if np.isfinite(truth):
        assert found.fun == pytest.approx(truth, rel=1e-4, abs=1e-6)
        assert found.mip_dual_bound <= truth + 1e-6 * abs(truth) + 1e-6
        check(program, found.x)


def check(program, x):
    """Whether a point keeps a program: exactly for whole numbers, 0 and bounds, to rounding for rows."""
    whole, off = np.isin(program.integrality, (1, 3)), (program.integrality > 1) & (x == 0.0)
    assert (x[whole] == np.rint(x[whole])).all()
    assert (off | ((x >= program.lower) & (x <= program.upper))).all()
    size = 1e-9 * (abs(program.A) @ abs(x) + 1e-300)
    assert (program.A @ x <= program.high + size).all() and (program.A @ x >= program.low - size).all()


@pytest.mark.parametrize("low, high", [(2.0, 5.0), (2.0, INF), (3e8, 1e9), (1e-7, 1.0), (0.5, 1e30)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("room", [0.5, 1.5, 4e3])
def test_a_semi_continuous_column_is_0_or_within_its_bounds(low, high, sign, room):
    limit = room * low
    best = min(limit, high) if limit >= low else 0.0
    bounds = sorted((sign * low, sign * high))
    rows = ([[sign]], -INF, limit)
    found = milp([-sign], integrality=2, bounds=([bounds[0]], [bounds[1]]), constraints=rows)
    assert (found.status, found.fun) == (0, pytest.approx(-best, rel=1e-9))
    assert found.x[0] == 0.0 or low <= sign * found.x[0] <= high


@pytest.mark.parametrize("low, high", [(5, 3), (3.2, 3.8), (INF, INF)])
def test_a_semi_integer_column_whose_bounds_leave_no_value_is_0(low, high):
    rows = ([[1.0, 1.0]], 2.0, INF)
    found = milp([-1.0, 1.0], integrality=[3, 0], bounds=([low, 0], [high, 10]), constraints=rows)
    assert (found.status, found.fun, found.x.tolist()) == (0, 2.0, [0.0, 2.0])
    same = linprog([-1.0, 1.0], [[-1.0, -1.0]], [-2.0], bounds=[(low, high), (0, 10)], integrality=[3, 0])
    assert (same.status, same.fun) == (0, 2.0)


def test_a_semi_continuous_column_without_an_end_is_unbounded():
    found = milp([-1.0], integrality=2, bounds=([1.0], [INF]))
    assert (found.status, found.x) == (3, None)


@pytest.mark.parametrize("unit", [2.0**-30, 1e-9, 1.0, 2.0**10, 2.0**30, 1e12])
def test_units_of_rows_and_continuous_columns_change_no_status(unit):
    rng = np.random.default_rng(4)
    sizes, value = rng.integers(1, 9, 500).astype(float), -rng.integers(1, 9, 500).astype(float)
    found = milp(value, integrality=1, bounds=(0, 1), constraints=([sizes * unit], -INF, sizes.sum() * unit))
    assert (found.status, found.fun) == (0, value.sum())
    # Sites with an opening cost and a capacity, and one demand, in the same unit.
    cap, cost = rng.integers(5, 60, 40) * unit, rng.integers(1, 9, 40).astype(float)
    links = np.hstack((-np.diag(cap), np.eye(40)))
    rows = np.vstack((links, np.append(np.zeros(40), np.ones(40))))
    demand = 0.4 * cap.sum()
    low, high = np.append(np.full(40, -INF), demand), np.append(np.zeros(40), demand)
    sites = milp(
        np.append(cost, np.zeros(40)),
        integrality=[1] * 40 + [0] * 40,
        bounds=(0, [1] * 40 + [INF] * 40),
        constraints=(rows, low, high),
    )
    assert sites.status == 0
    assert sites.fun == pytest.approx(knapsack(cap / unit, cost, demand / unit), abs=1e-9)


def knapsack(cap, cost, demand):
    """The least cost of a cover of a demand, by dynamic programming over capacities that are whole."""
    total = int(np.rint(cap.sum()))
    best = np.full(total + 1, INF)
    best[0] = 0.0
    for size, price in zip(np.rint(cap).astype(int), cost, strict=True):
        best[size:] = np.minimum(best[size:], best[: total + 1 - size] + price)
    return best[int(np.ceil(demand - 1e-6)) :].min()


@pytest.mark.parametrize("coefficient", [1.0, 2.6, 0.1, 1e-3, BYTES + 0.5])
@pytest.mark.parametrize("others", [0, 3])
def test_a_row_whose_terms_are_all_0_holds(coefficient, others):
    rows = np.repeat(0, others + 1)
    value = np.zeros(others + 1)
    for whole in product((True, False), repeat=others + 1):
        terms = Terms(rows, np.full(others + 1, coefficient), value, np.array(whole))
        for low, high in ((-INF, 0.0), (0.0, INF), (0.0, 0.0)):
            assert broken_row(terms, np.array([low]), np.array([high])) == -1
        assert broken_row(terms, np.array([-INF]), np.array([-1e-300])) == 0


def test_a_long_row_with_continuous_columns_is_summed_exactly():
    n = 200_000
    terms = Terms(np.zeros(n, int), np.full(n, 0.5), np.full(n, 2.0), np.zeros(n, bool))
    assert broken_row(terms, np.array([-INF]), np.array([float(n)])) == -1
    assert broken_row(terms, np.array([-INF]), np.array([n - 1.0])) == 0


# ---- the word of presolve --------------------------------------------------------------------------------


def answer(status, x=None, bound=-INF):
    return MilpAnswer(None if x is None else np.array(x), status, "HiGHS", bound, 0.0, 1)


def test_what_presolve_led_to_counts_only_if_a_run_without_it_agrees():
    c, optimal, infeasible = np.array([1.0, 1.0]), Status.OPTIMAL, Status.INFEASIBLE
    good, bad = answer(optimal, [0.0, 1.0], 1.0), answer(optimal, [2.0, 1.0], 3.0)
    assert confirmed(good, lambda _: good, c).status is optimal
    assert confirmed(answer(infeasible), lambda _: answer(infeasible), c).status is infeasible
    for first, second in ((bad, good), (good, bad), (answer(infeasible), good), (good, answer(infeasible))):
        found = confirmed(first, lambda _, then=second: then, c)
        assert (found.status, found.bound, found.x.tolist()) == (Status.UNPROVED, -INF, [0.0, 1.0])
    stopped = confirmed(good, lambda _: answer(Status.DEADLINE, None, 0.5), c)
    assert (stopped.status, stopped.bound, stopped.x.tolist()) == (Status.DEADLINE, 0.5, [0.0, 1.0])
    late = answer(Status.DEADLINE)
    assert confirmed(late, lambda _: pytest.fail("there is nothing to confirm"), c) is late


@pytest.mark.parametrize("claim", [Status.OPTIMAL, Status.INFEASIBLE])
@pytest.mark.parametrize("columns", [3, 500])
def test_a_presolve_that_loses_the_optimum_is_found_out(monkeypatch, claim, columns):
    plain = integer._run

    def losing(lp, settings, *others):
        found = plain(lp, settings, *others)
        if settings.get("presolve") == "off":
            return found
        if claim is Status.INFEASIBLE:
            return answer(claim)
        worse = np.zeros(lp.c.size)
        return answer(claim, worse, float(lp.c @ worse))

    monkeypatch.setattr(integer, "_run", losing)
    sizes = np.arange(1.0, columns + 1.0)
    rows = (sizes[None], -INF, sizes.sum() // 2)
    found = milp(-sizes, integrality=1, bounds=(0, 1), constraints=rows)
    if columns <= 400:  # exact arithmetic decides
        assert (found.status, found.fun) == (0, -(sizes.sum() // 2))
    else:
        assert (found.status, found.fun) == (4, -(sizes.sum() // 2))
        assert "contradict" in found.message


def test_a_bound_of_tolerances_is_no_optimum():
    lp = GeneralLP(
        np.array([1.0, 0.0]),
        csc_array(np.array([[1e6, -1.0]])),
        np.array([0.0]),
        np.array([INF]),
        np.array([0.0, 1.0]),
        np.array([1.0, 1.0]),
        0.0,
        np.array([True, False]),
    )
    cheap = answer(Status.OPTIMAL, [1e-6, 1.0], 1e-6)  # on by a millionth
    judged = integer._judged(lp, cheap, 1e-4, integer.Clock())
    assert (judged.status, judged.objective) == (Status.OPTIMAL, 1.0)
    assert judged.bound == pytest.approx(1.0)
