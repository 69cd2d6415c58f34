"""The two jobs of AFS' appendix A: the shortest first is best, unless more jobs come."""

import pytest

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator, make_policy
from copter.problems.cluster.profiles import CountProfile

HOUR = 3600.0


def average_jct(policy, after=None, arrivals=0):
    """Hours; A and B take 2 h on one of two GPUs, A 1 h and B 1.5 h on both, later jobs 2 h and `after` h."""
    hours = {"A": 1.0, "B": 1.5} | ({} if after is None else {"C": after})
    apps = {name: CountProfile(name, 0.0, 2 * HOUR, [1, 2], {"g": [1.0, 2 / h]}) for name, h in hours.items()}
    times = [("A", 0.0), ("B", 0.0)] + [("C", 1.0 + k * after) for k in range(arrivals)]
    jobs = [
        JobSubmission(f"{app}{k}", time * HOUR, "", app, tuned_gpus=2) for k, (app, time) in enumerate(times)
    ]
    simulator = Simulator(Scenario(Cluster([GpuType("g", 2, 1)]), jobs, apps), make_policy(policy))
    for _ in simulator.run():
        pass
    results = simulator.job_results()
    return sum(job.jct for job in results) / len(results) / HOUR


def test_the_shorter_job_first_is_best_for_two_jobs():
    # The paper prints 1.25 h, the mean of the run times 1 and 1.5 h: B completes after 2.5 h.
    assert average_jct("srtf") == pytest.approx((1.0 + 2.5) / 2)
    assert average_jct("max-min") == pytest.approx(2.0)


@pytest.mark.parametrize("after", [1.1, 1.4, 1.6, 1.9])
def test_equal_shares_are_better_when_more_jobs_come(after):
    assert average_jct("max-min", after, 20) < average_jct("srtf", after, 20)
