"""Figures of Sia against itself, and of its jobs over time, are those of the simulation."""

import math
from types import SimpleNamespace

import pytest

from copter.bench.reproduction import Effort, reproductions
from copter.problems.cluster.results import Segment
from copter.problems.sia import reproductions as module
from copter.problems.sia.reproductions import Played, _busiest, _busy_jobs, activity
from copter.problems.sia.solve_times import policies


@pytest.mark.long
def test_changes_are_those_of_the_rows():
    said = []
    effort = Effort(seeds=1, quick=True, say=said.append)
    figures = {(one.row, one.column): one for one in reproductions()["sia-figure-3.8"].measure(effort)}
    assert len(said) == 4 and all("60 jobs" in line for line in said)
    base = figures["constant penalty", "average JCT"].ours
    for name, printed in (("tau = 180 s", -14.0), ("tau = 300 s", math.nan)):
        change = figures[name, "average JCT, change"]
        assert change.ours == pytest.approx(100 * (figures[name, "average JCT"].ours / base - 1))
        assert change.paper == pytest.approx(printed, nan_ok=True)


def job(name, submitted, finished):
    return SimpleNamespace(name=name, application=name.rstrip("12"), submitted=submitted, finished=finished)


def segment(name, begin, end, gpus):
    return Segment(name, begin, end, "gpu", gpus, 1, None, 0.0, 0.0)


def test_the_time_shown_is_around_the_most_jobs_and_its_jobs_hold_most_gpus():
    jobs = [job("large1", 100.0, 2000.0), job("small1", 0.0, 900.0), job("small2", 700.0, 1200.0)]
    records = [SimpleNamespace(time=100.0 * k, jobs=9 if k == 0 else 1 + (k == 8)) for k in range(30)]
    segments = [
        segment("large1", 100, 2000, 8),
        segment("small1", 0, 900, 1),
        segment("small2", 700, 1200, 2),
    ]
    played = Played({}, jobs, {}, records, segments)
    assert _busiest(played, "large", 400.0) == 600.0
    assert _busiest(played, "large", 2000.0) == 100.0, "not before the job is there"
    assert _busy_jobs(played, 600.0, 1000.0) == {"large": "large1", "small": "small2"}
    assert _busy_jobs(played, 0.0, 90.0) == {"small": "small1"}


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


def test_every_policy_is_timed_on_every_size():
    rows = [one.row for one in policies(Effort(), factors=[2], hours=0.3)]
    assert rows == [f"128 GPUs: {name}" for name in ("Sia", "Pollux", "Gavel+TJ") for _ in range(4)]
