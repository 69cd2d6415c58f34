"""Models of OR-Tools MathOpt in and out: optimum, values and duals are those that MathOpt has."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from copter import ContinualProgram, Model, as_program, from_mathopt, make_solver, to_mathopt
from copter.errors import MissingExtraError, UnsupportedError
from copter.models.highs_lp import LPChanges
from support.lp_cases import random_general

mathopt = pytest.importorskip("ortools.math_opt.python.mathopt", reason="needs copter-opt[baselines]")


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_to_mathopt_and_back_keeps_optimum_and_shape(seed, maximize):
    lp = replace(random_general(seed), maximize=maximize)
    model = to_mathopt(lp)
    truth = mathopt.solve(model, mathopt.SolverType.GLOP)
    back = from_mathopt(model)
    source = back.lp
    np.testing.assert_array_equal(source.A.toarray(), lp.A.toarray())
    np.testing.assert_array_equal([source.c, source.lower, source.upper], [lp.c, lp.lower, lp.upper])
    for each in (back, Model(lp)):
        assert each.solve().objective == pytest.approx(truth.objective_value(), rel=1e-6, abs=1e-6)


def diet(maximize: bool) -> mathopt.Model:
    """Every constraint is tight at the only optimum, with a price that is not 0."""
    model = mathopt.Model(name="diet")
    x, gone, y = (model.add_variable(lb=0.0, ub=10.0, name=name) for name in ("x", "gone", "y"))
    model.add_linear_constraint(x + 2 * y <= 14, name="a")
    dropped = model.add_linear_constraint(x <= 1, name="dropped")
    model.add_linear_constraint(3 * x - y <= 0, name="b") if maximize else model.add_linear_constraint(
        3 * x - y >= 3, name="b"
    )
    model.delete_variable(gone)
    model.delete_linear_constraint(dropped)
    if maximize:
        model.maximize(3 * x + 4 * y + 1)
    else:
        model.minimize(2 * x - y + 1)
    return model


@pytest.mark.parametrize("maximize", [False, True])
def test_values_and_duals_are_by_variable_and_constraint(maximize):
    model = diet(maximize)
    truth = mathopt.solve(model, mathopt.SolverType.GLOP)
    for found in (from_mathopt(model).solve(), make_solver("highs-simplex").solve(from_mathopt(model))):
        assert found.values == pytest.approx(truth.variable_values())
        assert found.duals == pytest.approx(truth.dual_values())
        assert [found.objective, found.bound] == pytest.approx([truth.objective_value()] * 2)
    assert any(truth.dual_values().values())


def test_an_allocation_can_be_converted_to_requests():
    model = mathopt.Model()
    x = {(q, j): model.add_binary_variable(name=f"x{q}{j}") for q in range(4) for j in range(3)}
    for q in range(4):
        model.add_linear_constraint(sum(x[q, j] for j in range(3)) <= 1)
    model.add_linear_constraint(sum((q + j + 1) * x[q, j] for q, j in x) <= 9, name="capacity")
    model.maximize(sum((2 + q * j) * x[q, j] for q, j in x))
    found = from_mathopt(model)
    allocation = as_program(found.lp)
    program = allocation.program
    assert (len(program), list(program.resource_ids)) == (4, [4])
    assert [program.requests[q].total for q in program.request_ids] == [1.0] * 4
    truth = mathopt.solve(model, mathopt.SolverType.HIGHS).objective_value()
    x, _ = allocation.point(make_solver("highs-milp", mip_gap=0.0).solve(program))
    assert -found.lp.c @ x == pytest.approx(truth) and found.solve().objective == pytest.approx(truth)


def test_a_model_that_changes_is_followed():
    model = diet(maximize=True)
    found = from_mathopt(model)
    found.solve()
    next(model.linear_constraints()).upper_bound = 10.0
    assert found.update() == LPChanges(0, 0, 1, 0)
    again, truth = found.solve(), mathopt.solve(model, mathopt.SolverType.GLOP)
    assert again.values == pytest.approx(truth.variable_values()) and again.details["start"] == "kept basis"
    model.add_linear_constraint(sum(model.variables()) <= 1.0)
    assert found.update().rows == 3
    truth = mathopt.solve(model, mathopt.SolverType.GLOP)
    assert found.solve().duals == pytest.approx(truth.dual_values())


def test_a_program_s_names_and_kinds_are_in_the_model():
    program = ContinualProgram()
    program.add_resource("gpu", upper=8, lower=1)
    program.add_request("a", [-1.5, -2.25], {"gpu": [1, 2]}, total=1, integral=True)
    program.add_request("b", [-1], {"gpu": [1]}, upper=2)
    model = to_mathopt(program)
    assert [variable.name for variable in model.variables()] == ["a[0]", "a[1]", "b[0]"]
    assert [variable.integer for variable in model.variables()] == [True, True, False]
    assert [row.name for row in model.linear_constraints()] == ["gpu", "total[a]"]
    truth = mathopt.solve(model, mathopt.SolverType.HIGHS)
    assert truth.objective_value() == pytest.approx(make_solver("highs-milp").solve(program).objective)


def test_what_is_no_linear_program_is_named():
    model = mathopt.Model()
    x = model.add_variable(lb=0.0)
    model.minimize(x * x)
    with pytest.raises(UnsupportedError, match="a quadratic objective"):
        from_mathopt(model)


def test_without_ortools_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.math_opt", None)
    with pytest.raises(MissingExtraError, match=r"\.\[baselines\]"):
        to_mathopt(ContinualProgram())
