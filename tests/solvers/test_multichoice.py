"""Dynamic programming on what fixing leaves, against all combinations."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

from copter.models.linear_program import LinearProgram
from copter.solvers.exact.multichoice import choose
from copter.solvers.exact.rest import ResidualMilp
from support.amounts import examples


def rest_of(columns, capacity, price, abstain=(), alone=()):
    """A rest: ``columns`` as (request, cost, use of each row); rows with a price have a slack."""
    k, rows = len(columns), len(capacity)
    slot = np.array([request for request, _, _ in columns])
    owners = [q for q in np.unique(slot) if q not in alone]
    paid = np.flatnonzero(price)
    dense = np.zeros((rows + len(owners), k + paid.size))
    for j, (request, _, use) in enumerate(columns):
        dense[:rows, j] = use
        if request in owners:
            dense[rows + owners.index(request), j] = 1.0
    for s, i in enumerate(paid):
        dense[i, k + s] = 1.0
    lower = [0.0 if q in abstain else 1.0 for q in owners]
    lp = LinearProgram(
        c=np.concatenate(([cost for _, cost, _ in columns], np.asarray(price, float)[paid])),
        lower=np.concatenate(([1.0 if q in alone else 0.0 for q in slot], np.zeros(paid.size))),
        upper=np.concatenate((np.ones(k), np.full(paid.size, np.inf))),
        A=csc_array(dense),
        row_lower=np.concatenate((np.where(np.asarray(price) > 0, capacity, -np.inf), lower)),
        row_upper=np.concatenate((np.asarray(capacity, float), np.ones(len(owners)))),
        offset=3.0,
        integral=np.concatenate((np.ones(k, bool), np.zeros(paid.size, bool))),
    )
    return ResidualMilp(lp, slot, np.arange(k), rows)


def best_by_hand(columns, capacity, price, abstain=()):
    """Least cost over all combinations, infinite if none fits."""
    requests = sorted({request for request, _, _ in columns})
    options = [[c for c in columns if c[0] == q] + ([None] if q in abstain else []) for q in requests]
    best = np.inf
    for combination in itertools.product(*options):
        taken = [each for each in combination if each is not None]
        left = np.asarray(capacity, float) - sum(
            (np.asarray(use) for _, _, use in taken), np.zeros(len(capacity))
        )
        if (left >= 0.0).all():
            best = min(best, 3.0 + sum(cost for _, cost, _ in taken) + float(left @ price))
    return best


@st.composite
def instances(draw):
    rows = draw(st.integers(1, 3))
    grain = draw(st.sampled_from([1.0, 0.5, 0.125, 3.0]))
    use = st.lists(st.integers(0, 5), min_size=rows, max_size=rows)
    columns = [
        (q, float(draw(st.integers(0, 60))), [grain * each for each in draw(use)])
        for q in range(draw(st.integers(1, 5)))
        for _ in range(draw(st.integers(1, 4)))
    ]
    capacity = [grain * draw(st.integers(0, 14)) for _ in range(rows)]
    price = [float(draw(st.integers(0, 20))) for _ in range(rows)]
    abstain = draw(st.sets(st.integers(0, 4)))
    return columns, capacity, np.array(price), abstain


@settings(deadline=None, max_examples=examples(400))
@given(instances(), st.sampled_from([np.inf, 500.0, 60.0, 20.0]))
def test_it_finds_the_best_combination_below_what_is_known(instance, known):
    columns, capacity, price, abstain = instance
    rest, best = rest_of(*instance), best_by_hand(columns, capacity, price, abstain)
    found = choose(rest, known)
    assert found is not None
    x, bound = found
    if best >= known or best == np.inf:
        assert x is None and bound >= min(known, best) - 1e-6
        return
    assert bound == pytest.approx(best)
    assert float(rest.lp.c @ x) + rest.lp.offset == pytest.approx(best)
    activity = rest.lp.A @ x
    assert (activity <= rest.lp.row_upper + 1e-9).all() and (activity >= rest.lp.row_lower - 1e-9).all()
    assert np.isin(x[: len(columns)], (0.0, 1.0)).all()


def test_columns_that_must_be_taken_use_their_rows():
    columns = [(0, 0.0, [3.0]), (1, 1.0, [2.0]), (1, 5.0, [1.0])]
    x, bound = choose(rest_of(columns, [4.0], np.array([0.0]), alone=(0,)), np.inf)
    assert x.tolist() == [1.0, 0.0, 1.0] and bound == 8.0
    assert choose(rest_of(columns, [2.0], np.array([0.0]), alone=(0,)), np.inf) == (None, np.inf)


@pytest.mark.parametrize("use", [1.0 / 3.0, -1.0])
def test_other_coefficients_are_left_to_branch_and_bound(use):
    columns = [(0, 0.0, [use]), (0, 1.0, [1.0]), (1, 2.0, [1.0]), (1, 0.0, [2.0])]
    assert choose(rest_of(columns, [2.0], np.array([0.0])), np.inf) is None


def test_columns_that_need_not_be_whole_are_left_to_branch_and_bound():
    rest = rest_of([(0, 0.0, [1.0]), (0, 1.0, [2.0])], [2.0], np.array([0.0]))
    rest.lp.integral[0] = False
    assert choose(rest, np.inf) is None
