"""Replay and metrics of Shockwave: by hand, as properties, and recomputed from the authors' results."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.shockwave import (
    Mode,
    Regime,
    RegimeJob,
    read_jobs,
    read_published,
    replay,
)
from support.shockwave_cases import PUBLISHED, needs_data, result_path, schedule_matrix, static, trace_path
from support.shockwave_cases import jobs as some_jobs


class Rigid:
    """Runs what fits of the jobs that a function chooses; by default of all, in order of arrival."""

    kind, round_seconds, name = "rigid", 120.0, "rigid"

    def __init__(self, choose=lambda now: list(now.jobs.values())):
        self.choose = choose

    def schedule(self, now):
        (gpus,) = now.cluster.types
        wanted, left = {}, gpus.gpus
        for job in self.choose(now):
            if job.gpus <= left:
                wanted[job.name] = now.cluster.packed(gpus.name, job.gpus)
                left -= job.gpus
        return wanted


def told(*answers):
    """Run the jobs of each round's answer."""
    return Rigid(lambda now: [now.jobs[name] for name in answers[min(now.index, len(answers) - 1)]])


def at_random(seed):
    """Run random jobs, at least one."""
    rng = np.random.default_rng(seed)
    return Rigid(
        lambda now: rng.permutation(list(now.jobs.values()))[: int(rng.integers(1, len(now.jobs) + 1))]
    )


def test_restarts_cost_time_but_not_in_a_short_last_round():
    # Rounds 0, 2 and 4: 120 s, 100 s after a restart, and 50 s that end long before the round does.
    result = replay([static("a", 270.0)], 1, told(["a"], [], ["a"], [], ["a"]))
    (job,) = result.jobs
    assert job.finished == 4 * 120 + 50
    assert job.starts == 3
    assert [record.starts + record.restarts for record in result.rounds] == [1, 0, 1, 0, 1]
    # Of the two leases that were not the last none was extended.
    assert result.extended == 0.0


def test_contention_is_that_of_the_trace_or_of_the_life():
    jobs = [static("a", 240.0), static("b", 120.0)]
    result = replay(jobs, 1, told(["a"], ["a"], ["b"], ["b"]))
    first, second = result.jobs
    assert first.finished == 240.0
    assert first.ftf == pytest.approx(240 / (240 * 2)) and first.ftf_live == pytest.approx(240 / (240 * 2))
    # 20 s of restart, then 100 s, then the rest; alone for its last two rounds of four.
    assert second.finished == pytest.approx(380.0)
    assert second.ftf == pytest.approx(380 / (120 * 2))
    assert second.ftf_live == pytest.approx(380 / (120 * np.mean([2, 2, 1, 1])))
    assert result.metrics.unfair_fraction == 0.5
    names, ran = schedule_matrix(result)
    assert names == ["a", "b"]
    assert ran.tolist() == [[True, True, False, False], [False, False, True, True]]


def test_progress_goes_through_regimes():
    job = RegimeJob("a", 0.0, 1, Mode.GNS, (Regime(16, 2, 50.0), Regime(32, 10, 10.0)))
    seen = []

    def watch(now):
        one, gpu = now.jobs["a"], now.cluster.packed("rtx5000", 1)
        steps = one.seen.steps(min(one.level, one.seen.n_levels - 1))
        seen.append((one.progress, one.speed(gpu), one.remaining_seconds(gpu), steps))
        return [one]

    job = replace(job, samples=1600)
    replay([job], 1, Rigid(watch))
    assert np.array(seen) == pytest.approx(np.array([(0, 0.02, 600, 100), (4, 0.1, 80, 50)]))


def test_no_jobs_and_jobs_larger_than_the_cluster():
    assert replay([], 4, Rigid()).metrics.makespan == 0.0
    result = replay([static("big", 100.0, gpus=5), static("a", 100.0)], 4, Rigid())
    assert result.rejected == ("big",)
    assert [job.name for job in result.jobs] == ["a"]
    assert replay([static("big", 100.0, gpus=5)], 4, Rigid()).rounds == ()


@pytest.mark.parametrize("arguments", [{"gpus": 0}, {"round_seconds": 10.0}, {"restart_seconds": -1.0}])
def test_impossible_settings_are_refused(arguments):
    with pytest.raises(ValueError, match=r"gpus|round_seconds"):
        replay([static("a", 10.0)], **({"gpus": 1, "policy": Rigid()} | arguments))


@given(jobs=some_jobs(most=8), gpus=st.integers(4, 8), seed=st.integers(0, 99))
@settings(deadline=None)
def test_work_is_conserved_whatever_the_policy(jobs, gpus, seed):
    result = replay(jobs, gpus, at_random(seed))
    assert sorted(job.name for job in result.jobs) == sorted(job.name for job in jobs)
    _, ran = schedule_matrix(result)
    assert ran.sum() == sum(record.running for record in result.rounds)
    sizes = np.array([job.gpus for job in result.jobs])
    assert (ran.T @ sizes <= gpus).all()
    for row, job in zip(ran, result.jobs, strict=True):
        assert job.jct >= job.exclusive_seconds - 1e-6
        rounds = int(row.sum())
        held = 120.0 * rounds
        # Every round it holds its GPUs makes progress but for restarts and the rest of the last one.
        assert held >= job.exclusive_seconds - 1e-6
        assert held - 120.0 - 20.0 * job.starts < job.exclusive_seconds + 1e-6
        assert job.starts == int((np.diff(np.concatenate(([0], row.astype(int)))) == 1).sum())
    assert 0 < result.metrics.utilisation <= 1 + 1e-9
    assert result.metrics.worst_ftf == max(job.ftf for job in result.jobs)


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("policy", sorted(PUBLISHED))
def test_metrics_are_the_authors(policy):
    """Fairness, makespan and average JCT recomputed from arrivals, completions and the trace alone."""
    trace = read_jobs(trace_path(120))
    published = read_published(result_path(PUBLISHED[policy]), trace)
    contention = len(trace) / 32
    for job in published.jobs:
        assert job.jct / (job.exclusive_seconds * contention) == pytest.approx(job.ftf, abs=6e-6)
    assert max(job.finished for job in published.jobs) == pytest.approx(published.metrics.makespan)
    assert np.mean([job.jct for job in published.jobs]) == pytest.approx(published.metrics.average_jct)
    used = sum(job.gpus * job.exclusive_seconds for job in published.jobs)
    # The authors' jobs end in the middle of an epoch: their work is a little less than the trace's.
    ours = used / (32 * published.metrics.makespan)
    assert ours == pytest.approx(published.metrics.utilisation, rel=0.01)
