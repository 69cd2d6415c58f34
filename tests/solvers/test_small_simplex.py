"""Small programs, which a simplex with an explicit inverse solves: rounds of any edits, judged exactly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from copter import ContinualProgram, Status, make_solver
from copter.solvers.inner import small_simplex
from copter.solvers.inner.gather import gather
from copter.solvers.inner.small_simplex import solve_small, suits
from copter.store.slabs import every_column
from rounds.edits import Editor
from rounds.judges import judge
from rounds.kinds import FAMILIES, TINY, Draw
from rounds.mirror import Mirror
from rounds.reading import claim

SMALL = "small_simplex"


def test_rounds_are_right() -> None:
    families, seen = [TINY, *(each for each in FAMILIES.values() if each.name != "network")], Counter[str]()
    for seed in range(40):
        program, mirror, solver = ContinualProgram(), Mirror(), make_solver("copter", tolerance=1e-7)
        draw = Draw(np.random.default_rng(seed), families[seed % len(families)])
        editor = Editor(draw, program, mirror, seen)
        editor.begin()
        for _ in range(6):
            solution = solver.solve(program)
            for request in mirror.requests.values():
                request.start = None  # it was taken
            judge(mirror, claim(solution), 1e-7, exactly=True, by_highs=True)
            found = f"{solution.details['engine']}, {solution.status}"
            kept = found == "proximal, optimal" and solution.iterations == 0  # the warm start is optimal
            seen["kept" if kept else found] += 1
            editor.any()
    assert seen[f"{SMALL}, optimal"] > 60 and seen["kept"] > 10, seen
    assert seen["proximal, optimal"] == 0 and seen["proximal, infeasible"] > 10, seen


def test_a_start_saves_pivots() -> None:
    rng, program = np.random.default_rng(5), ContinualProgram()
    for row in range(6):
        program.add_resource(row, upper=25.0)
    for q in range(40):
        usage = {row: rng.integers(0, 3, 12) for row in range(6)}
        program.add_request(q, rng.uniform(-3.0, 0.0, 12), usage, total=1, relation="==")
    working = gather(program.store, *every_column(program.request_slots, np.full(40, 12)))
    nothing = np.zeros(working.column.size), np.zeros(working.lower_row.size)
    cold = solve_small(working, *nothing, 1e-12)
    assert cold is not None and cold.pivots > 10
    again = solve_small(working, cold.x, cold.y, 1e-12)
    assert again is not None and again.pivots < 5  # of values that are 0 at the basis
    assert again.x == pytest.approx(cold.x, abs=1e-12)


def test_larger_programs_are_not_solved_by_it() -> None:
    assert suits(28, 100, 2_000)
    assert not suits(28, 101, 2_000) and not suits(28, 100, 2_001)


def test_without_an_answer_the_proximal_method_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: Any) -> tuple[bool, Any, Any, int]:
        return False, np.zeros(1), np.zeros(1), 0

    program = ContinualProgram()
    program.add_resource("gpu", upper=2.0)
    program.add_request("job", [-1.0, -1.8], {"gpu": [1, 2]}, total=1)
    assert make_solver("copter").solve(program).details["engine"] == SMALL
    monkeypatch.setattr(small_simplex, "_simplex", gives_up)
    solution = make_solver("copter").solve(program)
    assert solution.status is Status.OPTIMAL and solution.details["engine"] == "proximal"


def test_an_allocation_within_the_tolerance_stays() -> None:
    """By the last prices, or, after a round in which the allocation changed, by those of the simplex."""
    seen, rng = Counter[str](), np.random.default_rng(2)
    program, solver = ContinualProgram(), make_solver("copter", tolerance=0.02)
    program.add_resource("gpu", upper=7.5)
    costs = -rng.uniform(1.0, 2.0, (12, 4))
    for q in range(12):
        program.add_request(q, costs[q], {"gpu": [1.0, 2.0, 3.0, 4.0]}, total=1)
    last = solver.solve(program)
    for turn in range(60):
        large = turn % 4 == 0
        costs = costs * (
            rng.uniform(0.5, 1.5, costs.shape) if large else rng.uniform(0.999, 1.001, costs.shape)
        )
        program.update_requests(range(12), costs=list(costs))
        now = solver.solve(program)
        assert now.is_optimal(0.02)
        same = all(np.array_equal(now.x[q], last.x[q]) for q in range(12))
        seen[f"{'stays' if same else 'changes'}, {now.details['engine']}"] += 1
        assert same or large
        last = now
    assert min(seen["changes, small_simplex"], seen["stays, small_simplex"], seen["stays, proximal"]) > 5, (
        seen
    )
