"""The reference LPs by every door: right by default; another solver may give up, but is never wrong."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
from lp_problems import PROBLEMS

from copter import Model, Status, from_arrays, linprog, make_solver, read_model
from copter.bench.solvers import ORTOOLS
from copter.errors import InputError, UnsupportedError
from copter.models.highs import HighsEngine
from copter.solvers.api import SOLVERS
from support import real_data

named = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
DATA = real_data.DATA / "lp"
CODES = {"optimal": 0, "infeasible": 2, "unbounded": 3}


def check(problem, status, value, tolerance=1e-5):
    assert status == problem.status
    if problem.status == 0:
        assert value == pytest.approx(problem.value, abs=tolerance * max(abs(problem.value), problem.scale))


@named
def test_the_values_of_the_table(problem):
    found = scipy.optimize.linprog(**problem.given)
    assert found.status == problem.status or (problem.status in (2, 3) and found.status == 4)
    if problem.status == 0:
        assert found.fun == pytest.approx(problem.value, rel=1e-7, abs=1e-7 * problem.scale)


@named
@pytest.mark.parametrize("method", ["highs", "highs-ds", "highs-ipm"])
def test_linprog(problem, method):
    found = linprog(**problem.given, method=method)
    check(problem, found.status, found.fun)
    if problem.status == 0:
        assert found.certificate.worst() <= 1e-6
        assert found.certificate.bound == pytest.approx(problem.value, rel=1e-6, abs=1e-6 * problem.scale)
    else:
        assert found.ray.kind == {2: "infeasible", 3: "unbounded"}[problem.status]
        assert found.x is found.fun is found.slack is found.lower.residual is None


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_of_the_registry_takes_a_model_or_says_that_it_does_not(name):
    counts: Counter = Counter()
    for problem in PROBLEMS:
        model, solver = from_arrays(**problem.given), make_solver(name, tolerance=1e-6, time_limit=20.0)
        try:
            found = solver.solve(model)
        except UnsupportedError as error:
            assert name.startswith("copter-") or name in ORTOOLS
            assert name in str(error) and "model.solve()" in str(error)
            counts["refused"] += 1
            continue
        assert found.details["solver"] == name
        counts[str(found.status)] += 1
        if str(found.status) in CODES:
            check(problem, CODES[str(found.status)], found.objective, 1e-4)
            counts["right"] += 1
            assert found.ray is not None or found.primal_residual <= 1e-6
    assert counts["refused"] in (0, len(PROBLEMS))
    if not counts["refused"]:
        assert all(counts[status] for status in CODES), counts
        assert counts["right"] >= (
            len(PROBLEMS) if name in ("copter", "highs-hot") else 0.6 * len(PROBLEMS)
        ), counts


@pytest.mark.parametrize("name", ["highs-milp", "copter"])
def test_integral_columns_are_for_solvers_that_know_them(name):
    model = from_arrays([-5.0, -4.0], A_ub=[[3.0, 2.0]], b_ub=[7.0], integrality=1)
    found = make_solver(name).solve(model)
    assert (str(found.status), found.objective, found.x.tolist()) == ("optimal", -13.0, [1.0, 2.0])


@pytest.mark.data
@pytest.mark.long
@pytest.mark.skipif(
    not DATA.is_dir(), reason=f"no files in {DATA}; set COPTER_DATA to the folder of the data"
)
def test_every_lp_of_the_data_is_as_highs_has_it():
    for path in sorted(path for path in DATA.rglob("*") if path.name.endswith((".mps", ".lp", ".gz"))):
        try:
            lp = read_model(path)
        except InputError:  # some files are wrong on purpose
            continue
        lp = replace(lp, integral=np.zeros(lp.c.size, np.bool_))
        highs = HighsEngine.loaded(lp, None, time_limit=720.0)
        highs.run()
        status, found = highs.outcome()[0], Model(lp).solve(time_limit=60.0)
        assert found.status is status or str(status) not in CODES, path.name
        if status is Status.OPTIMAL:
            best = highs.getInfo().objective_function_value
            assert found.objective == pytest.approx(best, rel=1e-6, abs=1e-6), path.name
