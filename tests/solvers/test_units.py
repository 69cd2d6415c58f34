"""The core in any units: rows, costs, columns, unused resources, forced requests; cold, and after edits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram, Status, linprog, make_solver
from copter.proof.certificate import certify
from copter.proof.rays import farkas_ray
from copter.store.allocation import NOTHING
from support.amounts import examples
from support.magnitudes import UNITS, WILD, trial

HONEST = ("unproved", "iteration_limit")
"""Figures of all magnitudes side by side may be too much for double precision; saying so is no fault."""


@pytest.mark.parametrize("change", UNITS)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=examples(25), deadline=None)
def test_another_name_for_the_same_program_has_the_same_answer(change, seed):
    assert trial(seed, change=change)[2:] == ([], [])


@pytest.mark.parametrize("change", WILD)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=examples(25), deadline=None)
def test_nothing_is_claimed_of_wild_programs_that_does_not_hold(change, seed):
    _, _, cold, warm = trial(seed, change=change)
    assert not [fault for fault in cold + warm if fault not in HONEST]


def gpus(spare: float | None) -> ContinualProgram:
    """20 jobs that want 2 of one of two types of 8 GPUs, and a resource that nobody uses."""
    program = ContinualProgram()
    for kind in ("a", "b"):
        program.add_resource(kind, 8.0)
    if spare is not None:
        program.add_resource("spare", spare)
    for job in range(20):
        costs = [-1.0 - 0.01 * job, -1.5 - 0.02 * job]
        program.add_request(job, costs, {"a": [2, 0], "b": [0, 2]}, total=1, integral=True)
    return program


@pytest.mark.parametrize("name", ["copter", "copter-cd", "highs-simplex", "highs-pdlp", "pdlp"])
@pytest.mark.parametrize("spare", [1e-9, 1e9, 1e15])
def test_a_large_bound_that_nobody_uses_hides_no_excess(name, spare):
    program = gpus(spare)
    solution = make_solver(name).solve(program)
    if name == "pdlp" and solution.status is Status.UNPROVED:
        return  # its norms know no more than the large bound; its word does not count
    assert solution.status is Status.OPTIMAL
    for kind in range(2):
        used = 2 * sum(x[kind] for x in solution.x.values())
        assert used <= 8.0 * (1 + 1e-6)
    best = linprog(
        [c for job in range(20) for c in (-1.0 - 0.01 * job, -1.5 - 0.02 * job)],
        np.vstack([np.tile([2, 0], 20), np.tile([0, 2], 20), np.kron(np.eye(20), [1, 1])]),
        [8, 8] + 20 * [1],
    )
    assert solution.objective == pytest.approx(best.fun, rel=2e-6)


def test_a_bound_of_a_column_that_nobody_can_use_hides_nothing():
    program = ContinualProgram()
    program.add_resource("least", np.inf, lower=1000.0)
    program.add_request("q", [1.0], {"least": 1.0}, upper=1e13)
    solver = make_solver("copter")
    assert solver.solve(program).objective == pytest.approx(1000.0, rel=1e-6)
    program.update_resources("least", lower=5.0)
    assert solver.solve(program).objective == pytest.approx(5.0, rel=1e-6)
    program.update_request("q", costs=[0.0])
    nothing = certify(program.store, NOTHING, np.zeros(1))
    assert nothing.relative.primal == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("copter", Status.OPTIMAL),
        ("copter-cd", Status.UNPROVED),
        ("copter-newton", Status.UNPROVED),
        ("pdlp", Status.UNPROVED),
    ],
)
def test_a_total_that_nobody_can_use_hides_nothing(name, status):
    program = ContinualProgram()
    program.add_resource("least", np.inf, lower=5.0)
    program.add_request("q", [1.0], {"least": 1.0}, total=1e13)
    solution = make_solver(name).solve(program)
    assert solution.status is status
    if status is Status.OPTIMAL:
        assert solution.objective == pytest.approx(5.0, rel=1e-6)


def test_a_chain_of_a_large_bound_has_no_ray():
    program = ContinualProgram()
    program.add_resource("a", np.inf, lower=1e9)
    for tie in "bcd":
        program.add_resource(tie, 1.0)
    for request, usage in (("x", "ab"), ("w0", "bc"), ("w1", "cd"), ("w2", "d")):
        signs = (1.0, 1.0) if request == "x" else (-1.0, 1.0)
        program.add_request(request, [1.0], dict(zip(usage, signs, strict=False)), upper=1e10)
    assert farkas_ray(program, np.array([-1.0, 0.0, 0.0, 0.0])) is None
    assert make_solver("copter").solve(program).objective == pytest.approx(4e9 - 6, rel=1e-6)


def test_a_forced_cost_hides_no_gap():
    program = gpus(None)
    free = make_solver("copter").solve(program)
    for cost in (1e8, -1e15):
        program.add_request(("forced", cost), [cost], {}, total=1, relation="==")
        solution = make_solver("copter").solve(program)
        assert solution.status is Status.OPTIMAL
        chosen = [solution.x[job] for job in range(20)]
        np.testing.assert_allclose(chosen, [free.x[job] for job in range(20)], atol=1e-5)


def test_a_small_request_is_served_warm_whatever_the_unit_of_cost():
    program = ContinualProgram()
    program.add_resource("gpu", 1.0)
    program.add_request("old", [-1e-8], {"gpu": 1.0}, total=1)
    solver = make_solver("copter")
    solver.solve(program)
    program.add_request("new", [-5e-8], {"gpu": 1.0}, total=1)
    solution = solver.solve(program)
    assert solution.x["new"][0] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", ["copter", "copter-cd", "copter-newton"])
def test_bounds_that_lack_a_total_but_for_rounding_are_no_contradiction(name):
    program = ContinualProgram()
    program.add_request("q", [1.0, 2.0, 3.0], {}, total=1, relation="==", upper=[(1 - 1e-11) / 3] * 3)
    assert make_solver(name).solve(program).status is Status.OPTIMAL
