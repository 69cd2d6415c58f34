"""The next solve begins with the values of the columns that stay, and its answer is that of a new program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, make_solver
from copter.solvers.proximal.tuning import LazyTuning, ProximalTuning
from copter.store.edit import Moved
from support.in_parts import made

TIGHT = 1e-6
SMALL = LazyTuning(requests_from=5, columns_from=5, most_touched=0.9, most_open=0.9)


def drivers(q, n):
    return [f"driver {q}.{j}" for j in range(n)]


def build(program, requests=60, n=5, seed=4):
    """Rides that compete for areas, so that many of them are split over columns."""
    rng = np.random.default_rng(seed)
    program.add_resources(range(6), upper=0.55 * requests)
    for q in range(requests):
        usage = {r: rng.uniform(0.2, 1.0, n) for r in range(6)}
        program.add_request(
            q, -rng.uniform(1.0, 2.0, n), usage, total=1, relation="==", columns=drivers(q, n)
        )
    return program


def anew(program):
    """A program with the same content, and HiGHS' optimum of it."""
    twin = ContinualProgram()
    twin.add_resources(**vars(program.resources[:]))
    twin.add_requests(**(vars(program.requests[:]) | {"starts": None}))
    return make_solver("highs-simplex").solve(twin).objective


def far(x, y):
    """Largest difference of two mappings by name."""
    return max(abs(x.get(name, 0.0) - y.get(name, 0.0)) for name in {*x, *y})


@pytest.fixture(params=["whole", "in parts", "active only"])
def solved(request):
    """A program and its solver after two rounds."""
    program = build(made(3 if request.param == "in parts" else 0, ContinualProgram))
    tuning = replace(ProximalTuning(), lazy=SMALL) if request.param == "active only" else ProximalTuning()
    solver = ProximalPoint(tolerance=TIGHT, tuning=tuning)
    for _ in range(3):
        solution = solver.solve(program)
    assert ("open_requests" in solution.details) == (request.param == "active only")
    return program, solver, solution


def test_an_irrelevant_column_changes_nothing(solved):
    program, solver, before = solved
    touched = [q for q in range(60) if (before.x.nonzeros(q)[1] < 0.999).any()][:4]
    assert touched
    program.add_columns(touched, ["new"] * len(touched), 99.0, {0: 1.0})
    after = solver.solve(program)
    assert after.iterations == 0 or "open_requests" in after.details  # edited requests are then split again
    assert after.objective == pytest.approx(before.objective, rel=TIGHT)
    for q in range(60):
        assert far(after.x[q], before.x[q]) < 1e-6
    assert after.objective == pytest.approx(anew(program), rel=1e-7)


def test_edits_before_a_solve_are_composed_and_the_answer_is_right(solved):
    program, solver, before = solved
    start = {q: before.x[q] for q in range(60)}
    program.add_columns(3, ["late", "later"], [-1.0, -1.1], {1: 0.5})
    program.remove_columns(3, ["late"])
    program.add_columns([3, 5], ["last", "x"], -9.0, {2: [0.5, 0.25]})
    idle = next(name for name, value in start[7].items() if value == 0.0)
    program.remove_columns(7, [idle])
    program.update_columns(8, ["driver 8.1"], usage={3: 0.1}, costs=-0.5)
    pending = program._starts
    assert isinstance(pending[program.slot_of[3]], Moved)
    found = solver._state.starts(program, pending)
    for q in (3, 5, 7, 8):
        columns, values = found[program.slot_of[q]]
        names = program.requests[q].columns
        said = dict(zip([names[j] for j in columns.tolist()], values.tolist(), strict=True))
        assert far(said, start[q]) < 1e-12
        assert program.requests[q].start is None
    after = solver.solve(program)
    assert not program._starts and after.warm_started
    assert after.objective == pytest.approx(anew(program), rel=1e-7)


def test_a_given_start_moves_with_its_columns():
    program = build(ContinualProgram(), 3)
    program.update_request(0, start={"driver 0.1": 0.25, "driver 0.3": 0.75})
    program.remove_columns(0, ["driver 0.0", "driver 0.1"])
    program.add_columns(0, ["new"], 0.0, {})
    assert program.requests[0].start == {"driver 0.3": 0.75}
    program.update_request(0, costs=[1.0, 2.0], usage={}, columns=["new", "driver 0.3"])
    assert program.requests[0].start == {"driver 0.3": 0.75}
    assert program.take_starts()[program.slot_of[0]][0].tolist() == [1]
