"""First come, first served: the order of starts, sizes by the rule of rigid jobs, and the table of a run."""

import json

import pytest

from copter.problems.cluster.policy import ClusterState, PolicyError
from copter.problems.policies import FirstCome
from support.commands import invoke, words
from support.policy_cases import cluster_of, random_scenario, scenario_of, simulate, state_of

TINY = ["run", "sia", "--gpus", "64", "--jobs-per-day", "240", "--hours", "0.5", "--max-hours", "0.6"]


def test_a_job_that_does_not_fit_blocks_those_behind_it():
    sizes = {"first": 2, "large": 3, "small": 1}
    jobs = [(name, (1.0,), gpus, 500.0, float(k)) for k, (name, gpus) in enumerate(sizes.items())]
    run = simulate(scenario_of(cluster_of(3), jobs), FirstCome(round_seconds=60.0))
    first, large, small = run.job_results()
    assert (first.started, first.finished) == (0.0, 520.0)
    assert (large.started, large.finished) == (540.0, 1060.0)
    assert small.started == 1080.0


def test_jobs_start_in_order_and_never_restart():
    run = simulate(random_scenario(3), FirstCome())
    jobs = run.job_results()
    assert [job.started for job in jobs] == sorted(job.started for job in jobs)
    assert sum(job.restarts for job in jobs) == 0


def test_a_job_takes_the_type_with_room_on_which_it_is_fastest():
    jobs = [(name, (1.0, 2.0), 1, 5000.0, float(k)) for k, name in enumerate("abc")]
    run = simulate(scenario_of(cluster_of(2, 1), jobs), FirstCome(round_seconds=60.0))
    types = {segment.job: segment.type for segment in run.segments}
    assert types == {"a": "t1", "b": "t0", "c": "t0"}


def test_a_job_that_is_not_rigid_is_refused():
    state = state_of("a", (1.0,))
    state.gpus, state.kind = None, "adaptive"
    with pytest.raises(PolicyError, match="job 'a': kind = adaptive: must be rigid"):
        FirstCome().schedule(ClusterState(0.0, 0, 60.0, cluster_of(1), {"a": state}))


def test_the_table_of_a_run_compares_with_first_come_first_served():
    shown = words(invoke(*TINY))
    assert "Sia (copter)" in shown and "first come, first served" in shown and "mean GPUs in use" in shown
    figures = json.loads(invoke(*TINY, "--json").stdout)
    fixed = figures["first_come_first_served"]
    assert set(fixed) <= set(figures) and fixed["jobs_submitted"] == figures["jobs_submitted"]
    assert fixed["restarts_per_job"] == 0.0
