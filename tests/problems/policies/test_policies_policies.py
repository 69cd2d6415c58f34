"""The baselines in the simulator: shares become rounds, no GPU idles, the same run twice is the same."""

from collections import defaultdict

import numpy as np
import pytest

from copter.problems.cluster.policy import ClusterState, PolicyError
from copter.problems.cluster.registry import make_policy
from copter.problems.policies import Mechanism, look
from support.policy_cases import cluster_of, random_scenario, round_of, scenario_of, simulate, state_of

NAMES = (
    "allox",
    "gandiva-fair",
    "gavel",
    "gavel-ftf",
    "gavel-makespan",
    "gavel-max-sum",
    "ossp",
    "srpt",
    "themis",
)


class Fixed(Mechanism):
    """Shares that a test sets, by name."""

    name = "fixed"

    def __init__(self, shares):
        super().__init__()
        self.by_name = shares

    def shares(self, now):
        return np.array([self.by_name[name] for name in now.names])


def hours_by_type(simulator):
    held = defaultdict(float)
    for segment in simulator.segments:
        held[segment.job, segment.type] += segment.end - segment.begin
    return held


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_rounds_follow_the_shares(share):
    """Two jobs, one GPU of each type: each job is on each type for its share of the time."""
    jobs = [(name, (1.0, 1.0), 1, 1e6, 0.0) for name in ("a", "b")]
    source = Fixed({"a": [share, 1 - share], "b": [1 - share, share]})
    run = simulate(scenario_of(cluster_of(1, 1), jobs), source, max_hours=40.0)
    held = hours_by_type(run)
    total = sum(held["a", f"t{k}"] for k in (0, 1))
    assert held["a", "t0"] / total == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_no_gpu_idles_while_a_job_fits(name, seed):
    scenario = random_scenario(seed)
    policy = make_policy(name)
    schedule, sizes = policy.schedule, scenario.cluster.capacity

    def watched(now):
        answer = schedule(now)
        free = dict(sizes)
        for configuration in answer.values():
            free[configuration.type] -= configuration.gpus
        for job in look(now).jobs:
            if job.name not in answer:
                runs = [
                    t for t, n in free.items() if job.gpus <= n and job.speed(now.cluster.packed(t, job.gpus))
                ]
                assert not runs
        return answer

    policy.schedule = watched
    run = simulate(scenario, policy)
    assert run.completed == len(scenario.jobs)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_alone_runs_on_its_quickest_type(name):
    run = simulate(scenario_of(cluster_of(2, 2), [("a", (1.0, 2.0), 2, 1000.0, 0.0)]), make_policy(name))
    assert run.job_results()[0].jct == pytest.approx(20.0 + 500.0)
    assert {segment.type for segment in run.segments} == {"t1"}


def test_a_job_moves_only_if_that_is_worth_the_restart():
    near, far = state_of("near", [1.0, 1.1]), state_of("far", [1.0, 3.0], work=1e5)
    for state in (near, far):
        state.profile.restart_seconds = 200.0
        state.allocation = cluster_of(1, 1).packed("t0", 1)
    now = round_of(cluster_of(1, 1), [near, far])
    assert now.preferences(0) == [0, 1]
    assert now.preferences(1) == [1, 0]


def test_adaptive_jobs_are_refused_by_name():
    state = state_of("a", [1.0])
    state.gpus, state.kind = None, "adaptive"
    with pytest.raises(PolicyError, match="job 'a': kind = adaptive: must be rigid"):
        look(ClusterState(0.0, 0, 360.0, cluster_of(1), {"a": state}))
