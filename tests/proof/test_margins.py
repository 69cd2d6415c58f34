"""Best vertices and margins against brute force, and paths that are never shorter than the way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from copter import ContinualProgram
from copter.proof.margins import OWN_COLUMNS, best_vertices, lengthen, widen
from copter.proof.usage_prices import NO_USAGE_PRICES, usage_prices
from copter.store.view import view_of
from support.amounts import examples, longer

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


def reach_of(view, slots):
    """The range of the coefficients of each row, with 0 included."""
    low, high = np.zeros(ROWS), np.zeros(ROWS)
    widen(view, slots, low, high)
    return high - low


def best_by_highs(store, slot, p) -> float:
    table, n = store.requests, p.size
    bounds = [(0, upper if np.isfinite(upper) else None) for upper in store.upper_bounds(slot)]
    total = table.total[slot]
    ones = np.ones((1, n))
    sums = {} if not np.isfinite(total) else {"A_ub": ones, "b_ub": [total]}
    if sums and table.exact[slot]:
        sums = {"A_eq": ones, "b_eq": [total]}
    found = linprog(p, bounds=bounds, **sums)
    return found.fun if found.status == 0 else np.nan


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["at most", "exactly", "boxes", "bounded", "bounded exactly"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=examples(25))
def test_vertices_are_the_best_and_stay_so_within_their_margins(kind, shared, seed):
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 6))
    program = program_of(rng, kind, width)
    store, view = program.store, view_of(program.store)
    slots, one = np.arange(5), np.ones(1, np.int64)
    first, reach = np.full(5, 1 if shared else -1), reach_of(view, np.arange(5))
    y = rng.integers(-2, 3, ROWS) / 4.0
    margin, group, counts, column, value = best_vertices(view, y, NO_USAGE_PRICES, slots, first, reach)
    ends = counts.cumsum()
    path = np.zeros(2 * width + 3)
    now = y
    for _ in range(6):
        d = rng.normal(0.0, 0.2, ROWS) * (rng.random(ROWS) < 0.7)
        n_columns = store.usages.n_columns[:1]
        before = path.copy()
        most = lengthen(view, np.zeros(1, np.int64), n_columns, one, reach, d, path)
        assert (path >= before).all()
        assert (path - before <= most + 1e-12).all()
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
    view, slots = view_of(program.store), np.arange(3)
    margin, *_ = best_vertices(view, np.zeros(1), NO_USAGE_PRICES, slots, np.full(3, -1), np.ones(1))
    assert margin[0] <= 0.0
    assert margin[1] <= 0.0
    assert 0.249 < margin[2] <= 0.25  # two columns of size 1 approach each other


def test_a_margin_of_own_columns_is_relative_to_the_coefficients_of_the_two_columns():
    program = ContinualProgram()
    for row, bound in enumerate((10.0, 10.0)):
        program.add_resource(row, bound)
    usage = {0: [4.0, 0.0, 1.0], 1: [0.0, 4.0, 8.0]}
    program.add_request("q", [-3.0, -2.0, 6.0], usage, total=1.0, relation="==")
    program.add_request("small ones", [-3.0, -2.0], {0: [0.0, 1.0]}, total=1.0, relation="==")
    program.add_request("no choice", [-1.0], {0: [1.0]}, total=1.0, relation="==")
    view, slots, reach = view_of(program.store), np.arange(3), np.array([4.0, 8.0])
    margin, *_ = best_vertices(view, np.zeros(2), NO_USAGE_PRICES, slots, np.full(3, -1), reach)
    # sizes 4 / 4, 4 / 8 and 1 / 4 + 8 / 8; differences to the first column 1 and 9
    assert margin[0] == pytest.approx(min(1.0 / (1.0 + 0.5), 9.0 / (1.0 + 1.25)))
    assert margin[1] == pytest.approx(1.0)
    assert margin[2] == np.inf


def exchanges(p, x, upper, total, relation):
    """Change of the cost, a unit, for every way to leave a vertex along one column or from one to another."""
    more = [j for j in range(p.size) if x[j] < upper[j]]
    less = [j for j in range(p.size) if x[j] > 0.0]
    yield from (p[j] - p[k] for j in more for k in less if j != k and relation is not None)
    if relation != "==":
        yield from (-p[k] for k in less)
    if relation is None or (relation == "<=" and x.sum() < total):
        yield from (p[j] for j in more)


def kind_of_group(x, upper, total, relation):
    """A group of n shared columns, counted from the first one; see the module's head."""
    n, (columns,) = x.size, np.nonzero(x)
    if relation is None or total == 0.0 or (upper < total).any():
        return 2 * n + 1
    if not columns.size:
        return 2 * n
    return columns[0] + (n if relation == "<=" else 0)


@pytest.mark.parametrize("relation", [None, "<=", "=="])
@pytest.mark.parametrize("limit", ["none", "own", "shared"])
@pytest.mark.parametrize("count", [120, longer(400)])
def test_a_margin_is_the_least_that_leaving_the_vertex_costs(relation, limit, count):
    rng, clear, ties, forced = np.random.default_rng(7), 0, 0, 0
    kinds, far = set(), 9.0 if relation is None else np.inf
    for _ in range(count):
        width = int(rng.integers(1, 6))
        program = ContinualProgram()
        for row in range(ROWS):
            program.add_resource(row, 10.0)
        shared = program.share_columns({row: rng.integers(-2, 3, width) / 4.0 for row in range(ROWS)}, width)
        upper = {
            "none": far,
            "own": rng.choice([0.0, 0.5, 1.0, 2.0, far], width),
            "shared": float(rng.choice([0.25, 1.0, 3.0])),
        }[limit]
        total = float(rng.choice([0.0, 1.0, 2.0]))
        if relation == "==":
            total = min(total, float(np.broadcast_to(upper, width).sum()))
        sums = {} if relation is None else {"total": total, "relation": relation}
        program.add_request("q", rng.integers(-4, 5, width) / 4.0, shared, upper=upper, **sums)
        y = rng.integers(-3, 4, ROWS) / 2.0
        ours = bool(rng.integers(2))
        view, one, first = view_of(program.store), np.zeros(1, np.int64), np.array([3 if ours else -1])
        reach = reach_of(view, one)
        margin, group, count, column, value = best_vertices(view, y, NO_USAGE_PRICES, one, first, reach)
        x, p = np.zeros(width), program.store.priced_columns(0, y)
        x[column] = value
        bounds = program.store.upper_bounds(0)
        assert count[0] == np.count_nonzero(x)
        assert (x >= 0.0).all() and (x <= bounds).all()
        assert relation is None or x.sum() <= total and (relation == "<=" or x.sum() == total)
        least = (
            np.inf
            if relation is not None and total == 0.0
            else min(exchanges(p, x, bounds, total, relation), default=np.inf)
        )
        assert least >= 0.0  # no exchange gains: the vertex is a best one
        assert margin[0] <= least
        if ours or np.isinf(least):
            assert margin[0] == least if np.isinf(least) else margin[0] > least - 1e-12
        else:
            assert (margin[0] > 0.0) == (least > 0.0)
        clear, ties, forced = clear + (0.0 < least < np.inf), ties + (least == 0.0), forced + np.isinf(least)
        if least > 0.0:
            own = np.ndim(upper) > 0  # bounds of single columns: any of them may be the one that counts
            kind = 2 * width + 1 if own else kind_of_group(x, bounds, total, relation)
            assert group[0] == (3 + kind if ours else OWN_COLUMNS)
            kinds.add(min(2, 2 * width + 1 - kind) if ours else 3)
    assert clear > 0.15 * count and ties > count / 80
    assert forced > count / 40 or relation is None
    assert kinds >= {0, 3}
    assert 2 in kinds or relation is None or limit == "own"


@pytest.mark.parametrize("kind", ["at most", "exactly", "boxes", "bounded", "bounded exactly"])
def test_many_columns_give_the_vertices_of_a_plain_computation(kind):
    """Widths on both sides of a strip; shared prices or each request's own; costs with overrides."""
    rng, overridden, empty, seen = np.random.default_rng(3), 0, 0, set()
    for number in range(60):
        width = int(rng.choice([1, 63, 64, 65, 200]))
        program = program_of(rng, kind, width)
        if number % 2:
            costs = rng.integers(-300, 400, width) / 256.0
            for q in range(5):
                some = {int(j): float(rng.integers(-2, 3)) for j in rng.integers(0, width, rng.integers(3))}
                program.update_request(q, costs=costs, scale=float(rng.integers(1, 4)), override=some)
                overridden += len(some) > 0
        store, slots, first = program.store, np.arange(5), np.array([7, -1, 7, 7, -1])
        view, y, usages = view_of(store), rng.integers(-2, 3, ROWS) / 4.0, store.usages
        known = usages.references[: usages.size], usages.n_columns[: usages.size]
        reach = reach_of(view, slots)
        own = best_vertices(view, y, NO_USAGE_PRICES, slots, first, reach)
        shared = best_vertices(view, y, usage_prices(view, y, *known), slots, first, reach)
        for mine, other in zip(own, shared, strict=True):
            np.testing.assert_array_equal(mine, other)
        if kind not in ("at most", "exactly"):
            continue
        margin, group, count, column, _ = own
        for q in range(5):
            p = store.priced_columns(q, y)
            order = np.sort(np.append(p, 0.0) if kind == "at most" else p)
            least = order[1] - order[0] if order.size > 1 else np.inf
            if first[q] < 0:
                assert (margin[q] > 0.0) == (least > 0.0)
            else:
                assert margin[q] == least if np.isinf(least) else least - 1e-12 < margin[q] <= least
            if margin[q] > 0.0:
                nothing = kind == "at most" and p.min() > 0.0
                best = 2 * width if nothing else int(p.argmin()) + (width if kind == "at most" else 0)
                assert group[q] == (first[q] + best if first[q] >= 0 else OWN_COLUMNS)
                assert count[q] == (0 if nothing else 1)
                assert nothing or column[count[:q].sum()] == p.argmin()
                seen.add((width, nothing))
                empty += nothing
    assert overridden > 40
    if kind == "exactly":
        assert {width for width, _ in seen} == {1, 63, 64, 65, 200}
    if kind == "at most":
        assert {width for width, nothing in seen if not nothing} == {1, 63, 64, 65, 200} and empty > 2
