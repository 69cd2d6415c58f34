"""Rays: what proves that a program is infeasible, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, Status
from copter.clock import Clock
from copter.proof.highs_rays import find_ray
from copter.proof.rays import farkas_ray
from support.numpy_twins import INF, farkas_value
from support.strategies import KINDS, PlainProgram, PlainRequest, make_infeasible, random_plain

INNERS = ["newton", "cd"]


def cycle() -> PlainProgram:
    """x0 <= x1 - 1, x1 <= x2 - 1, x2 <= x0 - 1."""
    plain = PlainProgram({i: (-INF, -1.0) for i in range(3)})
    plain.requests["x"] = PlainRequest([1.0] * 3, {i: {i: 1.0, (i + 1) % 3: -1.0} for i in range(3)})
    return plain


# ---- Farkas ------------------------------------------------------------------------------------------


def test_a_farkas_ray_and_its_value():
    plain = cycle()
    ray = farkas_ray(plain.build(), np.array([2.0, 2.0, 2.0]))
    assert ray.y == {0: 1.0, 1: 1.0, 2: 1.0}  # scaled to norm 1
    assert ray.value == pytest.approx(3.0) and ray.value <= 3.0
    assert farkas_value(plain.model(), np.ones(3)) == 3.0


@pytest.mark.parametrize("y", [[1.0, 1.0, 0.0], [1.0, 1.0, 1.1], [-1.0, -1.0, -1.0], [0.0, 0.0, 0.0]])
def test_prices_that_prove_nothing(y):
    plain = cycle()
    assert farkas_ray(plain.build(), np.array(y)) is None
    assert not farkas_value(plain.model(), np.array(y)) > 0


def test_prices_on_bounds_that_do_not_exist_are_left_out():
    plain = cycle()
    plain.resources["free"] = (-INF, INF)
    plain.resources["below"] = (0.0, INF)
    ray = farkas_ray(plain.build(), np.array([1.0, 1.0, 1.0, 5.0, 3.0]))
    assert ray.y == {0: 1.0, 1: 1.0, 2: 1.0, "free": 0.0, "below": 0.0}


def test_prices_of_dropped_rows_are_left_out():
    program = cycle().build()
    program.add_resource("dropped", 1.0)
    program.remove_resources("dropped")
    ray = farkas_ray(program, np.array([1.0, 1.0, 1.0, 9.0]))
    assert ray.y == {0: 1.0, 1: 1.0, 2: 1.0}


def test_a_bounded_column_pays_for_its_bound():
    """x0 + 2 x1 >= 3.5 with x <= 1: lacks 0.5; with x1 <= 1.25 it can be met."""
    plain = PlainProgram(
        {"need": (3.5, INF)}, {"x": PlainRequest([0.0] * 2, {"need": {0: 1.0, 1: 2.0}}, upper=1.0)}
    )
    assert 0.5 - 1e-12 <= farkas_ray(plain.build(), np.array([-1.0])).value <= 0.5
    plain.requests["x"].upper = [1.0, 1.25]
    assert farkas_ray(plain.build(), np.array([-1.0])) is None


def test_a_sum_row_alone_can_be_infeasible():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.add_request("x", [1.0, 1.0], {"r": 1.0}, total=3.0, relation="==", upper=[1.0, 1.0])
    ray = farkas_ray(program, np.zeros(1))
    assert (ray.y, ray.value) == ({"r": 0.0}, INF)
    solution = ProximalPoint().solve(program)
    assert solution.status is Status.INFEASIBLE
    assert "sum row" in solution.reason


# ---- from the solver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("seed", range(20))
def test_reported_values_and_residuals_are_the_ray_s_own(seed, inner):
    rng = np.random.default_rng([seed, 41])
    plain = random_plain(rng, str(rng.choice(KINDS)))
    make_infeasible(rng, plain)
    program, model = plain.build(), plain.model()
    solution = ProximalPoint(inner=inner, tolerance=1e-4, time_limit=600).solve(program)
    assert solution.status is Status.INFEASIBLE, solution.reason
    y = np.array([solution.ray.y[id] for id in program.resource_ids])
    truth = farkas_value(model, y)
    assert truth == -INF or 0 < solution.ray.value <= truth  # rows may bound what the prices alone do not
    assert np.isinf(solution.ray.value) or not farkas_value(model, -y) > 0  # the check can fail


# ---- claims of baselines -----------------------------------------------------------------------------


def test_a_claim_against_an_optimum_of_the_lp_is_unproved():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.add_request("q", [-1.0], {"r": [1.0]}, upper=1e3)
    assert find_ray(program, Status.INFEASIBLE, Clock()) == (Status.UNPROVED, None)


def test_only_an_infeasible_milp_has_no_ray():
    program = ContinualProgram()
    program.add_resource("r", 1.5, lower=1.2)
    program.add_request("q", [1.0], {"r": [1.0]}, integral=True, upper=1e3)
    assert find_ray(program, Status.INFEASIBLE, Clock()) == (Status.INFEASIBLE, None)
    assert find_ray(program, Status.INFEASIBLE, Clock(), whole=False) == (Status.UNPROVED, None)
