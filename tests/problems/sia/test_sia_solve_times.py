"""Table 4.1: days of the authors, days grown from them, and what is recorded of a simulation."""

from collections import Counter

import pytest

from copter.bench.reproduction import reproductions
from copter.errors import InputError
from copter.problems.reading import find
from copter.problems.sia.generator import generate
from copter.problems.sia.solve_times import _APART_SECONDS, FOLDER, _grown, day
from support.real_data import DATA

needs_data = pytest.mark.skipif(find(DATA, FOLDER) is None, reason="needs the authors' workloads")


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


@needs_data
@pytest.mark.data
def test_days_of_the_authors():
    scenario = day(DATA, 512, 12, hours=1.0)  # the tenth is the last: 12 is the second again
    assert scenario.jobs == day(DATA, 512, 2, hours=1.0).jobs
    assert scenario.cluster.gpus == 512 and 0 < len(scenario.jobs) < 400
    assert all(job.time < 3600.0 for job in scenario.jobs)
