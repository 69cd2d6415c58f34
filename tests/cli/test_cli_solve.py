"""`copter solve`: files in, figures and exit code out."""

import csv
import json

import numpy as np
import pytest

from copter.solvers.general.integer import IntegerAnswer
from copter.status import Status
from support.commands import invoke
from support.mps_texts import RANGES

LP = """Minimize
 obj: -2 x - 3 y + z
Subject To
 {rows}
Bounds
 x <= 4
 -1 <= z <= 10
End
"""
FEASIBLE = "a: x + y <= 5\n b: x - z <= 3"
INFEASIBLE = "a: x + y >= 5\n b: x + y <= 3"
UNBOUNDED = "a: x - y <= 5"


def solve(tmp_path, text, *options, code=0):
    path = tmp_path / "problem.lp"
    path.write_text(text)
    return invoke("solve", path, *options, code=code)


@pytest.mark.parametrize("solver", ["copter", "highs-simplex"])
def test_optimal(tmp_path, solver):
    result = solve(tmp_path, LP.format(rows=FEASIBLE), "--solver", solver, "--json")
    figures = json.loads(result.stdout)
    assert figures["status"] == "optimal"
    assert figures["objective"] == pytest.approx(-16.0, abs=1e-4)
    assert figures["gap"] <= 1e-6
    assert (figures["rows"], figures["columns"], figures["nonzeros"]) == (2, 3, 4)


@pytest.mark.parametrize(
    ("rows", "status", "code"), [(INFEASIBLE, "infeasible", 3), (UNBOUNDED, "unbounded", 4)]
)
def test_programs_without_an_optimum_are_answers_too(tmp_path, rows, status, code):
    result = solve(tmp_path, LP.format(rows=rows), "--json", "--solution", tmp_path / "none.csv", code=code)
    figures = json.loads(result.stdout)
    assert figures["status"] == figures["ray"]["kind"] == status
    assert figures["objective"] is None
    assert (tmp_path / "none.csv").read_text().split() == ["kind,name,value,price"]


KNAPSACK = "Maximize\n obj: 5 x + 4 y + 10\nSubject To\n a: 3 x + 2 y <= 7\nGeneral\n x y\nEnd\n"


@pytest.mark.parametrize("options", [(), ("--solver", "highs-milp"), ("--threads", "1")])
def test_integers_are_solved(tmp_path, options):
    result = solve(tmp_path, KNAPSACK, "--json", *options)
    figures = json.loads(result.stdout)
    assert figures["sense"] == "maximize" and figures["integral_columns"] == 2 and not figures["relaxed"]
    assert figures["objective"] == pytest.approx(23.0) == figures["bound"]
    assert figures["gap"] <= 1e-6 and figures["engine"] == "branch and bound"
    assert "hold exactly" in figures["reason"]


def test_integers_are_relaxed_on_demand_alone(tmp_path):
    figures = json.loads(solve(tmp_path, KNAPSACK, "--json", "--relax").stdout)
    assert figures["relaxed"] and figures["objective"] == pytest.approx(24.0) == figures["bound"]
    result = solve(tmp_path, KNAPSACK, "--solver", "highs-simplex", code=1)
    assert "2 columns are integral, which highs-simplex does not support" in str(result.exception)
    solve(tmp_path, KNAPSACK, "--solver", "highs-simplex", "--relax")


def test_answers_without_a_proof_have_codes_of_their_own(tmp_path, monkeypatch):
    from copter.solvers.general import model

    x, reason = np.array([1.0, 1.0]), "HiGHS: Time limit reached"
    late = IntegerAnswer(Status.DEADLINE, reason, x, -19.0, -23.0, 4 / 19, 1, 0.0)
    monkeypatch.setattr(model, "solve_integer", lambda *_, **__: late)
    figures = json.loads(solve(tmp_path, KNAPSACK, "--json", code=5).stdout)
    assert (figures["status"], figures["objective"], figures["bound"]) == ("deadline", 19.0, 23.0)
    assert figures["gap"] == pytest.approx(4 / 19) and not figures["certified"]
    monkeypatch.setattr(model, "solve_integer", lambda *_, **__: IntegerAnswer(Status.DEADLINE, reason))
    figures = json.loads(solve(tmp_path, KNAPSACK, "--json", code=6).stdout)
    assert figures["objective"] is None is figures["bound"]


def test_the_solution_is_written_by_name(tmp_path):
    table = tmp_path / "found.csv"
    solve(tmp_path, KNAPSACK, "--solution", str(table))
    assert list(csv.reader(table.open())) == [
        ["kind", "name", "value", "price"],
        ["column", "x", "1.0", ""],
        ["column", "y", "2.0", ""],
        ["row", "a", "7.0", ""],
    ]
    document = tmp_path / "found.json"
    solve(tmp_path, LP.format(rows=FEASIBLE), "--solution", str(document))
    found = json.loads(document.read_text())
    assert found["status"] == "optimal" and found["objective"] == pytest.approx(-16.0)
    assert {each["name"]: each["value"] for each in found["columns"]} == pytest.approx(
        {"x": 0, "y": 5, "z": -1}
    )
    assert {each["name"]: each["activity"] for each in found["rows"]} == pytest.approx({"a": 5, "b": 1})
    assert {each["name"]: each["price"] for each in found["rows"]} == pytest.approx({"a": 3, "b": 0})
    solve(tmp_path, KNAPSACK, "--solution", str(tmp_path / "found.txt"), code=2)
    solve(tmp_path, KNAPSACK, "--solution", str(tmp_path / "nowhere" / "found.csv"), code=2)


def test_a_misspelt_row_is_an_error_unless_asked_otherwise(tmp_path):
    path = tmp_path / "misspelt.mps"
    path.write_text(RANGES.replace("x high 3.5", "x hihg 3.5"))
    result = invoke("solve", str(path), code=1)
    assert "line 12, COLUMNS: there is no row 'hihg'" in str(result.exception)
    assert "--no-strict" in str(result.exception) and "strict=False" not in str(result.exception)
    with pytest.warns(UserWarning, match="hihg"):
        invoke("solve", path, "--no-strict", code=3)  # of row high nothing is left
