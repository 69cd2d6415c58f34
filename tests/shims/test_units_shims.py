"""Shims choose the same in any units: costs, rows, flows, loads, sizes times powers of 2, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram, make_solver
from copter.errors import CopterError
from copter.shims.choose_one import ChooseOneShim
from copter.shims.flow import FlowShim
from copter.solution import Allocation, Start, Status, Timings, make_solution
from copter.store.allocation import SparseX
from support.amounts import examples

powers = st.integers(-30, 30).map(lambda k: 2.0**k)
seeds = st.integers(0, 2**32)


def packing(rng, relation, *, cost=1.0, rows=None, flow=1.0):
    """A packing program of a seed's numbers; costs, rows and columns in units of one's own."""
    count, columns, kinds = 30, 5, 4
    rows = np.ones(kinds) if rows is None else rows
    program = ContinualProgram()
    costs = -rng.uniform(0.1, 1.0, (count, columns))
    usage = rng.integers(1, 9, (kinds, count, columns)) * (rng.random((kinds, count, columns)) < 0.6)
    upper = usage.sum(axis=(1, 2)) / columns * rng.uniform(0.2, 0.8, kinds)
    totals = np.ones(count) if relation == "choice" else rng.uniform(0.5, 4.0, count)
    for i in range(kinds):
        program.add_resource(i, upper[i] * rows[i] * flow)
    for q in range(count):
        used = {i: usage[i, q] * rows[i] for i in range(kinds)}
        program.add_request(q, costs[q] * cost / flow, used, total=totals[q] * flow, relation="<=")
    return program


def same_answer(program, solution, *, cost=1.0, rows=None, flow=1.0):
    """The answer that a solution is of a program in other units."""
    x, y = solution.nonzeros, solution.y.copy()
    y *= cost / flow if rows is None else cost / flow / rows
    return make_solution(
        program,
        SparseX(x.slot, x.column, x.value * flow),
        y,
        status=Status.OPTIMAL,
        reason="",
        iterations=0,
        timings=Timings(),
        warm=Start(False, ""),
    )


@given(seed=seeds, cost=powers, rows=st.lists(powers, min_size=4, max_size=4))
@settings(max_examples=examples(60), deadline=None)
def test_choices_do_not_depend_on_units(seed, cost, rows):
    plain = packing(np.random.default_rng(seed), "choice")
    scaled = packing(np.random.default_rng(seed), "choice", cost=cost, rows=np.array(rows))
    solution = make_solver("highs-simplex").solve(plain)
    expected = ChooseOneShim().round(plain, same_answer(plain, solution))
    given = ChooseOneShim().round(scaled, same_answer(scaled, solution, cost=cost, rows=np.array(rows)))
    assert given.choice == expected.choice
    assert (given.objective, given.gap) == pytest.approx((expected.objective * cost, expected.gap))


@given(seed=seeds, noise=st.sampled_from([0.0, 0.3]), cost=powers, flow=powers, row=powers)
@settings(max_examples=examples(60), deadline=None)
def test_flows_do_not_depend_on_units(seed, noise, cost, flow, row):
    rows = row ** np.arange(-1.0, 1.0, 0.5).round()
    plain = packing(np.random.default_rng(seed), "flow")
    units = {"cost": cost, "rows": rows, "flow": flow}
    scaled = packing(np.random.default_rng(seed), "flow", **units)
    solution = make_solver("highs-simplex").solve(plain)
    x = solution.nonzeros
    more = 1.0 + noise * np.random.default_rng(seed).random(x.value.size)
    solution = replace(solution, x=Allocation.of(plain, x._replace(value=x.value * more)))
    expected = FlowShim().round(plain, same_answer(plain, solution))
    given = FlowShim().round(scaled, same_answer(scaled, solution, **units))
    np.testing.assert_allclose(given.nonzeros.value, expected.nonzeros.value * flow, rtol=1e-12)
    assert np.array_equal(given.nonzeros.slot, expected.nonzeros.slot)
    assert given.gap == pytest.approx(expected.gap, rel=1e-6, abs=1e-12)


def test_dropped_resources_may_have_had_any_coefficients():
    program = ContinualProgram()
    for name in ("there", "gone"):
        program.add_resource(name, 3.0)
    for q in range(4):
        program.add_request(q, [-1.0, -2.0], {"there": [1.0, 2.0], "gone": [-1.0, 1.0]}, total=1.0)
    solution = make_solver("highs-simplex").solve(program)
    for shim in (ChooseOneShim(), FlowShim()):
        with pytest.raises(CopterError, match="negative coefficient"):
            shim.round(program, solution)
    program.remove_resources("gone")
    solution = make_solver("highs-simplex").solve(program)
    assert ChooseOneShim().round(program, solution).objective == -4.0 + 1.0
    assert FlowShim().round(program, solution).load[program.resource_slots].tolist() == [3.0]
