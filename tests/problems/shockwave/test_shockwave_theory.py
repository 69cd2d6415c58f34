"""The theory's programs against other solutions: markets by hand and by cvxpy, program (6) by enumeration."""

import cvxpy as cp
import numpy as np
import pytest

from copter.bench.reproduction import Effort, reproductions
from copter.problems.shockwave.theory import (
    best_policy,
    by_trajectories,
    equilibrium,
    equilibrium_error,
    utilities,
)

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("kind", ["linear", "Leontief"])
def test_equilibria_are_those_of_the_printed_program(kind):
    values, budgets = RNG.uniform(0.1, 4.0, (4, 2, 3)), np.array([1.0, 2.0, 0.5, 1.0])
    x, prices = equilibrium(values, budgets, kind)
    shares = [cp.Variable((2, 3), nonneg=True) for _ in values]
    if kind == "linear":
        gains = [cp.sum(cp.multiply(each, share)) for each, share in zip(values, shares, strict=True)]
    else:
        gains = [cp.sum(cp.min(share / each, axis=0)) for each, share in zip(values, shares, strict=True)]
    supply = sum(shares) <= 1.0
    welfare = sum(money * cp.log(gain) for money, gain in zip(budgets, gains, strict=True))
    cp.Problem(cp.Maximize(welfare), [supply]).solve(solver=cp.CLARABEL)
    assert utilities(x, values, kind) == pytest.approx([gain.value for gain in gains], rel=1e-4)
    assert prices == pytest.approx(supply.dual_value, rel=1e-4, abs=1e-4)


def test_an_allocation_that_is_no_equilibrium_has_an_error():
    values, budgets = np.array([[[1.0, 1.0]], [[3.0, 1.0]]]), np.ones(2)
    x, prices = equilibrium(values, budgets, "linear")
    assert equilibrium_error(x, prices, values, budgets, "linear") < 1e-4
    assert equilibrium_error(np.full_like(x, 0.5), prices, values, budgets, "linear") > 0.1


def test_a_policy_that_needs_no_chance_is_found_by_hand():
    """One state each: with two rounds, both jobs run once."""
    moves, gains = np.ones((2, 1, 1)), np.zeros((2, 1, 2))
    gains[0, 0, 0], gains[1, 0, 1] = 2.0, 5.0
    policy, yields = best_policy(moves, gains, np.ones(1), 2)
    assert yields == pytest.approx([2.0, 5.0])
    assert by_trajectories(policy, moves, gains, np.ones(1)) == pytest.approx(yields)


def test_the_theorems_hold_on_small_instances():
    found = {}
    for name in ("shockwave-market", "shockwave-expected"):
        for one in reproductions()[name].measure(Effort(quick=True)):
            found[one.row, one.column] = one.ours
    for kind in ("linear", "Leontief"):
        assert found[f"{kind}, equal budgets", "jobs with an FTF above 1"] == 0.0
        for budgets in ("equal", "random"):
            row = f"{kind}, {budgets} budgets"
            assert found[row, "least product of FTF of other allocations"] >= 1.0
            assert found[row, "error of the equilibrium"] < 1e-6
    row = "2 jobs, 3 rounds"
    assert found[row, "error of the utilities"] < 1e-6
    assert found[row, "welfare over the best deterministic policy, least"] > 1.0 - 1e-6
