"""Inactive requests are a value: states, copies and answers stay what they were, whatever happens later."""

from dataclasses import replace

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, Status
from copter.solvers.proximal.full_pass import FullPass
from support.audit import Audited

WIDTH, ROWS = 10, 4


def new_costs(rng, count=1):
    return -rng.uniform(0.1, 1.0, WIDTH * count)


def build(requests=1000, seed=0, idle=0):
    """Requests of ten shared columns; ``idle`` columns of a handle that nothing uses lie before them."""
    rng, program = np.random.default_rng(seed), ContinualProgram()
    program.add_resources(range(ROWS), upper=0.2 * requests)
    unused = program.share_columns({row: rng.random(idle) for row in range(ROWS)}, idle) if idle else None
    shared = program.share_columns({row: rng.uniform(0.5, 1.5, WIDTH) for row in range(ROWS)}, WIDTH)
    costs, widths = new_costs(rng, requests), [WIDTH] * requests
    program.add_requests(range(requests), costs, widths, shared, totals=1.0)
    return program, rng, unused


def partial(solution):
    """Whether a round read its active requests only; it says one thing or the other."""
    assert ("open_requests" in solution.details) != ("full_pass" in solution.details)
    return "open_requests" in solution.details


def warm(program, rng, solver=None):
    """Rounds of one change until two in a row read active requests only."""
    solver, in_a_row = solver or ProximalPoint(), 0
    for _ in range(20):
        in_a_row = in_a_row + 1 if partial(solver.solve(program)) else 0
        if in_a_row == 2:
            return solver
        program.update_request(0, costs=new_costs(rng))
    raise AssertionError("no request became inactive")


def cold(program):
    return ProximalPoint().solve(program)


def values(solution):
    return {id: solution.x[id].copy() for id in solution.x}


def check(program, solution):
    """An optimum: rows are met and the objective is that of a cold solve, by what x really uses and costs."""
    assert solution.status is Status.OPTIMAL
    used, cost = np.zeros(ROWS), 0.0
    for id, x in solution.x.items():
        request = program.requests[id]
        cost += float(request.costs @ x)
        for row, (columns, coefficients) in request.usage.items():
            if row in range(ROWS):
                used[row] += float(coefficients @ x[columns])
    upper = np.array([program.resources[row].upper for row in range(ROWS)])
    assert (used <= upper * (1 + 2e-6)).all()
    assert cost == pytest.approx(solution.objective, rel=1e-9)
    assert solution.objective == pytest.approx(cold(program).objective, rel=3e-6)


# ---- edits -------------------------------------------------------------------------------------------


def test_a_handle_is_forgotten_in_the_middle():
    """Its columns move all others together in memory: what inactive requests have must not be read there."""
    program, rng, unused = build(3_000, idle=60_000)
    solver, used = warm(program, rng, Audited()), program.store.entries.used
    program.forget(unused)
    assert program.store.entries.used < used / 2
    served = [id for id in range(1_000, 3_000) if solver._state.inactive.of(program.slot_of[id])[1].size]
    for id in served[:3]:
        program.update_request(id, scale=1.01)
    solution = solver.solve(program)
    assert partial(solution)
    check(program, solution)


def test_a_resource_takes_the_place_of_one_that_was_removed():
    program, rng, _ = build()
    program.add_resources([("old", k) for k in range(70)], upper=1.0)
    solver, rows = warm(program, rng), program.store.rows.size
    program.remove_resources([3, *(("old", k) for k in range(70))])
    program.add_resources([3, "new"], upper=150.0)
    assert program.store.rows.size == rows
    program.update_request(7, costs=[-5.0], usage={3: [1.0]})
    solution = solver.solve(program)
    assert solution.details["full_pass"] is FullPass.ROWS_REUSED
    assert solution.objective == pytest.approx(cold(program).objective, rel=3e-6)


def test_unlucky_rounds_are_forgotten_soon():
    program, rng, _ = build()
    solver = ProximalPoint()
    for number in range(60):  # every second round changes most of the program
        if number % 2:
            program.update_requests(range(600), scales=rng.uniform(0.8, 1.2, 600))
        else:
            program.update_request(int(rng.integers(1000)), costs=new_costs(rng))
        solver.solve(program)
    read_all = []
    for _ in range(30):
        program.update_request(int(rng.integers(1000)), costs=new_costs(rng))
        solution = solver.solve(program)
        if not partial(solution):
            read_all.append(solution.details["full_pass"])
    assert len(read_all) <= 10
    assert FullPass.WAITING in read_all


# ---- states ------------------------------------------------------------------------------------------


def arrays_of(state):
    """All that a state has, by name, as copies."""
    inactive = {} if state.inactive is None else state.inactive.to_arrays("inactive")
    found = {**inactive, **state.x.to_arrays("x"), **state.y.to_arrays()}
    return {name: np.array(value, copy=True) for name, value in found.items()}


def test_remainders_are_the_same_after_prices_moved(tmp_path):
    """A column that gets what the full ones leave has a value that does not depend on their order."""
    rng, program, requests = np.random.default_rng(0), ContinualProgram(), 1100
    program.add_resources(range(ROWS), upper=150.0)
    for number in range(requests):
        usage = {row: rng.uniform(0.3, 1.5, WIDTH) * (rng.random(WIDTH) < 0.4) for row in range(ROWS)}
        upper = rng.uniform(0.05, 0.6, WIDTH)
        program.add_request(number, new_costs(rng), usage, total=1.0, upper=upper)
    solver, few = Audited(tolerance=1e-5), 0
    for number in range(12):
        few += partial(solver.solve(program))
        program.save(tmp_path / "program", solver)
        ContinualProgram.load(tmp_path / "program", Audited(tolerance=1e-5))
        program.update_request(number, costs=new_costs(rng))
        program.update_resources(number % ROWS, upper=150.0 * rng.uniform(0.99, 1.01))
    assert few >= 8


def test_every_field_of_a_state_is_saved():
    program, rng, _ = build()
    solver = warm(program, rng)
    program.update_request(3, costs=new_costs(rng))
    solver.solve(program)
    state = replace(solver._state, misses=2, wait=3)
    again = type(state).from_arrays(program, state.to_arrays(program))
    for name in ("slack", "revision", "full_pass", "misses", "wait"):
        assert getattr(again, name) == getattr(state, name), name
    assert state.to_arrays(build()[0]) is None  # another program
    saved = arrays_of(again)
    assert saved.keys() == arrays_of(state).keys()
    for name, array in arrays_of(state).items():
        np.testing.assert_array_equal(array, saved[name])


# ---- why all columns are read ------------------------------------------------------------------------


def test_labels_of_reasons_are_found_again():
    assert [FullPass.of(member.value) for member in FullPass] == list(FullPass)
    with pytest.raises(ValueError, match="full_pass = 'none': must be one of"):
        FullPass.of("none")
