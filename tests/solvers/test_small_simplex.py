"""Small programs, which a simplex with an explicit inverse solves: every round against HiGHS from scratch."""

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

SMALL = "small_simplex"
KINDS = ("upper", "lower", "range", "equation")
CLOSE = {"rel": 1e-6, "abs": 1e-9}


def bounds(rng: np.random.Generator) -> tuple[str, dict[str, float]]:
    """Return a kind of resource and its bounds."""
    kind = str(rng.choice(KINDS, p=[0.5, 0.1, 0.2, 0.2]))
    at = float(rng.uniform(0.5, 5.0))
    both = {"upper": {"upper": 3 * at}, "lower": {"lower": 0.3 * at}, "equation": {"lower": at, "upper": at}}
    return kind, both.get(kind, {"lower": 0.2 * at, "upper": 3 * at})


def request(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    """Return a request of any kind: with or without a sum row, with bounds, with negative usage."""
    n = int(rng.integers(1, 12))
    used = rng.choice(rows, int(rng.integers(1, rows + 1)), replace=False)
    low = -1.0 if rng.random() < 0.2 else 0.0
    usage = {int(row): np.round(rng.uniform(low, 4.0, n), 2) * (rng.random(n) < 0.6) for row in used}
    relation = str(rng.choice(["<=", "==", "none"]))
    summed = {"total": float(rng.choice([0.0, 1.0, 1.0, 3.5])), "relation": relation}
    some = np.where(rng.random(n) < 0.3, 5.0, rng.uniform(0.1, 2.0, n))
    bounded = {"upper": some} if relation == "none" or rng.random() < 0.5 else {}
    return {
        "costs": np.round(rng.uniform(-5.0, 2.0, n), 2),
        "usage": usage,
        **bounded,
        **({} if relation == "none" else summed),
    }


def change(rng: np.random.Generator, program: ContinualProgram, rows: int, number: int) -> str:
    """Make one edit; return its kind."""
    kind = str(rng.choice(["add", "remove", "cost", "bound", "columns"]))
    requests = list(program.request_ids)
    one = requests[int(rng.integers(len(requests)))]
    if kind == "add":
        program.add_request(("new", number), **request(rng, rows))
    elif kind == "remove" and len(requests) > 1:
        program.remove_request(one)
    elif kind == "columns":
        program.remove_request(one)
        program.add_request(one, **request(rng, rows))
    elif kind == "bound":
        row = int(rng.integers(rows))
        program.update_resources(row, **({"lower": -np.inf, "upper": np.inf} | bounds(rng)[1]))
    else:
        kind = "cost"
        program.update_request(one, scale=float(rng.uniform(0.5, 2.0)))
    return kind


def test_rounds_have_the_optimum_of_highs() -> None:
    rng, seen = np.random.default_rng(3), Counter[str]()
    for number in range(40):
        rows, program = int(rng.integers(1, 9)), ContinualProgram()
        for row in range(rows):
            kind, both = bounds(rng)
            seen[kind] += 1
            program.add_resource(row, **both)
        for q in range(int(rng.integers(1, 15))):
            program.add_request(q, **request(rng, rows))
        solver = make_solver("copter", tolerance=1e-7)
        for turn in range(5):
            found, known = solver.solve(program), make_solver("highs-simplex").solve(program)
            assert found.status is known.status, (number, turn)
            seen[str(found.status)] += 1
            # an optimal warm start takes no iterations
            kept = found.iterations == 0 and found.details["engine"] == "proximal"
            seen["kept" if kept else f"{found.details['engine']}, {found.status}"] += 1
            if found.status is Status.OPTIMAL:
                assert found.objective == pytest.approx(known.objective, **CLOSE), (number, turn)
                assert found.is_optimal(1e-7)
                seen["warm"] += found.warm_started
            seen[change(rng, program, rows, turn)] += 1
    assert all(seen[kind] > 15 for kind in (*KINDS, "add", "remove", "cost", "bound", "columns")), seen
    assert seen[f"{SMALL}, optimal"] > 60 and seen["infeasible"] > 20 and seen["warm"] > 30, seen
    assert seen["kept"] > 10 and seen["proximal, optimal"] == 0, seen


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


def test_degenerate_programs_end() -> None:
    program = ContinualProgram()  # Beale's example, on which the simplex method can cycle
    program.add_resource("a", upper=0.0)
    program.add_resource("b", upper=0.0)
    program.add_resource("c", upper=1.0)
    usage = {"a": [0.25, -60.0, -0.04, 9.0], "b": [0.5, -90.0, -0.02, 3.0], "c": [0.0, 0.0, 1.0, 0.0]}
    program.add_request("all", [-0.75, 150.0, -0.02, 6.0], usage, upper=1e3)
    solution = make_solver("copter", tolerance=1e-8).solve(program)
    assert solution.status is Status.OPTIMAL and solution.objective == pytest.approx(-0.05)


@pytest.mark.parametrize("kind", ["no rows", "no requests", "a total of 0"])
def test_borders(kind: str) -> None:
    program = ContinualProgram()
    if kind != "no rows":
        program.add_resource("gpu", upper=2.0)
    if kind == "no rows":
        program.add_request("job", [-1.0, -2.0], {}, total=3.0)
    elif kind == "a total of 0":
        program.add_request("job", [-1.0, -2.0], {"gpu": [1, 1]}, total=0.0, relation="==")
    solution = make_solver("copter").solve(program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(-6.0 if kind == "no rows" else 0.0)


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
