"""Figures and tables of Sia: how they are made of simulations, and what is printed."""

import math

import pytest

from copter.bench.reproduction import Effort, reproductions
from copter.problems.sia import reproductions as module
from copter.problems.sia.reproductions import (
    COLUMNS,
    POLICIES,
    Played,
    simulated,
)


def test_changes_are_those_of_the_means(monkeypatch):
    jct = {"a": (1.0, 3.0), "b": (2.0, 8.0)}

    def played(effort, row, k, **case):
        return {"average JCT": jct[row][k], "unfair jobs": 15.0}

    monkeypatch.setattr(module, "_sample", played)
    settings = {"row": "{policy}", "axes": {"policy": ["a", "b"]}, "columns": ["average JCT", "unfair jobs"]}
    changes = [{"of": "a", "over": "b"}, {"of": "a", "over": "b", "column": "JCT below", "how": "below"}]
    shown = {(one.row, one.column): one for one in simulated(Effort(2), changes=changes, **settings)}
    first = shown["a", "average JCT"]
    assert (first.ours, first.unit, first.std) == (2.0, "h", pytest.approx(math.sqrt(2.0)))
    assert (shown["b", "unfair jobs"].ours, shown["b", "unfair jobs"].unit) == (15.0, "%")
    assert shown["a", "average JCT, change"].ours == pytest.approx(-60.0)
    assert shown["a", "JCT below"].ours == pytest.approx(60.0) and math.isnan(shown["a", "JCT below"].std)


def test_printed_tables_are_whole():
    """Of every policy of a row all columns, and policies that there are."""
    known = reproductions()
    for trace, label in (("philly", "Philly"), ("helios", "Helios"), ("new-trace", "newTrace")):
        printed = known[f"sia-table-3.3-{trace}"].printed
        for name in ("Sia", "Pollux", "Gavel+TJ"):
            assert sum(row == f"{label} {name}" for row, _ in printed) == (9 if name == "Sia" else 7)
        jct = {name: printed[f"{label} {name}", "average JCT"] for name in ("Sia", "Pollux", "Gavel+TJ")}
        for name in ("Pollux", "Gavel+TJ"):
            below = 100 * (1 - jct["Sia"] / jct[name])
            assert printed[f"{label} Sia", f"JCT below {name}"] == pytest.approx(below)
    rows = {row for name in ("sia-table-3.4", "sia-figure-3.7") for row, _ in known[name].printed}
    assert rows == set(POLICIES)


def test_fairness_is_shown_by_both_readings(monkeypatch):
    keys = {key: 0.25 for key, _, _ in COLUMNS.values()} | {"worst_ftf": 2.0, "worst_ftf_authors": 3.0}
    monkeypatch.setattr(module, "play", lambda scenario, setup, seed: Played(keys, {}))
    effort = Effort(1, None, 0, True, lambda _: None)
    for name, who in (("sia-figure-3.7", "Sia"), ("sia-table-3.3-helios", "Helios Sia")):
        shown = {one.column: one for one in reproductions()[name].measure(effort) if one.row == who}
        assert shown["worst FTF"].ours == 2.0 and shown["worst FTF, authors' reading"].ours == 3.0
        assert shown["unfair jobs"].ours == shown["unfair jobs, authors' reading"].ours == 25.0
