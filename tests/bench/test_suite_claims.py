"""What branch and bound claims is judged as what it is: feasible, integral, within its gap of its bound."""

from dataclasses import replace

import pytest

from copter.bench.checks import CHECKERS, Checks, problems, unconfirmed
from copter.bench.result_files import LineResult, SolverResult, SuiteResult
from copter.bench.settings import SolverSettings
from copter.problems.load_balancing.course import Balancing
from copter.problems.load_balancing.scenario import ShardScenario
from copter.problems.shockwave.course import PlanCourse
from support.sample_suite import line as line_of
from support.sample_suite import solver

COURSES = {
    "shards": (Balancing(ShardScenario(12, 3, 3, seed=1)), 0.05, "certificate"),
    "shockwave": (PlanCourse(8, 4, 2), 1e-3, "bound"),
}


def measured(family, course, gap, checker):
    checks = Checks()
    settings = SolverSettings("highs-milp", 1e-6, 20.0, 1, gap, wrap=checks.watch)
    play = course.play(settings)
    records = [one | CHECKERS[checker].judge(one, checks.found, 1e-6) for one in play.records]
    one = SolverResult("highs-milp", "", 1, "measured", records=records, stopping=play.stopping)
    x = (family, family, "", "", 1e-6, 1, len(records), 1, 20.0, {}, "", (one.solver,))
    return LineResult(*x, solvers={one.solver: one})


def said_of(line):
    return problems(SuiteResult("quick", "", {}, {}, "", 0.0, (line.name,), {line.name: line}))


def wrong(line, **fields):
    """What is said of a line with fields of its last round changed."""
    (one,) = line.solvers.values()
    one = replace(one, records=[*one.records[:-1], one.records[-1] | fields])
    line = replace(line, solvers={one.solver: one})
    assert unconfirmed(one) == ([line.rounds - 1] if fields else [])
    return said_of(line)


@pytest.mark.parametrize("family", COURSES)
def test_branch_and_bound_is_held_to_what_it_claims(family):
    line = measured(family, *COURSES[family])
    last = line.solvers["highs-milp"].records[-1]
    assert last["status"] == "optimal" and last["feasible"] and not last["certified"]
    assert wrong(line) == []
    size = last.get("size", 1.0)
    for lie in (
        {"feasible": False},
        {"answer_gap": 0.2},
        {"answer_objective": float("nan"), "disagrees": True},
        {"bound": last["answer_objective"] + 0.01 * size, "answer_gap": -0.01 if family == "shards" else 0.0},
    ):
        assert any("claims an optimum" in each for each in wrong(line, **lie))


def test_programs_that_differ_are_named():
    fields = {"objective": 1.0, "bound": 1.0, "nnz": 5}
    ours, theirs = (
        replace(one, records=[record | fields | {"solver": one.solver} for record in one.records])
        for one in (solver("copter", 0.1), solver("glop", 0.1))
    )
    same = line_of("sia-64", "sia", [ours, theirs])
    assert said_of(same) == []
    records = [*theirs.records[:-1], theirs.records[-1] | {"n_variables": 999, "objective": 0.5}]
    other = line_of("sia-64", "sia", [ours, replace(theirs, records=records)])
    found = said_of(other)
    assert len(found) == 2 and "round 6: programs differ: copter's of 1000 columns" in found[0]
    assert "round 6: glop has 0.5, below the bound 1 of copter" in found[1]
    assert said_of(replace(other, own_rounds=True)) == []
