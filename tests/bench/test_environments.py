"""Environments of solvers that run in another interpreter: the option, the settings, and old folders."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from copter.bench import suite
from copter.bench.conditions import rerun
from copter.bench.environments import ENVIRONMENTS, interpreter, read_environment
from copter.bench.result_files import load_suite
from copter.bench.settings import SolverSettings
from copter.bench.solvers import ENVIRONMENT_OF
from copter.bench.suite import Suite, SuiteSettings
from copter.cli.command import command_line
from copter.cli.options import Environment
from copter.errors import CopterError
from support.sample_suite import sample, save

SETTINGS = SuiteSettings("quick", 1, limit=0.25, seconds=1.5)


def test_an_environment_is_a_known_name_and_an_interpreter():
    assert read_environment(f"dede={sys.executable}") == ("dede", Path(sys.executable))
    for text, said in (
        ("dede", "must be NAME=PYTHON"),
        ("dede=", "must be NAME=PYTHON"),
        (f"ded={sys.executable}", "no environment is called 'ded': did you mean dede"),
        ("dede=/nowhere/python", "'dede': /nowhere/python is not a file"),
    ):
        with pytest.raises(CopterError, match=said):
            read_environment(text)


def test_a_solver_names_an_environment_that_is_in_the_table():
    assert set(ENVIRONMENT_OF.values()) <= set(ENVIRONMENTS)
    given = {"dede": Path("python")}
    assert SolverSettings("dede-ours", environments=given).python == Path("python")
    assert SolverSettings("copter", environments=given).python is None
    with pytest.raises(CopterError, match="no environment of dede; docs/how-to/suite.md"):
        SolverSettings("dede").make()
    with pytest.raises(CopterError, match="no environment of hipo"):
        interpreter(given, "hipo")


def test_results_have_the_names_and_no_paths(monkeypatch):
    from copter.problems.load_balancing.cli import BalancingBenchOptions

    stated = replace(SETTINGS, environments={"hipo": Path("/a/b"), "dede": Path("/a/c")}).stated()
    assert stated["environments"] == ["dede", "hipo"] and "/a" not in json.dumps(stated)
    options = BalancingBenchOptions(environment=[Environment("dede", Path("/a/c"))])
    assert options.settings()["environment"] == ["dede"]
    assert options.solver_settings("dede").python == Path("/a/c")
    given = ["copter", "bench", "--environment", "dede=/a/c", "--environment=hipo=/a/b", "--json", "/a/d"]
    monkeypatch.setattr(sys, "argv", given)
    assert command_line() == [*given[:3], "dede=PYTHON", "--environment=hipo=PYTHON", *given[5:]]


def test_a_folder_of_an_older_version_is_read_and_continued(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "all_cases", lambda *given: [])
    with_dede = replace(SETTINGS, environments={"dede": tmp_path})
    Suite(tmp_path, with_dede).run()
    path = tmp_path / "suite.json"
    document = json.loads(path.read_text())
    del document["settings"]["environments"]
    document["settings"]["dede_python"] = True
    path.write_text(json.dumps(document))
    Suite(tmp_path, with_dede)
    with pytest.raises(CopterError, match=r"environments \['dede'\], not \[\]"):
        Suite(tmp_path, SETTINGS)
    old = save(tmp_path / "old", replace(sample(), settings={"dede_python": True}))
    assert "--environment dede=PYTHON" in rerun(load_suite(old), "sia-64")


def test_a_solver_without_its_environment_is_not_run(tmp_path):
    settings = SuiteSettings("quick", 1, limit=5.0, seconds=0.1, solvers=("dede",))
    result = Suite(tmp_path, settings, ["shards-24"]).run()
    one = result.lines["shards-24"].solvers["dede"]
    assert one.status == "not run" and one.reason.startswith("no environment of dede; docs/how-to/suite.md")
