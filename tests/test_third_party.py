"""Another package's domain, solver and convex term work without a change in copter: docs/examples/serving."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "docs" / "examples" / "serving"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The example as an installer would leave it: its modules, and the entry points of its pyproject.toml."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(EXAMPLE / "serving", site / "serving", ignore=shutil.ignore_patterns("__pycache__"))
    info = site / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in own.items()) for group, own in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return site


def python(site, *arguments, code=0):
    """Standard output of a Python that has the package."""
    path = os.pathsep.join(part for part in (str(site), os.environ.get("PYTHONPATH")) if part)
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr if code else result.stdout


def command(site, *arguments, code=0):
    run = f"import sys; from copter.cli.main import main; sys.argv = ['copter', *{list(arguments)!r}]; main()"
    return python(site, "-c", run, code=code)


def test_its_names_are_listed(site):
    assert "serving" in command(site, "run", "--help") and "serving" in command(site, "bench", "--help")
    lines = json.loads(command(site, "solvers", "--json"))
    assert lines["scipy"] == "scipy's linprog, rebuilt every round" and "copter" in lines


def test_its_domain_runs(site):
    document = json.loads(command(site, "run", "serving", "--rounds", "3", "--json"))
    assert document["solver"] == "copter" and document["rounds"] == 3 and not document["fallbacks"]
    assert [one["status"] for one in document["records"]] == ["optimal"] * 3
    for one in document["records"]:
        assert one["answer_bound"] <= one["answer_objective"] * (1 + 1e-9) and 0 < one["served"] <= 1


def test_its_domain_keeps_its_promises(site):
    document = json.loads(command(site, "check", "serving.model:Serving", "--rounds", "14", "--json"))
    assert document["passed"] and document["counts"]["feasible"] >= 42


@pytest.mark.long
def test_its_domain_is_measured_with_its_solver_and_ours(site):
    size = ["--rounds", "3", "--solvers", "scipy,copter", "--json", "-"]
    document = json.loads(command(site, "bench", "serving", *size, "--isolate"))
    assert set(document["summary"]) == {"scipy", "copter"}
    kept = {name: one["differential_edits"] for name, one in document["summary"].items()}
    assert kept == {"scipy": False, "copter": True}
    objectives = {one["solver"]: one["objective"] for one in document["records"] if one["round"] == 2}
    assert objectives["scipy"] == pytest.approx(objectives["copter"], rel=1e-4)


def test_its_term_solves_and_its_solver_refuses_terms(site):
    code = """
from serving.term import Quadratic
from copter import ContinualProgram, make_solver
from copter.errors import UnsupportedError
program = ContinualProgram()
program.add_resource("gpu", upper=3)
program.add_request("a", costs=[0.0], usage={"gpu": 1.0}, term=Quadratic(1.0, 2.0), upper=10.0)
program.add_request("b", costs=[0.0], usage={"gpu": 1.0}, term=Quadratic(1.0, 3.0), upper=10.0)
solution = make_solver("copter").solve(program)
print(solution.status, round(solution.objective, 4), round(float(solution.x["b"][0]), 2))
try:
    make_solver("scipy", threads=1).solve(program)
except UnsupportedError as error:
    print(error)
"""
    found, refused = python(site, "-c", code).splitlines()
    assert found == "optimal 1.0 2.0" and refused.startswith("solver 'scipy' takes linear programs only")


def test_a_solver_that_cannot_be_loaded_takes_no_other_with_it(site, tmp_path):
    shutil.copytree(site, tmp_path / "broken")
    (tmp_path / "broken" / "serving" / "solver.py").write_text("import no_such_module\n")
    lines = json.loads(command(tmp_path / "broken", "solvers", "--json"))
    assert "No module named 'no_such_module'" in lines["scipy"] and lines["copter"].startswith("proximal")
    said = command(tmp_path / "broken", "run", "serving", "--solver", "scipy", code=1)
    assert "'scipy' (serving.solver:Scipy) cannot be loaded" in said
