"""`copter check`, `copter run` and `copter bench` of a domain that is named."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from copter.cli.main import app
from copter.errors import DomainNameError
from copter.rounds.named import domain_named
from support.commands import invoke, words

DOMAIN = "support.machines:Machines"
FILE = """
from support.machines import Machines


class Greedy(Machines):
    def fallback(self):
        return dict.fromkeys(self.program.request_ids, 2)

    def figures(self, answer):
        return {}
"""


SILENT = """
from copter import ChooseOneDomain


class Silent(ChooseOneDomain):
    def apply(self, event):
        pass
"""


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are found in the present folder, and beside a file that is named."""
    monkeypatch.setattr(sys, "path", sys.path.copy())


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "greedy_domain.py").write_text(FILE)
    return str(tmp_path / "greedy_domain.py")


def test_a_sound_domain_is_checked() -> None:
    found = json.loads(invoke("check", DOMAIN, "--rounds", 14, "--json").stdout)
    assert found["passed"] and found["counts"]["feasible"] >= 42
    assert (found["rounds"], found["rounds_wanted"]) == (14, 14)
    assert "passed all checks" in words(invoke("check", DOMAIN, "--rounds", 7))
    short = invoke("check", DOMAIN, "--rounds", 7, "--seconds", 0)
    assert "passed all checks" in words(short) and "played 1 of 7 rounds in 0 s" in short.stderr


def test_a_broken_domain_ends_with_the_events_that_show_it(file: str) -> None:
    result = CliRunner().invoke(app, ["check", f"{file}:Greedy", "--rounds", "20"])
    assert result.exit_code == 1
    assert "feasible: fallback: resource 'gpu'" in str(result.exception)
    assert "('arrive', " in str(result.exception)


def test_rounds_are_run_into_a_folder(tmp_path: Path) -> None:
    out, journal = tmp_path / "run", tmp_path / "rounds.sqlite"
    arguments = ("run", DOMAIN, "--rounds", 5, "--time-limit", 60, "--journal", journal)
    invoke(*arguments, "--out", out)
    rows = list(csv.DictReader((out / "rounds.csv").open()))
    assert [row["round"] for row in rows] == list("01234") and {row["path"] for row in rows} == {"solved"}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["rounds"] == 5 and summary["figures"]["objective_mean"] >= 0
    again = json.loads(invoke(*arguments, "--json").stdout)
    assert [row["round"] for row in again["records"]] == [5, 6, 7, 8, 9]
    assert again["records"][0].keys() == rows[0].keys()


CHANGING = """
from support.machines import Machines


class Changing(Machines):
    def figures(self, answer):
        self.played = getattr(self, "played", 0) + 1
        return {"always": 1.0} | ({"now": 2.0} if self.played % 3 == WHEN else {})
"""


@pytest.mark.parametrize("when", [0, 1])
def test_rounds_may_have_other_figures_than_the_first_one(tmp_path: Path, when: int) -> None:
    file, out = tmp_path / f"changing_{when}.py", tmp_path / "run"
    file.write_text(CHANGING.replace("WHEN", str(when)))
    invoke("run", f"{file}:Changing", "--rounds", 6, "--out", out)
    rows = list(csv.DictReader((out / "rounds.csv").open()))
    assert len(rows) == 6 and ("now" in rows[0]) == (when == 1)


def test_a_document_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "folder", tmp_path / "file" / "x.json"):
        result = CliRunner().invoke(app, ["run", DOMAIN, f"--json={path}"])
        assert result.exit_code == 2 and "cannot be written" in words(result)
    assert "completion" not in invoke("run", DOMAIN, "--help").output
    listed = json.loads(invoke("reproduce", "--list", "--json").stdout)
    assert len(listed) > 15 and {"name", "content", "minutes"} <= listed[0].keys()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("machines", "must have the form module:Name"),
        (":Machines", "must have the form module:Name"),
        ("no_such_module:Machines", "there is no module 'no_such_module'"),
        ("support.no_such:Machines", "there is no module 'support.no_such'"),
        ("support.machines:Nothing", "has no Nothing"),
        ("support.machines:annotations", "is a _Feature, and must be a class or a function"),
        ("no/such/file.py:Machines", "there is no file no/such/file.py"),
    ],
)
def test_a_name_that_is_wrong(name: str, why: str) -> None:
    with pytest.raises(DomainNameError, match=why):
        domain_named(name)


@pytest.mark.parametrize("command", ["run", "check", "bench"])
def test_a_domain_that_needs_arguments_or_has_no_events(tmp_path: Path, command: str) -> None:
    (tmp_path / "silent_domain.py").write_text(SILENT)
    network = "copter.problems.traffic.model:TrafficEngineering"
    for name, why in (
        (network, "TrafficEngineering: must be callable without arguments: missing"),
        (f"{tmp_path}/silent_domain.py:Silent", "must have events(rng)"),
    ):
        result = CliRunner().invoke(app, [command, name])
        assert result.exit_code == 1 and why in str(result.exception)
