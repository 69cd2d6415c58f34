"""Figures and tables of Sia: how they are made of simulations, and what is printed."""

import math
from collections import Counter
from types import SimpleNamespace

import pytest

from copter.bench.reproduction import Effort, reproductions
from copter.errors import InputError
from copter.problems.sia import Sia, solve_times
from copter.problems.sia import reproductions as module
from copter.problems.sia.generator import generate
from copter.problems.sia.reproductions import (
    COLUMNS,
    POLICIES,
    Played,
    activity,
    simulated,
)
from copter.problems.sia.solve_times import _APART_SECONDS, FOLDER, _grown, day


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
    monkeypatch.setattr(module, "play", lambda scenario, setup, seed: Played(keys, [], {}))
    effort = Effort(1, None, 0, True, lambda _: None)
    for name, who in (("sia-figure-3.7", "Sia"), ("sia-table-3.3-helios", "Helios Sia")):
        shown = {one.column: one for one in reproductions()[name].measure(effort) if one.row == who}
        assert shown["worst FTF"].ours == 2.0 and shown["worst FTF, authors' reading"].ours == 3.0
        assert shown["unfair jobs"].ours == shown["unfair jobs, authors' reading"].ours == 25.0


def job(name, submitted, finished):
    return SimpleNamespace(name=name, application=name.rstrip("12"), submitted=submitted, finished=finished)


def test_activity_is_that_of_the_rounds_of_an_hour(monkeypatch):
    records = [SimpleNamespace(time=1800.0 * k, jobs=k, running=1) for k in range(4)]
    played = Played({}, [job("a", 0.0, 1.0), job("b", 4000.0, 1.0), job("c", 5000.0, 1.0)], {}, records)
    monkeypatch.setattr(module, "play", lambda *args: played)
    monkeypatch.setattr(module, "scenario_of", lambda *args: SimpleNamespace(jobs=played.jobs))
    shown = activity(Effort(2), trace="spike", hours=2, policies={"Sia": {}}, estimator="oracle")
    found = {(one.row, one.column): one.ours for one in shown}
    assert (found["hour 1", "arrivals"], found["hour 2", "arrivals"]) == (1.0, 2.0)
    assert found["hour 1", "Sia: active jobs, p50"] == 0.5 and found["hour 2", "Sia: active jobs, p75"] == 3.0
    assert found["hour 2", "Sia: jobs with GPUs, p25"] == 1.0


@pytest.mark.parametrize("factor", [1.0, 1.6, 2.5])
def test_a_grown_day_has_copies_of_every_job(factor):
    base = generate(gpus=256, jobs_per_day=1000, hours=3.0)
    large = _grown(base, factor, seed=1)
    assert len(large.jobs) == round(factor * len(base.jobs))
    assert large.cluster.gpus == pytest.approx(factor * base.cluster.gpus, rel=0.1)
    counts = Counter(job.name.partition("+")[0] for job in large.jobs)
    assert set(counts) == {job.name for job in base.jobs}
    assert max(counts.values()) - min(counts.values()) <= 1
    times = {job.name: job.time for job in base.jobs}
    assert all(abs(job.time - times[job.name.partition("+")[0]]) <= _APART_SECONDS for job in large.jobs)
    assert [job.time for job in large.jobs] == sorted(job.time for job in large.jobs)
    assert _grown(base, factor, seed=1).jobs == large.jobs


def test_the_table_has_the_printed_times():
    printed = reproductions()["thesis-table-4.1"].printed
    assert printed["COpter", "average JCT"] == 0.36 and printed["COpter", "makespan"] == 29.4
    times = reproductions()["thesis-figure-4.5-25k"].printed
    assert times["COpter", "solve p100"] == 70.4 and ("COpter", "average JCT") not in times


def test_a_missing_workload_is_named(tmp_path):
    with pytest.raises(InputError, match=FOLDER):
        day(tmp_path, 2560, 2)
    (tmp_path / "cluster" / FOLDER).mkdir(parents=True)
    with pytest.raises(InputError, match="workload-2.csv"):
        day(tmp_path, 2560, 2)


def test_a_day_that_is_cut_off_has_no_times_of_jobs():
    scenario = generate(gpus=128, jobs_per_day=400, hours=1.0)
    outcome = solve_times.play(scenario, Sia(), hours=0.5)
    assert all(column.startswith(("solve", "columns")) for column in outcome)
    assert outcome["columns, most"] >= outcome["columns, median"] > 0
