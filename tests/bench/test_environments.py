"""Environments of solvers that run in another interpreter: the option, the settings, and old folders."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from copter.bench.environments import ENVIRONMENTS, interpreter, read_environment
from copter.bench.settings import SolverSettings
from copter.bench.solvers import ENVIRONMENT_OF
from copter.bench.suite import Suite, SuiteSettings
from copter.cli.console import command_line
from copter.cli.options import Environment
from copter.errors import CopterError

SETTINGS = SuiteSettings("quick", 1, limit=0.25, seconds=1.5)


def test_an_environment_is_a_known_name_and_an_interpreter():
    assert read_environment(f"rebalancer={sys.executable}") == ("rebalancer", Path(sys.executable))
    for text, said in (
        ("rebalancer", "must be NAME=PYTHON"),
        ("rebalancer=", "must be NAME=PYTHON"),
        (f"rebalance={sys.executable}", "no environment is called 'rebalance': did you mean rebalancer"),
        ("rebalancer=/nowhere/python", "'rebalancer': /nowhere/python is not a file"),
    ):
        with pytest.raises(CopterError, match=said):
            read_environment(text)


def test_a_solver_names_an_environment_that_is_in_the_table():
    assert set(ENVIRONMENT_OF.values()) <= set(ENVIRONMENTS)
    given = {"rebalancer": Path("python")}
    assert SolverSettings("rebalancer-swap", environments=given).python == Path("python")
    assert SolverSettings("copter", environments=given).python is None
    with pytest.raises(CopterError, match="no environment of rebalancer; docs/how-to/suite.md"):
        interpreter({}, "rebalancer")


def test_results_have_the_names_and_no_paths(monkeypatch):
    from copter.problems.load_balancing.cli import BalancingBenchOptions

    stated = replace(SETTINGS, environments={"rebalancer": Path("/a/c")}).stated()
    assert stated["environments"] == ["rebalancer"] and "/a" not in json.dumps(stated)
    options = BalancingBenchOptions(environment=[Environment("rebalancer", Path("/a/c"))])
    assert options.settings()["environment"] == ["rebalancer"]
    assert options.solver_settings("rebalancer").python == Path("/a/c")
    given = ["copter", "bench", "--environment", "rebalancer=/a/c", "--environment=rebalancer=/a/b"]
    monkeypatch.setattr(sys, "argv", given)
    assert command_line() == [*given[:3], "rebalancer=PYTHON", "--environment=rebalancer=PYTHON"]


def test_a_solver_without_its_environment_is_not_run(tmp_path):
    settings = SuiteSettings("quick", 1, limit=5.0, seconds=0.1, solvers=("rebalancer",))
    result = Suite(tmp_path, settings, ["shards-24"]).run()
    one = result.lines["shards-24"].solvers["rebalancer"]
    assert one.status == "not run"
    assert one.reason.startswith("no environment of rebalancer; docs/how-to/suite.md")
