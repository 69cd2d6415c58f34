"""Figures of Sia against itself, and of its jobs over time, are those of the simulation."""

import math
from types import SimpleNamespace

import pytest

from copter.bench.reproduction import Effort, reproductions
from copter.problems.sia import reproductions as module
from copter.problems.sia.reproductions import Played, activity


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
