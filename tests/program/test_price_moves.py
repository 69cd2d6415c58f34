"""Costs of moving: against a program in which every other column costs more, and HiGHS."""

import numpy as np
import pytest

from copter import ContinualProgram, make_solver
from copter.errors import EditError
from support.rich_program import rich
from support.strategies import snapshot

COLUMNS = 4


def build(rng, requests):
    """A program, and what each column of each request costs in it."""
    program = ContinualProgram()
    program.add_resources(range(3), upper=0.2 * requests)
    usage = {r: rng.uniform(0.0, 1.0, COLUMNS) for r in range(3)}
    base, scales = -rng.uniform(1.0, 3.0, (requests, COLUMNS)), rng.uniform(0.5, 2.0, requests)
    columns, sizes = program.share_columns(usage, COLUMNS), [COLUMNS] * requests
    program.add_requests(range(requests), list(base), sizes, columns, totals=1.0, scales=scales)
    return program, base * scales[:, None]


@pytest.mark.parametrize("solver", ["highs-simplex", "copter"])
def test_moving_costs_what_was_said(solver):
    rng, n = np.random.default_rng(7), 30
    program, costs = build(rng, n)
    last = rng.integers(-1, COLUMNS, n)
    prices = np.where(rng.random(n) < 0.3, 0.0, rng.uniform(0.0, 2.0, n))
    before = program.requests[:].costs.copy()
    program.price_moves(range(n), last, prices)
    plain = ContinualProgram()
    plain.add_resources(range(3), upper=program.resources[:].upper)
    for q in range(n):
        use = {r: program.requests[q].usage[r] for r in range(3)}
        stays = np.arange(COLUMNS) == last[q]
        own = costs[q] + prices[q] * ~stays * (last[q] >= 0)
        plain.add_request(q, [*own, prices[q] * (last[q] >= 0)], use, total=1.0, relation="==")
    # who has nothing left its column too: the sum row is an equation with a column that uses nothing
    best = make_solver("highs-simplex").solve(plain).objective
    mine = make_solver(solver).solve(program).objective + prices[last >= 0].sum()
    assert mine == pytest.approx(best, rel=1e-6)
    assert (program.requests[:].costs == before).all()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((["nobody"], [0], 1.0), "no request with this id"),
        ((["free"], [9], 1.0), "'free': columns = 9: must be below "),
        ((["free"], [0.5], 1.0), "columns = 0.5: must be a whole number"),
        ((["free"], [0, 1], 1.0), "columns = 2: must have one for each of 1"),
        ((["free"], [0], -1.0), "'free': prices = -1.0: must be finite and not negative"),
        ((["free"], [0], np.inf), "prices = inf"),
        ((["free"], [0], [1.0, 2.0]), "'price_moves': prices"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_changes(change, why):
    program = rich()
    program.add_request("free", [1.0, 2.0], {}, total=1.0)
    before = snapshot(program)
    with pytest.raises(EditError, match=why):
        program.price_moves(*change)
    assert snapshot(program) == before
