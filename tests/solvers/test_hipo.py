"""HiPO in another interpreter: with a stand-in for it, and the real one where an environment is given."""

import os
import pickle
import sys
from pathlib import Path

import highspy
import numpy as np
import pytest

from copter.bench.solvers import entry_of
from copter.solution import Status
from copter.solvers.baselines import hipo_lp
from support.lp_cases import by_scipy
from support.random_programs import random_program


def solver(python, **settings):
    return entry_of("highs-hipo").make(python=Path(python), **settings)


def test_hipo_needs_the_extra_package():
    """The environment of copter has highspy without HiPO: the error names the option."""
    with pytest.raises(Exception, match="rejected the option solver = hipo"):
        solver(sys.executable).solve(random_program(0))


def test_a_missing_interpreter_is_named(tmp_path):
    with pytest.raises(Exception, match="HiPO: python = .*nowhere"):
        solver(tmp_path / "nowhere").solve(random_program(0))


def test_the_tolerance_tightens_until_the_certificate_holds(monkeypatch):
    """HiPO's answers at a loose tolerance are refused, and it runs again at a third."""
    program = random_program(3)
    known = entry_of("highs-presolve").make().solve(program)
    asked = []

    class Loose:
        ended = False

        def __init__(self, *given, **named):
            pass

        def ask(self, request, values, seconds):
            if request == "load":
                self.model = values
                return {"seconds": 0.25}
            asked.append(values["tolerance"])
            x, dual = answer(self.model)
            if len(asked) < 3:
                x = x * 0.5
            return {"seconds": 0.5, "status": "kOptimal", "iterations": 7, "x": x, "dual": dual}

    monkeypatch.setattr(hipo_lp, "OtherPython", Loose)
    one = solver("python", tolerance=1e-5)
    solution = one.solve(program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(known.objective)
    assert asked == pytest.approx([1e-5, 1e-5 / 3, 1e-5 / 9])
    assert one.seconds(solution, 9.0) == (0.25, pytest.approx(1.5))
    assert pickle.loads(pickle.dumps(one))._worker is None


def answer(model):
    """Return the optimal columns and row duals of a flat model."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = model["c"].size, model["row_lower"].size
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model["c"], model["lower"], model["upper"]
    lp.row_lower_, lp.row_upper_ = model["row_lower"], model["row_upper"]
    lp.a_matrix_.start_, lp.a_matrix_.index_ = model["indptr"], model["indices"]
    lp.a_matrix_.value_ = model["data"]
    highs.passModel(lp)
    highs.run()
    found = highs.getSolution()
    return np.array(found.col_value), np.array(found.row_dual)


@pytest.mark.parametrize("seed", range(3))
def test_hipo_agrees_with_scipy(seed):
    python = os.environ.get("COPTER_HIPO_PYTHON")
    if python is None:
        pytest.skip("COPTER_HIPO_PYTHON names no Python with highspy-extras: see docs/how-to/suite.md")
    program = random_program(seed)
    one = solver(python, tolerance=1e-5)
    for scale in (1.0, 0.5):
        program.update_request(program.request_ids[0], scale=scale)
        solution = one.solve(program)
        assert solution.status is Status.OPTIMAL, solution.reason
        expected = by_scipy(program).fun
        assert solution.objective == pytest.approx(expected, abs=1e-5 * max(1.0, abs(expected)))
    assert one.solve(program, deadline=0.0).status in (Status.OPTIMAL, Status.DEADLINE)
