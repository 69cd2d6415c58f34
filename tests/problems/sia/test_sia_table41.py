"""Table 4.1: days of the authors, days grown from them, and what is recorded of a simulation."""

from collections import Counter

import numpy as np
import pytest

from copter.bench.reproduction import Effort
from copter.errors import InputError
from copter.problems.reading import find
from copter.problems.sia.generator import generate
from copter.problems.sia.pop import Pop
from copter.problems.sia.scheduler import Sia
from copter.problems.sia.table41 import (
    APART_SECONDS,
    FOLDER,
    REPRODUCTIONS,
    Outcome,
    _measure,
    day,
    grown,
    play,
)
from support.real_data import DATA

needs_data = pytest.mark.skipif(find(DATA, FOLDER) is None, reason="needs the authors' workloads")


@pytest.mark.parametrize("factor", [1.0, 1.6, 2.5])
def test_a_grown_day_has_copies_of_every_job(factor):
    base = generate(gpus=256, jobs_per_day=1000, hours=3.0)
    large = grown(base, factor, seed=1)
    assert len(large.jobs) == round(factor * len(base.jobs))
    assert large.cluster.gpus == pytest.approx(factor * base.cluster.gpus, rel=0.1)
    counts = Counter(job.name.partition("+")[0] for job in large.jobs)
    assert set(counts) == {job.name for job in base.jobs}
    assert max(counts.values()) - min(counts.values()) <= 1
    times = {job.name: job.time for job in base.jobs}
    assert all(abs(job.time - times[job.name.partition("+")[0]]) <= APART_SECONDS for job in large.jobs)
    assert [job.time for job in large.jobs] == sorted(job.time for job in large.jobs)
    assert grown(base, factor, seed=1).jobs == large.jobs


def test_pop_is_timed_by_its_longest_part():
    scenario = generate(gpus=128, jobs_per_day=200, hours=1.0)
    policy = Pop(parts=2, solver="copter")
    outcome = play(scenario, policy)
    assert 0 < outcome.jct < outcome.makespan
    assert outcome.solves[-1] == policy.figures["parallel_seconds_estimated"]


def test_solve_times_are_shown_as_percentiles():
    columns = Outcome(0.5, 7.0, tuple(np.arange(101) / 100.0)).columns
    assert columns["average JCT"] == (0.5, "h") and columns["makespan"] == (7.0, "h")
    assert [columns[f"solve p{p}"][0] for p in (10, 50, 99, 100)] == pytest.approx([0.1, 0.5, 0.99, 1.0])


def test_a_day_that_is_cut_off_has_no_times_of_jobs():
    scenario = generate(gpus=128, jobs_per_day=400, hours=1.0)
    outcome = play(scenario, Sia(), hours=0.5)
    assert len(outcome.solves) <= 30 and np.isnan(outcome.jct) and "makespan" not in outcome.columns


def test_figures_are_means_over_the_days():
    days = [generate(gpus=64, jobs_per_day=100, hours=1.0, seed=seed) for seed in (1, 2)]
    lines = []
    figures = _measure(Effort(say=lines.append), days, {"COpter": Sia}, gpus=10240)
    jct = [play(scenario, Sia()).jct for scenario in days]
    assert figures[0].ours == pytest.approx(np.mean(jct)) and figures[0].std == pytest.approx(
        np.std(jct, ddof=1)
    )
    assert (figures[0].column, figures[0].paper, figures[1].paper) == ("average JCT", 0.36, 29.4)
    assert len(lines) == 2 and len({one.name for one in REPRODUCTIONS}) == len(REPRODUCTIONS)


def test_a_missing_workload_is_named(tmp_path):
    with pytest.raises(InputError, match=FOLDER):
        day(tmp_path, 2560, 2)
    (tmp_path / "cluster" / FOLDER).mkdir(parents=True)
    with pytest.raises(InputError, match="workload-2.csv"):
        day(tmp_path, 2560, 2)


@needs_data
@pytest.mark.data
def test_days_of_the_authors():
    scenario = day(DATA, 512, 12, hours=1.0)  # the tenth is the last: 12 is the second again
    assert scenario.jobs == day(DATA, 512, 2, hours=1.0).jobs
    assert scenario.cluster.gpus == 512 and 0 < len(scenario.jobs) < 400
    assert all(job.time < 3600.0 for job in scenario.jobs)
