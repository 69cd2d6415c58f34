"""The simulator against examples worked out by hand."""

import math

import pytest

from copter.problems.cluster import (
    Cluster,
    Configuration,
    GpuType,
    JobSubmission,
    PolicyError,
    Scenario,
    Simulator,
)
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.cluster.simulation.simulator import StarvationError

ONE, TWO = Configuration(1, 1, "T4"), Configuration(1, 2, "T4")


class Scripted:
    """Gives what a function of the state says."""

    name = "scripted"

    def __init__(self, answer, kind="adaptive", round_seconds=60.0):
        self.answer, self.kind, self.round_seconds = answer, kind, round_seconds
        self.asked = []

    def schedule(self, now):
        self.asked.append(now.time)
        return self.answer(now)


def scenario(*times, work=100.0, restart=10.0, nodes=1, **fields):
    """Jobs that make one unit of progress a second and GPU, on nodes of two GPUs."""
    profile = ReplicaProfile("p", restart, work, {"T4": (1, 1.0)})
    jobs = [JobSubmission(f"j{k}", time, "c", "p", **fields) for k, time in enumerate(times)]
    return Scenario(Cluster([GpuType("T4", 2, nodes)]), jobs, {"p": profile})


def play(simulator):
    for _ in simulator.run():
        pass
    return {job.name: job for job in simulator.job_results()}


def test_a_job_waits_for_the_round_restarts_and_completes_at_its_exact_time():
    policy = Scripted(lambda now: {name: ONE for name in now.jobs})
    simulator = Simulator(scenario(30.0), policy)
    job = play(simulator)["j0"]
    # submitted at 30, seen at 60, 10 s of restart, 100 s of work
    assert (job.started, job.finished, job.restarts) == (60.0, 170.0, 0)
    assert (job.run_seconds, job.gpu_seconds) == (100.0, 110.0)
    assert policy.asked == [60.0, 120.0]
    (segment,) = simulator.segments
    assert (segment.begin, segment.end, segment.gpus, segment.restart_seconds) == (60.0, 170.0, 1, 10.0)


def test_at_events_the_policy_is_asked_when_something_happens_or_when_it_said():
    def answer(now):
        if now.time == 5.0:
            now.wake(20.0)
        return {next(iter(now.jobs)): ONE}

    policy = Scripted(answer, round_seconds=None)
    jobs = play(Simulator(scenario(5.0, 50.0), policy))
    assert policy.asked == [5.0, 20.0, 50.0, 115.0]
    assert (jobs["j0"].finished, jobs["j1"].started, jobs["j1"].finished) == (115.0, 115.0, 225.0)


def test_what_a_policy_sees_of_a_job():
    looks = []

    def answer(now):
        job = now.jobs["j0"]
        looks.append((job.progress, job.age, job.run_seconds, job.gpu_seconds, job.contention))
        assert job.speed(TWO) == 2.0
        assert job.remaining_seconds(ONE) == pytest.approx(100.0 - job.progress)
        assert job.true_seconds(TWO) == pytest.approx((100.0 - job.progress) / 2)
        return {"j0": ONE}

    simulator = Simulator(scenario(0.0, 60.0), Scripted(answer), max_hours=100 / 3600)
    play(simulator)
    assert looks == [(0, 0, 0, 0, 0.5), (50, 60, 50, 60, 0.75)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"nobody": ONE}, "no job 'nobody'"),
        ({"j0": Configuration(1, 1, "V100")}, "no GPU type 'V100'"),
        ({"j0": Configuration(1, 3, "T4")}, "3 GPUs do not fit on 1 nodes"),
        ({"j0": TWO, "j1": ONE}, "3 GPUs of type 'T4': must be at most 2"),
        ({"rigid": ONE}, "is rigid: 1 GPUs: must be 2"),
        ({"j0": 4}, "4: must be a Configuration"),
    ],
)
def test_an_answer_that_makes_no_sense_is_named(answer, said):
    plain = scenario(0.0, 0.0)
    rigid = JobSubmission("rigid", 0.0, "c", "p", "rigid", 2)
    case = Scenario(plain.cluster, [*plain.jobs, rigid], plain.profiles)
    simulator = Simulator(case, Scripted(lambda now: answer))
    with pytest.raises(PolicyError, match=said):
        play(simulator)


def test_a_policy_that_starves_jobs_is_stopped():
    with pytest.raises(StarvationError, match="j0"):
        play(Simulator(scenario(0.0), Scripted(lambda now: {}, round_seconds=None)))


@pytest.mark.parametrize("round_seconds", [60.0, None])
def test_a_stop_holds_for_rounds_and_events_and_what_is_held_then_is_counted(round_seconds):
    policy = Scripted(lambda now: dict.fromkeys(now.jobs, ONE), round_seconds=round_seconds)
    simulator = Simulator(scenario(0.0, work=1e6), policy, max_hours=100 / 3600)
    job = play(simulator)["j0"]
    assert math.isnan(job.finished) and job.gpu_seconds == 100.0
    (segment,) = simulator.segments
    assert (segment.begin, segment.end, segment.progress) == (0.0, 100.0, 90.0)


def test_contention_is_over_time_where_the_policy_is_asked_at_events():
    # alone for 100 s, then two jobs for as long as the first one needs: restart 10 s, work 390 s
    policy = Scripted(lambda now: dict.fromkeys(now.jobs, ONE), round_seconds=None)
    jobs = play(Simulator(scenario(0.0, 100.0, work=390.0), policy))
    assert jobs["j0"].finished == 400.0
    assert jobs["j0"].contention == pytest.approx((100 * 0.5 + 300 * 1.0) / 400)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"kind": "elastic"}, "kind = 'elastic'"), ({"round_seconds": 0.0}, "round_seconds = 0.0")],
)
def test_a_policy_that_is_none_is_named(changes, said):
    policy = Scripted(lambda now: {})
    vars(policy).update(changes)
    with pytest.raises(PolicyError, match=said):
        Simulator(scenario(0.0), policy)
