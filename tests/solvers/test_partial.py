"""Partial steps: only some requests move; the answer is certified on the whole program, against HiGHS."""

import numpy as np
import pytest
from scipy.sparse import random_array

from copter import ContinualProgram, ProximalPoint, make_solver
from copter.clock import Clock
from copter.proof.pricing import price
from copter.solvers.proximal.partial import PartialSteps
from copter.solvers.proximal.state import Budget, Iterate
from copter.solvers.proximal.tuning import PartialTuning, ProximalTuning
from copter.store.allocation import NOTHING
from support.strategies import KINDS, make_infeasible, random_plain


def flows(rng, requests=400, rows=12, relation="<="):
    """Demands over few links, more than they can carry."""
    program = ContinualProgram()
    for row in range(rows):
        program.add_resource(row, upper=float(rng.uniform(0.3, 1.0) * requests / rows))
    sizes = rng.integers(1, 4, requests)
    usage = random_array((rows, int(sizes.sum())), density=0.2, rng=rng, format="csc")
    usage.data[:] = 1.0
    totals = rng.uniform(0.1, 1.0, requests)
    costs = -rng.uniform(0.5, 1.0, int(sizes.sum()))
    program.add_requests(range(requests), costs, sizes, usage, totals=totals, relation=relation)
    return program, totals


ALWAYS = ProximalTuning(partial=PartialTuning(columns_from=0, rows_from=0))
"""Partial steps in small programs too."""


@pytest.mark.parametrize("rows", [7, 12])
def test_programs_of_few_rows_have_whole_steps(rows, monkeypatch):
    """There, any change of a price concerns nearly all requests."""
    program, _ = flows(np.random.default_rng(0), rows=rows)
    asked = []
    original = PartialSteps.step
    monkeypatch.setattr(PartialSteps, "step", lambda self, now: asked.append(1) or original(self, now))
    assert ProximalPoint(tuning=ALWAYS).solve(program).status == "optimal"
    assert bool(asked) == (rows >= ALWAYS.partial.rows_from)


@pytest.mark.parametrize("seed", range(3))
def test_a_round_of_small_changes_moves_some_requests_only(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    program, totals = flows(rng, requests=2000)
    solver = ProximalPoint(tolerance=1e-4, tuning=ALWAYS)
    solver.solve(program)
    moved = []
    original = PartialSteps.step

    def watched(self, *args):
        result = original(self, *args)
        moved.append(np.count_nonzero(self._moves))
        return result

    monkeypatch.setattr(PartialSteps, "step", watched)
    program.update_requests(range(2000), totals=totals * rng.uniform(0.97, 1.03, 2000))
    assert solver.solve(program).is_optimal(1e-4)
    assert moved and min(moved) < 1500


def test_a_changed_total_keeps_its_split():
    rng = np.random.default_rng(1)
    program, totals = flows(rng)
    solver = make_solver("copter", tolerance=1e-6)
    first = solver.solve(program)
    program.update_requests(range(400), totals=0.5 * totals)
    for row in range(12):
        program.update_resources(row, upper=0.5 * program.resources[row][1])
    second = solver.solve(program)
    assert second.iterations == 0  # everything halved: so did the optimum
    np.testing.assert_allclose(second.nonzeros.value, 0.5 * first.nonzeros.value)


def partial_steps(program):
    tuning = ProximalTuning()
    return PartialSteps(program, Budget(1e-4, Clock(), 100, 1, tuning.most_piece), tuning)


def test_if_all_lose_there_is_no_partial_step():
    program, _ = flows(np.random.default_rng(3))
    y = np.zeros(12)
    now = Iterate.of(program.store, NOTHING, y, price(program.store, y, slack=np.inf), threads=1)
    assert partial_steps(program).step(now) is None  # all of them lose: all must move


@pytest.mark.parametrize("change", [None, make_infeasible])
@pytest.mark.parametrize("seed", range(8))
def test_every_kind_of_program_ends_as_with_highs(seed, change):
    rng = np.random.default_rng([seed, 3])
    program, _ = flows(rng, requests=40)
    plain = random_plain(rng, str(rng.choice(KINDS)))
    if change is not None:
        change(rng, plain)
    plain.build(program)
    reference = make_solver("highs-simplex", tolerance=1e-9).solve(program)
    solution = ProximalPoint(iteration_limit=5000, tuning=ALWAYS).solve(program)
    assert solution.status == reference.status
    if change is None:
        assert solution.objective == pytest.approx(reference.objective, rel=1e-5, abs=1e-5)


def test_a_row_far_from_its_bound_that_alone_bounds_a_column_stays():
    program, _ = flows(np.random.default_rng(4), requests=50)
    program.add_resource("far", upper=1e4)
    program.add_request("free", [-1.0], {"far": [1.0]}, upper=1e5)
    solution = ProximalPoint(iteration_limit=500, tuning=ALWAYS).solve(program)
    assert solution.status == "optimal"
    assert solution.x["free"].sum() == pytest.approx(1e4)
