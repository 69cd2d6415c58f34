"""Reproductions that need no data; those on the virtual clusters differ from them in their jobs only."""

import pytest

from copter.bench.reproduction import Effort
from copter.problems.afs import traces
from copter.problems.afs.reproductions import REPRODUCTIONS, burst, monitored_hours, quickly

BY_NAME = {one.name: one for one in REPRODUCTIONS}
QUICK = Effort(seeds=1, quick=True)


def test_the_toy_example_has_the_order_of_the_paper():
    hours = {(one.row, one.column): one.ours for one in BY_NAME["afs-appendix-a"].measure(QUICK)}
    assert hours["A and B", "srtf"] < hours["A and B", "max-min"]
    for x in ("1.25", "1.75"):
        assert hours[f"20 more, x = {x}", "max-min"] < hours[f"20 more, x = {x}", "srtf"]


def test_two_jobs_are_counted():
    shares = {(one.row, one.column): one.ours for one in BY_NAME["afs-two-jobs"].measure(QUICK)}
    for row in ("concave curves", "any growing curves"):
        for rule in ("(1) and (2)", "Algorithm 1"):
            assert 0 < shares[row, f"{rule}: best"] <= 1
            assert shares[row, f"{rule}: JCT over the best"] >= 1
    # The paper's claim, which does not hold for every pair.
    assert 0.85 < shares["concave curves", "(1) and (2): best"] < 1


@pytest.mark.parametrize(("kind", "others"), [("few", 19), ("many", 67)])
def test_cheap_resizes_let_the_monitored_job_complete_sooner(kind, others):
    jobs = burst(kind, 0).jobs
    assert (jobs[0].name, len(jobs)) == ("monitored", 1 + others)
    assert monitored_hours(kind, "CoDDL", 0) < monitored_hours(kind, "full restarts", 0)


def test_traces_run_quickly_keep_their_jobs_and_have_less_of_everything():
    whole = traces.virtual_cluster(traces.testbed(), 1, None, jobs=40)
    quick = quickly(whole, 0.01, seed=3)
    assert [job.name for job in quick.jobs] == [job.name for job in whole.jobs]
    assert [job.time for job in quick.jobs] == pytest.approx([0.01 * job.time for job in whole.jobs])
    restarts = {}
    for job in quick.jobs:
        before, after = (one.profiles[job.application] for one in (whole, quick))
        assert after.progress[-1] == pytest.approx(0.01 * before.progress[-1])
        assert 20.0 <= after.restart_seconds <= 60.0
        assert restarts.setdefault(job.category, after.restart_seconds) == after.restart_seconds
    assert len(set(restarts.values())) == len(restarts) > 1
