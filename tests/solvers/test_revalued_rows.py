"""Rows that were closed or opened: with all others as they are, no price is better than their new ones."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ContinualProgram
from copter.proof.pricing import price
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.proximal.starting_prices import reset_prices
from copter.solvers.proximal.state import Iterate

ROWS, REQUESTS, WIDTH = 12, 60, 6


def packing(seed, *, unit=1.0):
    """Requests whose columns use two or three rows; ``unit``: of what the rows are counted in."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    program.add_resources(range(ROWS), upper=unit * rng.uniform(8.0, 16.0, ROWS))
    for q in range(REQUESTS):
        usage = np.zeros((ROWS, WIDTH))
        for j in range(WIDTH - 1):  # the last column uses nothing
            usage[rng.choice(ROWS, rng.integers(2, 4), replace=False), j] = unit * rng.uniform(0.5, 1.5)
        costs = np.append(-rng.uniform(0.5, 3.0, WIDTH - 1), 0.0)
        total, relation = float(rng.uniform(0.5, 2.0)), ("<=", "==")[q % 2]
        program.add_request(
            q, costs, {i: usage[i] for i in range(ROWS) if usage[i].any()}, total=total, relation=relation
        )
    return program


def bound(program, y):
    """The Lagrangian bound, said once more."""
    rows = program.store.rows
    return price(program.store, y).request_bound - float(y.clip(0.0) @ rows.upper[: y.size])


def answer(program, solution):
    pricing = price(program.store, solution.y)
    return Iterate.of(program.store, solution.nonzeros, solution.y, pricing, 1)


@pytest.mark.parametrize("seed", range(6))
def test_a_closed_row_gets_a_price_at_which_nobody_uses_it_and_no_other_is_better(seed):
    program, row = packing(seed), seed
    program.update_resources(row, upper=1e3)  # which is enough for all: it has no price
    solution = ProximalPoint(tolerance=1e-7).solve(program)
    assert solution.y[row] == 0.0
    program.update_resources(row, upper=0.0)
    y = reset_prices(program.store, answer(program, solution))
    others = np.arange(ROWS) != row
    assert (y[others] == solution.y[others]).all() and y[row] > 0.0
    best = bound(program, y)
    for factor in (0.0, 0.5, 0.9, 1.1, 10.0):
        other = y.copy()
        other[row] *= factor
        assert bound(program, other) <= best + 1e-9 * abs(best)
    n_users = 0
    for id in program.request_ids:
        prices, using = program.requests[id].costs, np.zeros(WIDTH, bool)
        for i, (columns, values) in program.requests[id].usage.items():
            prices[columns] += y[i] * values
            using[columns] |= i == row
        if using.any():
            n_users += 1
            assert prices[using].min() > prices[~using].min()
    assert n_users > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e5])
def test_an_opened_row_gets_the_best_of_all_prices(seed, unit):
    program = packing(seed, unit=unit)
    row, room = seed, program.resources[seed][1]
    program.update_resources(row, upper=0.0)
    solution = ProximalPoint(tolerance=1e-7).solve(program)
    solution.y[row] = 50.0 / unit  # it was closed, and had any price
    program.update_resources(row, upper=room)
    y = reset_prices(program.store, answer(program, solution))
    assert 0.0 <= y[row] < 50.0 / unit
    best = bound(program, y)
    for other_price in np.concatenate((np.linspace(0.0, 6.0, 61) / unit, y[row] * np.array([0.99, 1.01]))):
        other = y.copy()
        other[row] = other_price
        assert bound(program, other) <= best + 1e-9 * abs(best)
