"""`copter reproduce --all`: what is made, what is left, and what is said beforehand."""

import json

import pytest

from copter.bench import machine, reproduction
from copter.bench.reproduction import PaperFigure, Reproduction
from support.commands import invoke


class Made:
    """Reproductions that count how often they were measured, and with how many seeds."""

    def __init__(self):
        self.seeds = {}
        self.known = {
            name: Reproduction(name, f"about {name}", "a paper", "nothing", self._measure(name), **more)
            for name, more in {
                "a-table-1": {"minutes": 30.0},
                "a-table-2": {"minutes": 3.0, "seeds": 10},
                "b-figure-1": {"needs_data": True},
                "b-figure-2": {},
            }.items()
        }
        self.broken = set()

    def _measure(self, name):
        def measure(effort):
            if name in self.broken:
                raise ValueError("no such thing")
            self.seeds.setdefault(name, []).append(effort.seeds)
            return [PaperFigure("x", "y", "h", 1.0, 2.0)]

        return measure


@pytest.fixture
def made(monkeypatch):
    made = Made()
    monkeypatch.setattr(machine, "commit", lambda: "this")
    monkeypatch.setattr(reproduction, "reproductions", lambda: made.known)
    return made


def run(*arguments, code=0):
    return invoke("reproduce", *arguments, code=code).stderr


def test_all_are_made_once_with_the_seeds_of_each(made, tmp_path):
    said = run("--all", tmp_path)
    assert "b-figure-1" in said.splitlines()[0] and "3 to measure" in said
    assert made.seeds == {"a-table-1": [3], "a-table-2": [10], "b-figure-2": [3]}
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["a-table-1", "a-table-2", "b-figure-2"]
    document = json.loads((tmp_path / "a-table-2.json").read_text())
    assert document["settings"] == {"seeds": 10, "seed": 0, "quick": False, "data": False}
    assert "0 to measure" in run("--all", tmp_path)
    assert made.seeds["a-table-1"] == [3]
    run("a", "--all", tmp_path / "other", "--seeds", 2)
    assert made.seeds == {"a-table-1": [3, 2], "a-table-2": [10, 2], "b-figure-2": [3]}
    run("--all", tmp_path, "--data", tmp_path, "--quick")
    assert made.seeds["b-figure-1"] == [3] and made.seeds["a-table-1"] == [3, 2]


def test_what_was_stopped_goes_on_and_what_fails_is_named(made, tmp_path):
    made.broken = {"a-table-2"}
    said = run("--all", tmp_path, code=1)
    assert "a-table-2: ValueError: no such thing" in said
    assert said.splitlines()[-1] == "Failed: a-table-2"
    made.broken = set()
    run("--all", tmp_path)
    assert made.seeds == {"a-table-1": [3], "a-table-2": [10], "b-figure-2": [3]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--all", "x", "--list"), "cannot be combined with --list"),
        (("--all", "x", "--json", "y.json"), "cannot be combined with --json"),
        (("zzz", "--all", "x"), "zzz"),
    ],
)
def test_wrong_arguments_are_refused(made, arguments, words):
    assert words in run(*arguments, code=2)


def test_the_beginning_of_names_stands_for_all_of_them(made, tmp_path):
    run("a-table")
    assert made.seeds == {"a-table-1": [3], "a-table-2": [10]}
    run("a-table-1", "--seeds", 1)
    assert made.seeds["a-table-1"] == [3, 1] and made.seeds["a-table-2"] == [10]
    made.known["a-table-1x"] = made.known["a-table-2"]  # a whole name is that one, whatever it begins
    run("a-table-1", "--json", tmp_path / "one.json")
    assert json.loads((tmp_path / "one.json").read_text())["name"] == "a-table-1"
