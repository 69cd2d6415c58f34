"""Rows that are violated when all loads change: prices along the violations, and rounds from these prices."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ContinualProgram, make_solver
from copter.proof.pricing import price
from copter.solvers.proximal import loop
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.proximal.starting_prices import violation_prices
from copter.solvers.proximal.tuning import PartialTuning, ProximalTuning

SERVERS, SHARDS, BAND = 8, 120, 0.05
PARTIAL = ProximalTuning(partial=PartialTuning(columns_from=0, requests_from=0, rows_from=1))


def balance(program, loads, at):
    """Shards that stay free of cost where they are; the load of each server must be near the mean."""
    mean = loads.sum() / SERVERS
    for server in range(SERVERS):
        bounds = {"lower": (1 - BAND) * mean, "upper": (1 + BAND) * mean}
        if server in program.resources:
            program.update_resources(server, **bounds)
        else:
            program.add_resource(server, **bounds)
    for shard, load in enumerate(loads):
        costs = np.full(SERVERS, 1.0 + 0.01 * shard)
        costs[at[shard]] = 0.0
        usage = {server: np.where(np.arange(SERVERS) == server, load, 0.0) for server in range(SERVERS)}
        if shard in program.requests:
            program.update_request(shard, costs=costs, usage=usage)
        else:
            program.add_request(shard, costs, usage, total=1, relation="==")


def test_prices_along_violations_increase_the_bound_by_their_length_to_first_order():
    program = ContinualProgram()
    program.add_resource("over", upper=2.0)
    program.add_resource("under", lower=4.0, upper=9.0)
    program.add_resource("within", lower=0.0, upper=5.0)
    usage = {"over": [3.0, 0.0], "under": [1.0, 3.0], "within": 1.0}
    program.add_request("a", [0.0, 1.0], usage, total=1.0, relation="==")
    activity = np.array([3.0, 1.0, 1.0])
    prices = violation_prices(program.store, activity)
    assert prices[0] > 0.0 > prices[1] and prices[2] == 0.0
    # one unit over a bound of 2 and three units below a bound of 4: relative violations of 1/2 and 3/4
    assert prices[1] * 4.0 / (prices[0] * 2.0) == pytest.approx(-1.5)

    def bound(y):
        paid = np.where(y > 0.0, y * np.array([2.0, 9.0, 5.0]), y * np.array([0.0, 4.0, 0.0]))
        return price(program.store, y).request_bound - paid.sum()

    for length in (1e-3, 1e-6):
        assert bound(length * prices) == pytest.approx(length)


@pytest.mark.parametrize("bound", [0.0, -0.0, 1e-200])
def test_a_row_with_a_bound_of_almost_zero_has_no_relative_violation(bound):
    program = ContinualProgram()
    program.add_resource("a", upper=bound)
    assert not violation_prices(program.store, np.array([1.0])).any()


def test_rounds_in_which_all_loads_change_are_those_of_a_simplex(monkeypatch):
    searched = []

    def count(store, activity):
        prices = violation_prices(store, activity)
        searched.append(bool(prices.any()))
        return prices

    monkeypatch.setattr(loop, "violation_prices", count)
    for seed in range(4):
        rng, program = np.random.default_rng(seed), ContinualProgram()
        solver = ProximalPoint(tolerance=1e-6, tuning=PARTIAL)
        at = np.arange(SHARDS) % SERVERS
        for _ in range(6):
            balance(program, np.exp(rng.normal(0.0, 0.8, SHARDS)), at)
            solution, best = solver.solve(program), make_solver("highs-simplex").solve(program)
            assert solution.status == "optimal"
            assert solution.objective == pytest.approx(best.objective, rel=3e-6)
            at = np.array([np.argmax(solution.x[shard]) for shard in range(SHARDS)])
    assert sum(searched) >= 3  # otherwise the rounds do not show anything about the search
