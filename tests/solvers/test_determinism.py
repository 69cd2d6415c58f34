"""The same input gives bit by bit the same answer, and of equal answers the one that changes least."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, Status
from copter.parallel import chunk_bounds
from copter.proof.certificate import certify
from copter.proof.pricing import price
from copter.solvers.inner.gather import gather
from copter.solvers.inner.newton import SemismoothNewton
from support.amounts import longer
from support.large_programs import ROWS, SCREENED, SMALL, edit, large


def digest(threads: int) -> str:
    """Hash of a pass, a certificate and a cold and a warm answer of each inner solver."""
    program = large()
    mark = hashlib.sha256()
    y = np.linspace(0.0, 1.0, program.store.rows.size)
    for part in price(program.store, y, slack=0.1, threads=threads):
        mark.update(np.asarray(part).tobytes())
    for inner, tolerance, size in (
        ("newton", 1e-6, {}),
        ("cd", 1e-3, {"small": 500, "room": 2.0}),
        ("auto", 1e-6, {}),
    ):
        program = large(**size)
        # descent is slow on this program: its first iterations are as good a witness as its last
        limit = 60 if inner == "cd" else 20_000
        solver = ProximalPoint(inner=inner, threads=threads, tolerance=tolerance, iteration_limit=limit)
        for step in range(2):
            solution = solver.solve(program)
            assert solution.status is Status.OPTIMAL, solution.reason
            proof = certify(program.store, solution.nonzeros, solution.y, threads=threads)
            assert (proof.objective, proof.bound) == (solution.objective, solution.bound)
            for part in (*solution.nonzeros, solution.y, np.array([proof.bound, proof.absolute.primal])):
                mark.update(part.tobytes())
            mark.update(f"{solution.iterations} {solution.churn!r} {solution.warm_started}".encode())
            edit(program, step)
    return mark.hexdigest()


def test_the_program_is_large_enough_for_several_chunks():
    program = large()
    sizes = program.store.requests.n_columns[: program.store.requests.size]
    assert chunk_bounds(sizes).size > 4
    slots = program.request_slots[SCREENED:]
    working = gather(program.store, np.repeat(slots, 8), np.tile(np.arange(8), SMALL))
    assert SemismoothNewton(working, bool).sums.bounds.size > 4


@pytest.mark.parametrize("processes", [[(2, "2")], longer([(1, "1"), (2, "2")])], ids=len)
def test_threads_and_processes_do_not_matter(processes):
    """Threads and seed of the hashes of each other process."""
    here = digest(1)
    for threads, seed in processes:
        code = f"from test_determinism import digest; print(digest({threads}))"
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.stdout.strip() == here, result.stderr


def test_another_program_has_another_digest():
    y = np.linspace(0.0, 1.0, ROWS)
    assert price(large(0).store, y).request_bound != price(large(1).store, y).request_bound


# ---- the same again ------------------------------------------------------------------------------------


def test_an_edit_undone_is_no_edit():
    program = large()
    solver = ProximalPoint()
    first = solver.solve(program)
    program.update_resources(2, by=-50)
    program.update_resources(2, by=50)
    program.update_request(5, scale=3.0)
    program.update_request(5, scale=1.0)
    again = solver.solve(program)
    assert (again.iterations, again.churn) == (0, 0.0)
    np.testing.assert_array_equal(again.nonzeros.value, first.nonzeros.value)


# ---- least change --------------------------------------------------------------------------------------


def two_homes(n: int, starts: np.ndarray) -> ContinualProgram:
    """n requests that may live in either of two resources at the same cost."""
    program = ContinualProgram()
    program.add_resource("left", float(n))
    program.add_resource("right", float(n))
    usage = {"left": ([0], [1.0]), "right": ([1], [1.0])}
    for k in range(n):
        start = {0: float(starts[k]), 1: float(1 - starts[k])}
        program.add_request(k, [-1.0, -1.0], usage, total=1.0, start=start)
    return program


def left_of(solution, n: int) -> np.ndarray:
    return np.array([solution.x[k][0] for k in range(n)])


@pytest.mark.parametrize(("inner", "near"), [("newton", 1e-5), ("cd", 1e-3)])
def test_among_equal_optima_what_was_there_stays(inner, near):
    n = 40
    starts = np.random.default_rng(1).random(n)
    program = two_homes(n, starts)
    solver = ProximalPoint(inner=inner, tolerance=near / 10)
    np.testing.assert_allclose(left_of(solver.solve(program), n), starts, atol=near)
    program.add_request("new", [-3.0, -2.0], {"left": ([0], [1.0]), "right": ([1], [1.0])}, total=1.0)
    program.update_request(0, scale=2.0)
    program.update_resources("right", upper=n + 1.0)
    solution = solver.solve(program)
    assert solution.iterations > 0 and solution.warm_started
    np.testing.assert_allclose(left_of(solution, n), starts, atol=2 * near)
    assert solution.churn <= 1.5 / solution.nonzeros.value.size  # the new request alone
    cold = ProximalPoint(inner=inner, tolerance=near / 10, warm_start=False).solve(program)
    assert abs(left_of(cold, n) - starts).max() > 0.1  # it could have gone elsewhere


@pytest.mark.parametrize(("inner", "near"), [("newton", 1e-4), ("cd", 1e-2)])
def test_only_what_must_move_moves(inner, near):
    n = 20
    starts = np.linspace(0.5, 0.9, n)
    program = two_homes(n, starts)
    solver = ProximalPoint(inner=inner, tolerance=near / 100)
    solver.solve(program)
    program.update_resources("left", upper=starts.sum() - 2.0)  # 2 of 14 have to go
    left = left_of(solver.solve(program), n)
    assert abs(left - starts).sum() == pytest.approx(2.0, abs=near)
    np.testing.assert_allclose(left, starts - 2.0 / n, atol=near)  # the nearest optimum: all move alike
