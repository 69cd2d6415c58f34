"""The suite from end to end on a course of a few lines: resume, misses, failures, what is not asked."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from copter.bench import suite
from copter.bench.case import Case, as_it_is
from copter.bench.checks import problems
from copter.bench.course import Course, Play, method_round
from copter.bench.result_files import load_suite
from copter.bench.suite import Suite, SuiteSettings
from copter.errors import CopterError

SETTINGS = SuiteSettings("full", 1, limit=0.2, seconds=5.0)


class Toy(Course):
    """Methods that do what their names say."""

    def small(self):
        return self

    def play(self, settings):
        return Play(self.rounds(settings.name))

    def rounds(self, name):
        for number in range(3):
            if name == "broken" and number == 1:
                raise ArithmeticError("the method is broken")
            if name == "gone":
                raise SystemExit(3)
            seconds = 0.5 if name == "late" and number == 1 else 0.01 * (1 + number)
            gap = 1.0 if name == "liar" else 0.0
            yield method_round(name, number, solve_seconds=seconds, gap=gap, status="optimal")


def line(name, columns, solvers):
    return Case(name, "lp", name, partial(as_it_is, Toy()), solvers, 3, {"columns": columns}, checker="bound")


def made_lines():
    return [
        line("small", 10, ("copter-toy", "late", "liar", "broken")),
        line("large", 1000, ("copter-toy", "late")),
    ]


@pytest.fixture
def lines(monkeypatch):
    made = made_lines()
    monkeypatch.setattr(suite, "all_cases", lambda profile, inputs: list(made))
    return made


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A folder whose suite was interrupted after the second solver."""

    def stop(step):
        if step.number == 3 and step.result is None:
            raise KeyboardInterrupt

    folder = tmp_path_factory.mktemp("stopped") / "out"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(suite, "all_cases", lambda profile, inputs: made_lines())
        Suite(folder, SETTINGS).run(stop)
    return folder


@pytest.fixture
def interrupted(lines, stopped, tmp_path):
    """A copy of this folder."""
    return Path(shutil.copytree(stopped, tmp_path / "out"))


def test_an_interrupted_suite_goes_on(interrupted):
    before = load_suite(interrupted)
    assert not before.complete and list(before.lines["small"].solvers) == ["copter-toy", "late"]
    kept = (interrupted / "lines" / "small" / "copter-toy.json").read_bytes()
    ran = []
    found = Suite(interrupted, SETTINGS).run(lambda step: ran.append((step.line, step.solver)))
    assert found.complete and ran[::2] == [
        ("small", "liar"),
        ("small", "broken"),
        ("large", "copter-toy"),
        ("large", "late"),
    ]
    assert (interrupted / "lines" / "small" / "copter-toy.json").read_bytes() == kept
    small, large = found.lines["small"].solvers, found.lines["large"].solvers
    assert {name: one.status for name, one in small.items()} == {
        "copter-toy": "measured",
        "late": "missed",
        "liar": "measured",
        "broken": "failed",
    }
    assert len(small["late"].records) == 2 and "round 1" in small["late"].reason
    assert "ArithmeticError: the method is broken" in small["broken"].reason
    assert large["late"].status == "not run" and large["late"].reason == "missed at small"
    assert found.lines["small"].certified("copter-toy") and not found.lines["small"].certified("liar")
    wrong = problems(found)
    assert len(wrong) == 2
    assert any("liar claims" in each for each in wrong) and any("broken failed" in each for each in wrong)
    files = {path: path.read_bytes() for path in interrupted.rglob("*.json")}
    Suite(interrupted, SETTINGS).run(pytest.fail)  # nothing is left to run, and the record stays as it is
    assert files == {path: path.read_bytes() for path in interrupted.rglob("*.json")}


def test_a_line_that_is_not_there_is_named(lines, tmp_path):
    with pytest.raises(CopterError, match="no line 'smal'.*small"):
        Suite(tmp_path, SETTINGS, ("smal",))
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit_into_memory_is_not_run(lines, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "all_cases", lambda *given: [line("huge", 1e12, ("highs-hot",))])
    one = Suite(tmp_path, SETTINGS).run(lambda step: None).lines["huge"].solvers["highs-hot"]
    assert one.status == "not run" and one.reason.startswith("memory") and not one.records
    assert "NaN" not in (tmp_path / "lines" / "huge" / "highs-hot.json").read_text()
    assert json.loads((tmp_path / "suite.json").read_text())["settings"]["limit"] == 0.2


def test_other_settings_do_not_go_on(interrupted):
    with pytest.raises(CopterError, match=r"limit 0.2, not 9.0"):
        Suite(interrupted, replace(SETTINGS, limit=9.0))
