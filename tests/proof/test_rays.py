"""Rays: what proves that a program is infeasible or unbounded, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, Status
from copter.clock import Clock
from copter.proof.highs_rays import find_ray
from copter.proof.rays import farkas_ray, primal_ray
from copter.store.allocation import SparseX
from support.numpy_twins import INF, farkas_value, is_primal_ray, verify
from support.strategies import (
    KINDS,
    PlainProgram,
    PlainRequest,
    make_infeasible,
    make_unbounded,
    random_plain,
)

INNERS = ["newton", "cd"]


def cycle() -> PlainProgram:
    """x0 <= x1 - 1, x1 <= x2 - 1, x2 <= x0 - 1."""
    plain = PlainProgram({i: (-INF, -1.0) for i in range(3)})
    plain.requests["x"] = PlainRequest([1.0] * 3, {i: {i: 1.0, (i + 1) % 3: -1.0} for i in range(3)})
    return plain


def direction(program: ContinualProgram, values: dict) -> SparseX:
    """{request: values} as SparseX."""
    slots = dict(zip(program.request_ids, program.request_slots.tolist(), strict=True))
    entries = sorted((slots[id], j, v) for id, x in values.items() for j, v in enumerate(x) if v)
    slot, column, value = zip(*entries, strict=True) if entries else ((), (), ())
    return SparseX(np.array(slot, np.int64), np.array(column, np.int64), np.array(value, float))


# ---- Farkas ------------------------------------------------------------------------------------------


def test_a_farkas_ray_and_its_value():
    plain = cycle()
    ray = farkas_ray(plain.build(), np.array([2.0, 2.0, 2.0]))
    assert (ray.kind, ray.y, len(ray.x)) == ("infeasible", {0: 1.0, 1: 1.0, 2: 1.0}, 0)  # scaled to norm 1
    assert ray.value == pytest.approx(3.0) and ray.value <= 3.0 and ray.residual == 0.0
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


# ---- primal rays -------------------------------------------------------------------------------------


def pair() -> PlainProgram:
    """2 x - z = 0 holds them together; along (1, 2) the cost falls by 1."""
    plain = PlainProgram({"tie": (0.0, 0.0), "cap": (-INF, 5.0)})
    plain.requests["x"] = PlainRequest([1.0], {"tie": {0: 2.0}})
    plain.requests["z"] = PlainRequest([-1.0, -9.0, -9.0], {"tie": {0: -1.0}}, upper=[INF, 3.0, 0.0])
    plain.requests["held"] = PlainRequest([-9.0], {"cap": {0: 1.0}}, 7.0)
    return plain


def test_a_primal_ray_and_its_value():
    plain = pair()
    program = plain.build()
    ray = primal_ray(program, direction(program, {"x": [3.0], "z": [6.0, 0.0, 0.0]}))
    assert (ray.kind, ray.y, ray.value, ray.residual) == ("unbounded", {}, -0.5, 0.0)
    assert {id: v.tolist() for id, v in ray.x.items()} == {"x": [0.5], "z": [1.0, 0.0, 0.0], "held": [0.0]}
    assert is_primal_ray(plain.model(), np.concatenate([ray.x[id] for id in program.request_ids]))


def test_entries_that_bounds_hold_are_left_out():
    program = pair().build()
    ray = primal_ray(program, direction(program, {"x": [1.0], "z": [2.0, 4.0, 4.0], "held": [8.0]}))
    assert {id: v.tolist() for id, v in ray.x.items()} == {"x": [0.5], "z": [1.0, 0.0, 0.0], "held": [0.0]}


@pytest.mark.parametrize(
    "values",
    [
        {"x": [1.0], "z": [1.0, 0, 0]},  # leaves the equation
        {"x": [0.0], "z": [1.0, 0, 0]},
        {"x": [-1.0], "z": [-2.0, 0, 0]},  # negative
        {"held": [1.0]},
        {"z": [0, 1.0, 1.0]},
        {},
    ],
)
def test_directions_that_prove_nothing(values):
    plain = pair()
    program = plain.build()
    assert primal_ray(program, direction(program, values)) is None
    dense = [np.broadcast_to(values.get(id, 0.0), len(r.costs)) for id, r in plain.requests.items()]
    assert not is_primal_ray(plain.model(), np.concatenate(dense))


def test_a_direction_that_costs_is_no_ray():
    plain = pair()
    plain.requests["x"].costs = [2.0]
    program = plain.build()
    assert primal_ray(program, direction(program, {"x": [1.0], "z": [2.0, 0, 0]})) is None


def test_rounding_dust_does_not_void_a_ray():
    """A proximal step to a length of 1e12 leaves 1e-4 on columns that should not move at all."""
    plain = pair()
    plain.requests["still"] = PlainRequest([1.0], {"cap": {0: 1.0}})
    program = plain.build()
    ray = primal_ray(program, direction(program, {"x": [0.5e12], "z": [1e12, 0, 0], "still": [1e-4]}))
    assert ray is not None and ray.value == pytest.approx(-0.5)
    farkas = cycle().build()
    farkas.add_resource("idle", 5.0)
    farkas.add_request("idle", [1.0], {"idle": -1.0})
    assert farkas_ray(farkas, np.array([1e12, 1e12, 1e12, 1e-4])).value == pytest.approx(3.0)


# ---- from the solver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("seed", range(20))
def test_reported_values_and_residuals_are_the_ray_s_own(seed, inner):
    rng = np.random.default_rng([seed, 41])
    plain = random_plain(rng, str(rng.choice(KINDS)))
    make_infeasible(rng, plain)
    program, model = plain.build(), plain.model()
    solution = ProximalPoint(inner=inner, tolerance=1e-4, deadline=600).solve(program)
    assert solution.status is Status.INFEASIBLE, solution.reason
    y = np.array([solution.ray.y[id] for id in program.resource_ids])
    truth = farkas_value(model, y)
    assert truth == -INF or 0 < solution.ray.value <= truth  # rows may bound what the prices alone do not
    assert np.isinf(solution.ray.value) or not farkas_value(model, -y) > 0  # the check can fail


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("seed", range(20))
def test_reported_costs_of_primal_rays(seed, inner):
    rng = np.random.default_rng([seed, 43])
    plain = random_plain(rng, str(rng.choice(KINDS)))
    make_unbounded(rng, plain)
    program, model = plain.build(), plain.model()
    solution = ProximalPoint(inner=inner, tolerance=1e-4, deadline=600).solve(program)
    assert solution.status is Status.UNBOUNDED, solution.reason
    d = np.concatenate([solution.ray.x[id] for id in program.request_ids])
    assert d.max() == 1.0
    assert solution.ray.value == pytest.approx(model.c @ d)
    assert is_primal_ray(model, d) and not is_primal_ray(model, -d)


@pytest.mark.parametrize("inner", INNERS)
def test_in_and_out_of_infeasibility_and_unboundedness(inner):
    """The same solver, warm: a ray of one round does not haunt the next."""
    plain = PlainProgram({"cap": (-INF, 4.0), "need": (2.0, INF)})
    usage = {"cap": {0: 1.0, 1: 2.0}, "need": {0: 1.0, 1: 1.0}}
    plain.requests["x"] = PlainRequest([-1.0, -3.0], usage)
    program = plain.build()
    solver = ProximalPoint(inner=inner, tolerance=1e-5, deadline=600)

    def round_is(status):
        assert verify(solver.solve(program), program, plain.model(), 1e-5) == status

    for _ in range(3):
        round_is("optimal")
        program.update_resources("need", lower=4.5)
        plain.resources["need"] = (4.5, INF)
        round_is("infeasible")
        program.update_resources("need", lower=0.0)
        program.update_resources("cap", upper=INF)
        plain.resources.update(need=(0.0, INF), cap=(-INF, INF))
        round_is("unbounded")
        program.update_request("x", upper=3.0)
        plain.requests["x"].upper = 3.0
        round_is("optimal")
        program.update_resources("cap", upper=4.0)
        program.update_resources("need", lower=2.0)
        program.update_request("x", upper=INF)
        plain.resources.update(need=(2.0, INF), cap=(-INF, 4.0))
        plain.requests["x"].upper = INF


# ---- claims of baselines -----------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [Status.INFEASIBLE, Status.UNBOUNDED])
def test_a_claim_against_an_optimum_of_the_lp_is_unproved(claim):
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.add_request("q", [-1.0], {"r": [1.0]})
    assert find_ray(program, claim, Clock()) == (Status.UNPROVED, None)


def test_only_an_infeasible_milp_has_no_ray():
    program = ContinualProgram()
    program.add_resource("r", 1.5, lower=1.2)
    program.add_request("q", [1.0], {"r": [1.0]}, integral=True)
    assert find_ray(program, Status.INFEASIBLE, Clock()) == (Status.INFEASIBLE, None)
    for claim, whole in ((Status.INFEASIBLE, False), (Status.UNBOUNDED, True)):
        assert find_ray(program, claim, Clock(), whole=whole) == (Status.UNPROVED, None)
