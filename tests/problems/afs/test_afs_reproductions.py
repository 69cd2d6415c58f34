"""Reproductions that need no data; those on the virtual clusters differ from them in their jobs only."""

import pytest

from copter.problems.afs import traces
from copter.problems.afs.reproductions import _burst_of, _monitored_hours, _quickly


@pytest.mark.parametrize(("kind", "others"), [("few", 19), ("many", 67)])
def test_cheap_resizes_let_the_monitored_job_complete_sooner(kind, others):
    jobs = _burst_of(kind, 0).jobs
    assert (jobs[0].name, len(jobs)) == ("monitored", 1 + others)
    assert _monitored_hours(kind, "CoDDL", 0) < _monitored_hours(kind, "full restarts", 0)


def test_traces_run_quickly_keep_their_jobs_and_have_less_of_everything():
    whole = traces.virtual_cluster(traces.testbed(), 1, None, jobs=40)
    quick = _quickly(whole, 0.01, seed=3)
    assert [job.name for job in quick.jobs] == [job.name for job in whole.jobs]
    assert [job.time for job in quick.jobs] == pytest.approx([0.01 * job.time for job in whole.jobs])
    restarts = {}
    for job in quick.jobs:
        before, after = (one.profiles[job.application] for one in (whole, quick))
        assert after.progress[-1] == pytest.approx(0.01 * before.progress[-1])
        assert 20.0 <= after.restart_seconds <= 60.0
        assert restarts.setdefault(job.category, after.restart_seconds) == after.restart_seconds
    assert len(set(restarts.values())) == len(restarts) > 1
