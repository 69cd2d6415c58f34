"""Reproductions that need no data; those on the virtual clusters differ from them in their jobs only."""

import pytest

from copter.problems.afs.reproductions import _burst_of, _monitored_hours


@pytest.mark.parametrize(("kind", "others"), [("few", 19), ("many", 67)])
def test_cheap_resizes_let_the_monitored_job_complete_sooner(kind, others):
    jobs = _burst_of(kind, 0).jobs
    assert (jobs[0].name, len(jobs)) == ("monitored", 1 + others)
    assert _monitored_hours(kind, "CoDDL", 0) < _monitored_hours(kind, "full restarts", 0)
