"""Best vertices and margins against brute force, and paths that are never shorter than the way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from copter import ContinualProgram
from copter.proof.margins import best_vertices, lengthen
from copter.store.store import EXACTLY
from copter.store.view import view_of

ROWS = 3


def program_of(rng, kind, width) -> ContinualProgram:
    """One request of a kind, on shared columns; costs on a coarse grid, so that some prices are equal."""
    program = ContinualProgram()
    for row in range(ROWS):
        program.add_resource(row, 10.0)
    usage = {row: rng.integers(-2, 3, width).astype(float) for row in range(ROWS)}
    shared = program.share_columns(usage, width)
    given = {
        "at most": {"total": 2.0},
        "exactly": {"total": 2.0, "relation": "=="},
        "boxes": {"upper": rng.integers(0, 3, width).astype(float)},
        "bounded": {"total": 2.0, "upper": rng.integers(0, 3, width).astype(float)},
        "bounded exactly": {"total": 2.0, "upper": rng.integers(1, 3, width).astype(float), "relation": "=="},
    }[kind]
    for number in range(5):
        program.add_request(number, rng.integers(-3, 4, width) / 2.0, shared, **given)
    return program


def best_by_highs(store, slot, p) -> float:
    table, n = store.requests, p.size
    bounds = [(0, upper if np.isfinite(upper) else None) for upper in store.upper_bounds(slot)]
    total = table.total[slot]
    ones = np.ones((1, n))
    sums = {} if not np.isfinite(total) else {"A_ub": ones, "b_ub": [total]}
    if sums and table.relation[slot] == EXACTLY:
        sums = {"A_eq": ones, "b_eq": [total]}
    found = linprog(p, bounds=bounds, **sums)
    return found.fun if found.status == 0 else np.nan


@pytest.mark.parametrize("kind", ["at most", "exactly", "boxes", "bounded", "bounded exactly"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_vertices_are_the_best_and_stay_so_within_their_margins(kind, seed):
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 6))
    program = program_of(rng, kind, width)
    store, view = program.store, view_of(program.store)
    slots, first, one = np.arange(5), np.ones(5, np.int64), np.ones(1, np.int64)
    y = rng.integers(-2, 3, ROWS) / 4.0
    margin, group, counts, column, value = best_vertices(view, y, slots, first)
    ends = counts.cumsum()
    path = np.zeros(2 * width + 3)
    now = y
    for _ in range(6):
        d = rng.normal(0.0, 0.2, ROWS) * (rng.random(ROWS) < 0.7)
        n_columns = store.usages.n_columns[:1]
        before = path.copy()
        most = lengthen(view, np.zeros(1, np.int64), n_columns, one, np.zeros(ROWS), d, path)
        assert (path >= before).all()
        assert (path[1:] - before[1:] <= most + 1e-12).all()
        now = now + d
        for k in range(5):
            p = store.priced_columns(k, now)
            mine = slice(ends[k] - counts[k], ends[k])
            cost, best = p[column[mine]] @ value[mine], best_by_highs(store, k, p)
            if np.isnan(best):
                assert not margin[k] > 0.0 or np.isinf(margin[k])
            elif margin[k] > path[group[k]]:
                assert cost == pytest.approx(best, abs=1e-9)


def test_equal_prices_leave_no_margin():
    program = ContinualProgram()
    program.add_resource(0, 10.0)
    program.add_request("tie", [-1.0, -1.0], {0: [1.0, 1.0]}, total=1.0)
    program.add_request("nothing is as good", [0.0, 1.0], {0: [1.0, 1.0]}, total=1.0)
    program.add_request("clear", [-1.0, -0.5], {0: [1.0, 1.0]}, total=1.0)
    margin, *_ = best_vertices(view_of(program.store), np.zeros(1), np.arange(3), np.full(3, -1))
    assert margin[0] <= 0.0
    assert margin[1] <= 0.0
    assert 0.499 < margin[2] <= 0.5
