"""Costs of moving: against a program in which every other column costs more, and HiGHS."""

from functools import partial

import numpy as np
import pytest

from copter import ContinualProgram, Journal, ProximalPoint, make_solver
from copter.errors import EditError
from support.in_parts import made
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


@pytest.fixture(params=[0, 3], ids=["in one part", "in three parts"])
def new_program(request):
    """Make programs whose requests are in one part or in several."""
    return partial(made, request.param, ContinualProgram)


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "many at once"])
def test_prices_do_not_add_up(new_program, many):
    program, rng = new_program(), np.random.default_rng(11)
    base = -rng.integers(1, 9, COLUMNS).astype(float)
    columns = program.share_columns({}, COLUMNS)
    scales = {"plain": 1.0, "scaled": 3.0, "overridden": 0.25}
    ids = list(scales)
    for id in ids:
        program.add_request(id, base, columns, total=1.0, scale=scales[id])
    program.update_request("overridden", override={0: 70.0, 2: -70.0})
    places = rng.integers(0, COLUMNS, len(ids)).tolist()
    for price in (0.5, 0.5, 2.0, 0.0):
        for step in [ids] if many else [[id] for id in ids]:
            program.price_moves(step, [places[ids.index(id)] for id in step], price)
        for id, column in zip(ids, places, strict=True):
            expected = scales[id] * base[column] - price
            assert program.requests[id].override == {column: expected}
    for step in ids:  # another column, another scale: the cost below the old override is not lost
        program.update_request(step, scale=2.0)
        program.price_moves(step, 3 - places[ids.index(step)], 1.0)
        assert program.requests[step].override == {
            3 - places[ids.index(step)]: 2.0 * base[3 - places[ids.index(step)]] - 1.0
        }
        assert (program.requests[step].base_costs == base).all()


def test_a_second_call_with_the_same_arguments_leaves_the_costs_as_they_are(new_program):
    program, n = new_program(), 20
    rng = np.random.default_rng(12)
    columns = program.share_columns({}, COLUMNS)
    program.add_requests(
        range(n), list(-rng.uniform(1, 2, (n, COLUMNS))), usage=columns, sizes=None, upper=1e3
    )
    program.update_requests(range(0, n, 2), overrides=[{0: 5.0, 1: 6.0}] * (n // 2))
    places = rng.integers(-1, COLUMNS, n)
    program.price_moves(range(n), places, 0.25)
    first = [program.requests[q].override for q in range(n)]
    program.price_moves(range(n), places, 0.25)
    assert [program.requests[q].override for q in range(n)] == first
    assert all(set(first[q]) == ({places[q]} - {-1}) for q in range(n))


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


def test_the_next_call_replaces_the_last_one_and_none_means_nowhere():
    program, costs = build(np.random.default_rng(1), 3)
    program.price_moves([0, 1, 2], [0, 1, 2], 1.0)
    program.update_request(0, scale=1.0)
    program.price_moves([0, 1, 2], [None, 3, -1], [1.0, 0.5, 2.0])
    assert program.requests[0].override == {} and program.requests[2].override == {}
    assert program.requests[1].override == {3: pytest.approx(costs[1, 3] - 0.5)}
    program.price_moves(1, 2, 0.25)
    assert program.requests[1].override == {2: pytest.approx(costs[1, 2] - 0.25)}


def test_a_journal_has_it(tmp_path):
    with Journal(tmp_path, ProximalPoint()) as journal:
        journal.add_request("a", [1.0, 2.0], {}, total=1.0)
        journal.price_moves("a", 1, 5.0)
        journal.commit()
    with Journal(tmp_path, ProximalPoint()) as journal:
        assert journal.requests["a"].override == {1: -3.0}


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
