"""Names, settings and answers of solvers: what is refused, what is raised, and how they print."""

import pickle
from importlib.metadata import EntryPoint

import pytest

from copter import ContinualProgram, Status, make_solver
from copter.errors import (
    CopterError,
    EditError,
    NoAllocationError,
    NotOptimalError,
    SolverError,
    UnknownSolverError,
)
from copter.solution import ColdStart, check_found
from copter.solvers import api
from copter.solvers.api import SOLVERS
from copter.solvers.base import Solver
from copter.solvers.registry import Registry


def small(capacity=8.0):
    program = ContinualProgram()
    program.add_resource("gpu", upper=capacity)
    program.add_request("job", [-1.0, -1.8, -2.5], {"gpu": [1, 2, 10]}, total=1, relation="==")
    return program


def test_an_unknown_solver_is_told_its_nearest_and_all():
    with pytest.raises(UnknownSolverError, match="did you mean highs-simplex.*copter-cd.*pdlp"):
        make_solver("highs-simple")
    with pytest.raises(UnknownSolverError) as raised:
        make_solver("zebra")
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize("name", SOLVERS)
def test_an_unknown_setting_names_solver_setting_and_those_that_there_are(name):
    with pytest.raises(TypeError) as raised:
        make_solver(name, tolerence=1)
    said = str(raised.value)
    assert not isinstance(raised.value, EditError) and repr(name) in said and "'tolerence'" in said
    assert "did you mean tolerance?" in said and "time_limit, threads" in said


def test_a_solver_prints_its_name_and_the_settings_that_are_not_the_usual_ones():
    assert repr(make_solver("copter")) == "ProximalPoint('copter', engine='fastest')"
    assert repr(make_solver("copter-cd", tolerance=1e-4)) == (
        "ProximalPoint('copter-cd', tolerance=0.0001, inner='cd', fall_back=False)"
    )
    assert repr(make_solver("highs-ipm", threads=2)) == "HighsRebuild('highs-ipm', threads=2, method='ipm')"


@pytest.mark.parametrize("name", SOLVERS)
def test_an_answer_that_is_not_optimal_is_raised_where_that_is_wanted(name):
    solver = make_solver(name)
    assert solver.solve(small(), raise_error=True).status is Status.OPTIMAL
    infeasible = small(0.5)
    with pytest.raises(NotOptimalError, match="not optimal: infeasible: ") as raised:
        solver.solve(infeasible, raise_error=True)
    solution = raised.value.solution
    assert solution.status is Status.INFEASIBLE and solution.ray.value > 0


@pytest.mark.parametrize("name", ["copter", "highs-simplex", "glop"])
def test_a_deadline_is_an_error_too_where_that_is_wanted(name):
    late = make_solver(name)
    with pytest.raises(NotOptimalError, match="deadline") as raised:
        late.solve(small(), time_limit=0.0, raise_error=True)
    assert raised.value.solution.status is Status.DEADLINE
    assert late.solve(small()).status is Status.OPTIMAL, "an error has left the solver unusable"


def test_errors_of_solvers_are_one_family():
    for kind in (NotOptimalError, NoAllocationError):
        assert issubclass(kind, SolverError) and issubclass(kind, (CopterError, RuntimeError))
    solution = make_solver("copter").solve(small(0.5))
    with pytest.raises(SolverError, match="there is no allocation: infeasible"):
        check_found(solution)
    error = pickle.loads(pickle.dumps(NotOptimalError(solution)))
    assert error.solution.status is Status.INFEASIBLE


def test_a_solution_prints_what_it_came_to():
    program, solver = small(), make_solver("copter")
    first = repr(solver.solve(program))
    assert first.startswith("<Solution optimal: objective -2.325, gap ") and first.endswith(
        " s, cold (no earlier round)>"
    )
    assert repr(solver.solve(program)).endswith(" s, warm>")
    program.update_resources("gpu", upper=0.5)
    assert repr(solver.solve(program)).startswith("<Solution infeasible: no allocation, ")


def test_reasons_of_a_cold_start_are_labels_with_a_sentence():
    assert len({reason.sentence for reason in ColdStart}) == len(ColdStart)
    for reason in ColdStart:
        assert reason.isidentifier() and " " in reason.sentence and ColdStart(str(reason)) is reason
        assert pickle.loads(pickle.dumps(reason)) is reason
    solver = make_solver("copter")
    solver.solve(small())
    other = solver.solve(small())
    assert other.cold_start is ColdStart.OTHER_PROGRAM == "other_program"
    assert other.warm_reason == ColdStart.OTHER_PROGRAM.sentence


def test_a_model_that_was_lost_or_is_of_another_program_is_no_first_round():
    solver, program = make_solver("highs-hot"), small()
    assert solver.solve(program).cold_start is ColdStart.FIRST_ROUND
    assert solver.solve(small()).cold_start is ColdStart.OTHER_PROGRAM
    assert pickle.loads(pickle.dumps(solver)).solve(small()).cold_start is ColdStart.NOTHING_LEFT
    solver.reset()
    assert solver.solve(program).cold_start is ColdStart.FIRST_ROUND


def test_authors_of_solvers_get_the_names_that_solvers_are_made_of():
    assert api.Solver is Solver and api.SOLVERS is SOLVERS and api.ColdStart is ColdStart


def test_a_name_of_this_package_stays_what_it_is_whoever_takes_it_too(monkeypatch):
    theirs = {"copter": "elsewhere:Other", "zz": "math:pi"}
    taken = [EntryPoint(name, target, "copter.solvers") for name, target in theirs.items()]
    monkeypatch.setattr("copter.solvers.registry.entry_points", lambda group: taken)
    registry = Registry({"copter": SOLVERS["copter"]})
    assert list(registry) == ["copter", "zz"] and len(registry) == 2
    assert registry["copter"] is SOLVERS["copter"] and registry["zz"].target == "math:pi"
    assert "highs" not in registry
