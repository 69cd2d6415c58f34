"""The loss of an integral allocation is over its cost, whatever all allocations cost in common."""

import math

import pytest

from copter import ChooseOneShim, ContinualProgram, make_solver
from copter.proof.whole import integrality_loss


@pytest.mark.parametrize(
    ("objective", "bound", "loss"),
    [
        (100.0, 99.0, 0.01),
        (-50.0, -51.0, 0.02),
        (3.0, 3.0, 0.0),
        (3.0, 3.0 + 1e-12, 0.0),  # a bound is certified with rounding errors
        (0.0, 0.0, 0.0),
        (0.0, -1.0, math.inf),
        (math.inf, 1.0, math.inf),
        (1.0, -math.inf, math.inf),
        (math.nan, 1.0, math.inf),
    ],
)
def test_the_loss_is_what_is_lost_over_the_cost(objective, bound, loss):
    assert integrality_loss(objective, bound) == pytest.approx(loss)


@pytest.mark.parametrize("common", [0.0, 1.0, 1000.0])
def test_a_cost_that_all_allocations_have_counts_in_the_loss_and_not_in_the_gap(common):
    """Two jobs want 2 of 3 units each: 1.5 in the relaxation, 1 of whole columns."""
    program = ContinualProgram()
    program.add_resource("gpu", 3.0)
    for job in range(2):
        costs = [common, common - 1.0]
        program.add_request(job, costs, {"gpu": [0.0, 2.0]}, total=1.0, relation="==")
    solution = make_solver("copter", tolerance=1e-9).solve(program)
    rounded = ChooseOneShim().round(program, solution)
    assert rounded.objective == pytest.approx(2 * common - 1.0)
    assert rounded.gap > 0.3  # over what the jobs can gain
    loss = integrality_loss(rounded.objective, solution.bound)
    assert loss == pytest.approx(0.5 / abs(2 * common - 1.0), rel=1e-6)
