"""How many columns a pass collects, where most of a request's columns cost the same."""

import numpy as np
import pytest

from copter import ContinualProgram
from copter.solvers.proximal.columns import Screening
from copter.solvers.proximal.tuning import ProximalTuning

REQUESTS, WIDTH = 40, 100


def program_of(prices):
    """Requests with one free column each, and one price, or a row of prices, for the others."""
    program = ContinualProgram()
    program.add_resources(range(WIDTH), upper=1.0)
    template = program.share_columns({i: ([i], [1.0]) for i in range(WIDTH)}, WIDTH)
    for k, price in enumerate(prices):
        costs = np.append(0.0, np.broadcast_to(price, WIDTH - 1))
        program.add_request(k, costs, template, total=1.0, relation="==")
    return program


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_passes_come_to_collect_few_although_prices_are_tied(spread):
    """Requests differ in what their columns cost: a slack that is most's own takes in all of the others."""
    rng = np.random.default_rng(5)
    program = program_of(np.exp(spread * rng.standard_normal(REQUESTS)))
    tuning = ProximalTuning()
    screening, y = Screening(program.store, 1, tuning), np.zeros(program.store.rows.size)
    collected = [screening.price(y).slot.size for _ in range(30)]
    most = tuning.screening.far_too_many * tuning.screening.wanted * REQUESTS
    assert max(collected) > most  # at first
    assert min(collected[-5:]) <= most


def test_the_others_keep_their_next_best_columns():
    """A third of the requests have no choice but all; for their sake the others are not left with one."""
    tied = np.arange(REQUESTS) % 3 == 0
    program = program_of([0.0 if tied[k] else np.arange(1.0, WIDTH) for k in range(REQUESTS)])
    screening, y = Screening(program.store, 1, ProximalTuning()), np.zeros(program.store.rows.size)
    for _ in range(40):
        found = screening.price(y)
        columns = np.bincount(found.slot, minlength=REQUESTS)
        assert (columns[tied] == WIDTH).all() and (columns[~tied] >= 2).all()


def columns_at(found, own):
    """Return which columns each request got, as a matrix; none of them is its own."""
    chosen = np.zeros((REQUESTS, WIDTH), bool)
    chosen[found] = True
    assert not chosen[np.arange(REQUESTS), own].any()
    return chosen


@pytest.mark.parametrize(
    ("kind", "misses"),
    [
        ("few rows ask for load", 0),
        ("few rows ask for load", 1),
        ("few rows have too much", 0),
        ("few rows have too much", 1),
        ("all own rows do", 0),
    ],
)
def test_columns_for_a_violation_are_those_that_reduce_it_most(kind, misses):
    """A column of equal price does not reduce a violation here; among many equal ones a part is enough."""
    program, own = program_of(np.ones(REQUESTS)), np.arange(REQUESTS)
    violation = np.zeros(program.store.rows.size)
    if kind == "few rows ask for load":
        violation[-3:] = -1.0, -2.0, -3.0
    elif kind == "few rows have too much":
        violation[:2] = 1.0
    else:
        violation[:REQUESTS] = 1.0 + own / REQUESTS
    screening = Screening(program.store, 1, ProximalTuning())
    found = screening.missing(violation, misses, (own, own))
    relief = violation[own, np.newaxis] - violation  # column j of a request uses row j by 1
    chosen, most = columns_at(found, own), screening.tuning.wanted * 4**misses * REQUESTS
    assert chosen.any() and (relief[chosen] > 0.0).all()
    reduce = np.count_nonzero(relief > 0.0)
    assert np.count_nonzero(chosen) == min(most, reduce)
    assert (reduce > most) == (kind == "all own rows do")
    if reduce > most:
        assert relief[chosen].min() >= np.sort(relief, axis=None)[-most] - 1e-12


def test_all_columns_come_in_if_none_seems_to_reduce_a_violation():
    program, own = program_of(np.ones(REQUESTS)), np.arange(REQUESTS)
    slot, _ = Screening(program.store, 1, ProximalTuning()).missing(np.ones(WIDTH), 0, (own, own))
    assert slot.size == REQUESTS * WIDTH


@pytest.mark.parametrize("known", [0, 1, 2, 3])
def test_a_column_helps_if_the_known_ones_are_at_their_bounds(known):
    """Column 0 is cheapest, but a request needs two columns; it has none, or one, or the dear one, or two."""
    program = ContinualProgram()
    program.add_resources(range(WIDTH), upper=1.0)
    usage = {i: ([i], [1.0]) for i in range(WIDTH)}
    for k in range(REQUESTS):
        program.add_request(k, np.zeros(WIDTH), usage, total=1.0, relation="==", upper=0.5)
    violation = np.full(WIDTH, 2.0)
    violation[:2] = 0.0, 3.0
    each = {0: [], 1: [0], 2: [0, 1], 3: [0, 2]}[known]
    slot, column = np.repeat(np.arange(REQUESTS), len(each)), np.tile(each, REQUESTS).astype(np.int64)
    screening = Screening(program.store, 1, ProximalTuning())
    _, found = screening.missing(violation, 0, (slot, column))
    if known == 3:  # none is cheaper than the second one that a request takes
        assert found.size == REQUESTS * WIDTH
    else:
        assert found.size == screening.tuning.wanted * REQUESTS
        assert known == 0 or known == 1 or not (found == 1).any()
