"""What requests choose at given prices, against prices computed column by column; and what mends do."""

import copy
import pickle

import numpy as np
import pytest
from scipy.sparse import random_array

from copter import ContinualProgram, Journal, ProximalPoint, make_solver
from copter.errors import CopterError
from copter.proof.pricing import price
from copter.solvers.proximal.partial import Choices
from copter.solvers.proximal.tuning import PartialTuning, ProximalTuning
from copter.store.allocation import SparseX, row_activity

ROWS, REQUESTS = 60, 300
ALWAYS = ProximalTuning(partial=PartialTuning(columns_from=0))
"""Partial steps in small programs too."""


def packing(seed, unit=1.0, relation="<="):
    """Demands over more rows than partial steps need, more than these can carry; ``unit`` of all flows."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    for row in range(ROWS):
        program.add_resource(row, upper=unit * float(rng.uniform(0.2, 1.0) * REQUESTS / ROWS))
    sizes = rng.integers(1, 4, REQUESTS)
    usage = random_array((ROWS, int(sizes.sum())), density=0.1, rng=rng, format="csc")
    usage.data[:] = 1.0
    totals = rng.pareto(1.0, REQUESTS) + 0.05  # few large ones among many small
    program.add_requests(
        range(REQUESTS), -rng.uniform(0.5, 1.0, int(sizes.sum())), sizes, usage, totals=unit * totals,
        relation=relation,
    )  # fmt: skip
    return program, totals


def choices_of(program, y, seen=None):
    store = program.store
    seen = np.ones(store.rows.size, bool) if seen is None else seen
    return Choices.of(store, y, price(store, y, slack=np.inf), seen, None)


def used(program, slot):
    """What a unit of each column of a request uses of the rows, in all."""
    n = program.requests[slot].costs.size
    return row_activity(program.store, SparseX(np.full(n, slot), np.arange(n), np.ones(n)))


@pytest.mark.parametrize("relation", ["<=", "=="])
@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_the_cheapest_column_and_the_margin_how_much_more_the_next_costs(seed, relation):
    program, _ = packing(seed, relation=relation)
    y = np.random.default_rng(seed).uniform(0.0, 0.6, ROWS)
    found = choices_of(program, y)
    for slot in range(REQUESTS):
        prices = program.store.priced_columns(slot, y)
        options = np.append(prices, 0.0) if relation == "<=" else prices
        best = int(options.argmin())
        assert found.column[slot] == (-1 if best == prices.size else best)
        others = np.delete(options, best)
        if not others.size or not used(program, slot).any():
            assert found.margin[slot] == np.inf
            continue
        made_up_of = (
            2 * abs(program.requests[slot].costs) + prices
        )  # |c| + a'y of costs < 0 and coefficients of 1
        assert found.margin[slot] == pytest.approx(
            (others.min() - options[best]) / made_up_of.max(), abs=1e-12
        )


def test_who_uses_no_row_that_matters_has_no_other_choice():
    program, _ = packing(5)
    y = np.random.default_rng(5).uniform(0.0, 0.6, ROWS)
    seen = np.zeros(ROWS, bool)
    seen[:3] = True
    among, everything = choices_of(program, y, seen), choices_of(program, y)
    np.testing.assert_array_equal(among.column, everything.column)
    concerned = np.array([used(program, slot)[:3].any() for slot in range(REQUESTS)])
    assert np.isinf(among.margin[~concerned]).all()
    np.testing.assert_array_equal(among.margin[concerned], everything.margin[concerned])


def test_boxes_and_columns_with_bounds_have_no_single_choice():
    program, _ = packing(6)
    program.add_request("box", [-1.0], {0: [1.0]}, upper=1.0)
    program.add_request("bounded", [-1.0, -0.5], {0: [1.0, 1.0]}, total=2.0, upper=[1.0, 2.0])
    found = choices_of(program, np.zeros(ROWS))
    slots = [program.slot_of[id] for id in ("box", "bounded")]
    assert found.column[slots].tolist() == [-2, -2]
    assert found.nearest(0)[slots].all()  # so they are always near


@pytest.mark.parametrize("count", [0, 1, 7, REQUESTS - 1, REQUESTS, REQUESTS + 5])
def test_as_many_are_nearest_as_are_asked_for_and_those_that_are_as_near(count):
    margin = np.random.default_rng(7).permutation(REQUESTS) + 1.0
    column = np.zeros(REQUESTS, np.int64)
    near = Choices(column, margin).nearest(count)
    assert near.sum() == min(count, REQUESTS) and (margin[near] <= count).all()
    tied = Choices(column, np.floor(margin / 4.0) + 1.0)
    limit = np.sort(tied.margin)[min(count, REQUESTS) - 1] if count else 0.0
    assert (tied.nearest(count) == (tied.margin <= limit)).all()


def cut(program, x, y):
    """Feasible flow: every request scaled by the worst of its rows."""
    over = row_activity(program.store, x) / program.store.rows.upper[:ROWS]
    worst = np.array([
        (over * (row_activity(program.store, SparseX(*(part[k : k + 1] for part in x))) > 0)).max(initial=1.0)
        for k in range(x.slot.size)
    ])  # fmt: skip
    return x._replace(value=x.value / worst)


@pytest.mark.parametrize("seed", range(3))
def test_what_a_program_mends_is_certified_like_any_answer(seed):
    program, totals = packing(seed)
    program.primal_repair = cut
    solver, reference = (
        ProximalPoint(tolerance=1e-3, tuning=ALWAYS),
        make_solver("highs-simplex", tolerance=1e-9),
    )
    rng = np.random.default_rng(seed)
    for _ in range(4):
        solution, best = solver.solve(program), reference.solve(program)
        assert solution.is_optimal(1e-3)
        assert solution.bound <= best.objective * (1.0 - 1e-9)
        assert solution.objective == pytest.approx(best.objective, rel=2e-3)
        program.update_requests(range(REQUESTS), totals=totals * rng.uniform(0.7, 1.3, REQUESTS))


def refuses(program, x, y):
    raise CopterError("nothing that I know how to primal_repair")


RETURNED = {
    "refuses": refuses,
    "not ascending": lambda program, x, y: SparseX(*(part[::-1] for part in x)),
    "twice": lambda program, x, y: SparseX(*(np.repeat(part, 2) for part in x)),
    "slot": lambda program, x, y: x._replace(slot=x.slot + 10 * REQUESTS),
    "column": lambda program, x, y: x._replace(column=x.column + 10**6),
    "negative": lambda program, x, y: x._replace(column=x.column - 10),
    "finite": lambda program, x, y: x._replace(value=np.full(x.value.size, np.nan)),
    "lengths": lambda program, x, y: x._replace(value=x.value[:-1]),
    "kinds": lambda program, x, y: x._replace(slot=x.slot.astype(float)),
}


@pytest.mark.parametrize("how", RETURNED)
def test_a_mend_that_fails_is_left_out_of_the_solve(how, caplog):
    calls = []

    def primal_repair(program, x, y):
        calls.append(x)
        return RETURNED[how](program, x, y)

    program, totals = packing(1)
    program.primal_repair = primal_repair
    solver = ProximalPoint(inner="newton", tolerance=1e-4, tuning=ALWAYS)
    for rounds, scale in enumerate((1.0, 1.5, 0.7)):  # the first begins cold and comes to no primal_repair
        program.update_requests(range(REQUESTS), totals=scale * totals)
        solution = solver.solve(program)
        assert solution.is_optimal(1e-4)
        assert len(calls) == rounds  # asked again in the next solve
    assert caplog.text.count("primal_repair failed, and is not used again in this solve") == 2
    reference = make_solver("highs-simplex", tolerance=1e-9).solve(program)
    assert solution.objective == pytest.approx(reference.objective, rel=1e-3)


@pytest.mark.parametrize("kind", [ContinualProgram, Journal])
def test_a_mend_is_copied_but_not_pickled(kind, tmp_path):
    program = ContinualProgram() if kind is ContinualProgram else Journal(tmp_path / "journal")
    program.primal_repair = lambda program, x, y: x
    assert copy.deepcopy(program).primal_repair is program.primal_repair
    assert pickle.loads(pickle.dumps(program)).primal_repair is None
    assert program.primal_repair is not None
