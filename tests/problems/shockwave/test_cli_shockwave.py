"""`copter run shockwave` and `copter bench shockwave`: documents, folders, errors; and the MILP baseline."""

import json

import numpy as np
import pytest
from hypothesis import given, settings

from copter.problems.cluster.registry import make_policy
from copter.problems.shockwave import (
    BASELINES,
    ORACLE,
    PREDICTORS,
    RELAXATIONS,
    make_relaxation,
    plan_problem,
)
from copter.problems.shockwave.exact import solve_milp
from support.amounts import examples
from support.commands import invoke
from support.shockwave_cases import brute_force, windows
from support.shockwave_reference import RULES


def test_every_name_of_a_command_stands_for_something():
    for name in BASELINES:
        assert make_policy(name).name == name
    for name in RELAXATIONS:
        assert callable(make_relaxation(name))
    assert {*RULES, ORACLE} == set(PREDICTORS)
    with pytest.raises(ValueError, match="one of copter, water-filling"):
        make_relaxation("clarabel")


def test_bench_writes_the_document(tmp_path):
    path = tmp_path / "bench.json"
    solvers = "copter,water-filling,cvxpy,highs-milp"
    options = f"--jobs 30 --gpus 12 --rounds 3 --plan-rounds 8 --solvers {solvers} --no-isolate".split()
    invoke("bench", "shockwave", *options, "--mip-gap", "1e-6", "--time-limit", 60, "--json", path)
    found = json.loads(path.read_text())
    rounds = [[r for r in found["records"] if r["round"] == number] for number in range(3)]
    for *relaxed, exact in rounds:
        assert [one["solver"] for one in (*relaxed, exact)] == solvers.split(",")
        reference = relaxed[-1]
        # The optimal plan lies between every plan and every bound.
        for one in relaxed:
            assert one["objective"] == pytest.approx(reference["objective"], rel=2e-6)
            assert one["answer_objective"] >= exact["bound"] - 1e-9 * abs(exact["bound"])
            assert one["bound"] <= exact["answer_objective"] + 1e-6 * abs(exact["bound"])
        assert exact["answer_gap"] <= 1e-6 * (1 + 1e-6)
        assert 0 < reference["solve_seconds"] and 0 < reference["edit_seconds"]
    keeps = {name: (one["differential_edits"], one["warm_started"]) for name, one in found["summary"].items()}
    assert keeps["copter"] == (True, 2) and keeps["water-filling"] == (None, 0)
    for name in ("copter", "water-filling"):
        assert found["summary"][name]["best_gap"]["max"] < 0.01
    assert found["settings"]["solvers"] == solvers.split(",")


@given(window=windows(most=4, rounds=3, capacity=3))
@settings(deadline=None, max_examples=examples(30))
def test_branch_and_bound_finds_the_best_plan(window):
    problem = plan_problem(window)
    exact = solve_milp(problem, mip_gap=1e-9, threads=1)
    best = brute_force(problem)
    assert (exact.runs.T @ problem.gpus <= problem.capacity).all()
    counts = np.minimum(exact.runs.sum(axis=1), problem.most)
    largest = max(abs(problem.value).max(), problem.makespan_weight * problem.remaining.max(initial=0.0))
    assert problem.objective(counts) == pytest.approx(best, rel=1e-6, abs=1e-6 * largest)
    assert exact.bound >= best - 1e-6 * max(largest, abs(best))
