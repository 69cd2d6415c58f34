"""Reproductions that need no data; those on the virtual clusters differ from them in their jobs only."""

import pytest

from copter.bench.reproduction import Effort
from copter.problems.afs.reproductions import REPRODUCTIONS, burst, monitored_hours

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
