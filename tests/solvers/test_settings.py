"""Settings of solvers are checked when a solver is made, when they are assigned, and in a call."""

import math

import numpy as np
import pytest

from copter import ContinualProgram
from copter.errors import CopterError, EditError, SettingError
from copter.solvers.registry import SOLVERS, make_solver

WRONG = [
    ("tolerance", [-1, 0.0, 1.0, 5.0, math.nan, "1e-6", True, None]),
    ("time_limit", [-1e-9, math.nan, "8", True, [1.0]]),
    ("threads", [0, -1, 1.0, "2", True]),
]
OWN = {
    "copter": [("inner", ["simplex", 1, None]), ("iteration_limit", [-1, 1.5]), ("warm_start", [1, "no"])],
    "highs-hot": [("strategy", ["primary", None]), ("keep_basis", [0])],
    "highs-milp": [("mip_gap", [-1e-4, 1.0, "0", True]), ("method", ["barrier"]), ("crossover", [1])],
    "pdlp": [("warm_start", [None])],
}


@pytest.mark.parametrize("name", SOLVERS)
def test_wrong_settings_are_refused_at_once_and_later(name):
    for setting, values in WRONG + OWN.get(name, []):
        for value in values:
            with pytest.raises(SettingError) as raised:
                make_solver(name, **{setting: value})
            solver = make_solver(name)
            before = getattr(solver, setting)
            with pytest.raises(SettingError) as assigned:
                setattr(solver, setting, value)
            for error in (raised.value, assigned.value):
                assert isinstance(error, EditError) and isinstance(error, (CopterError, ValueError))
                assert (error.subject, error.field) == (name, setting) and str(value) in str(error)
                assert error.value is value
            assert getattr(solver, setting) == before


@pytest.mark.parametrize("name", SOLVERS)
def test_right_settings_are_kept(name):
    solver = make_solver(name, tolerance=np.float64(1e-4), time_limit=2, threads=np.int64(2))
    assert (solver.tolerance, solver.time_limit, solver.threads) == (1e-4, 2.0, 2)
    assert solver.stopping()
    solver.tolerance, solver.time_limit, solver.threads = 1e-5, math.inf, None
    assert (solver.tolerance, solver.time_limit, solver.threads) == (1e-5, None, None)


def test_the_deadline_of_a_call_is_checked_too():
    program = ContinualProgram()
    with pytest.raises(SettingError, match="'copter': time_limit = -1"):
        make_solver("copter").solve(program, time_limit=-1)


def test_what_holds_arrays_is_compared_by_identity():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.add_request("a", [-1.0, -2.0], {"r": 1.0}, total=1.0)
    first, second = (make_solver("copter").solve(program) for _ in range(2))
    assert first == first and first != second and len({first, second}) == 2
    program.update_resources("r", upper=-1.0)
    ray = make_solver("copter").solve(program).ray
    assert ray == ray and hash(ray)
