"""`copter solve`: files in, figures and exit code out."""

import json

import pytest
from typer.testing import CliRunner

from copter.cli.main import app

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


def solve(tmp_path, rows, *options):
    path = tmp_path / "problem.lp"
    path.write_text(LP.format(rows=rows))
    return CliRunner().invoke(app, ["solve", str(path), *options])


@pytest.mark.parametrize("solver", ["copter", "highs-simplex"])
def test_optimal(tmp_path, solver):
    result = solve(tmp_path, FEASIBLE, "--solver", solver, "--json")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert figures["status"] == "optimal"
    assert figures["objective"] == pytest.approx(-16.0, abs=1e-4)
    assert figures["gap"] <= 1e-6
    assert (figures["rows"], figures["columns"], figures["nonzeros"]) == (2, 3, 4)


@pytest.mark.parametrize(("rows", "status"), [(INFEASIBLE, "infeasible"), (UNBOUNDED, "unbounded")])
def test_programs_without_an_optimum_are_answers_too(tmp_path, rows, status):
    result = solve(tmp_path, rows, "--json")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert figures["status"] == figures["ray"]["kind"] == status
    assert figures["objective"] is None


def test_a_maximisation_with_integers_is_reported_in_its_own_sense(tmp_path):
    path = tmp_path / "knapsack.lp"
    path.write_text("Maximize\n obj: 5 x + 4 y\nSubject To\n a: 3 x + 2 y <= 7\nGeneral\n x y\nEnd\n")
    objectives = {"highs-milp": 13.0, "highs-simplex": 14.0}
    for solver, objective in objectives.items():
        result = CliRunner().invoke(app, ["solve", str(path), "--solver", solver, "--json"])
        assert result.exit_code == 0
        figures = json.loads(result.stdout)
        assert figures["sense"] == "maximize" and figures["integral_columns"] == 2
        assert figures["objective"] == pytest.approx(objective)
        assert figures["bound"] == pytest.approx(14.0)  # the relaxation's, from above
        assert figures["relaxed"] == (solver == "highs-simplex")
    assert "HiGHS' bound" in CliRunner().invoke(app, ["solve", str(path), "--solver", "highs-milp"]).stdout


def test_the_table_says_what_json_says(tmp_path):
    result = solve(tmp_path, FEASIBLE)
    assert "optimal" in result.stdout and "certified bound" in result.stdout


def test_a_file_that_is_none_and_one_that_holds_something_else(tmp_path):
    result = CliRunner().invoke(app, ["solve", str(tmp_path / "nowhere.mps")])
    assert result.exit_code == 2
    assert "nowhere.mps is no file" in " ".join(result.output.split())
    (tmp_path / "letter.mps").write_text("Dear Sir or Madam,")
    result = CliRunner().invoke(app, ["solve", str(tmp_path / "letter.mps")])
    assert result.exit_code == 1
    assert "cannot be read" in str(result.exception)
