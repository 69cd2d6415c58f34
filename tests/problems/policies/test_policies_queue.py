"""The queue as one program: nobody waits who would fit, quotas, priorities, victims; other queues' rules."""

import itertools
from collections import Counter

import numpy as np
import pytest

from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.registry import SettingsError, make_policy
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.workload import JobSubmission
from copter.problems.policies.queue import Queue
from support.policy_cases import cluster_of, profile_of


def job_of(name, gpus, *, speeds=(1.0,), work=1000.0, time=0.0, timer=None, preemptible=True, **fields):
    submission = JobSubmission(name, time, "", name, "rigid", gpus, preemptible, **fields)
    return SimulatedJob(submission, profile_of(name, speeds, gpus=gpus, work=work), "rigid", timer or Timer())


class Played:
    """A cluster on which each decision takes effect; jobs end when the test says so."""

    def __init__(self, policy, *gpus):
        self.policy, self.cluster, self.timer = policy, cluster_of(*gpus), Timer()
        self.jobs, self.index, self.left = {}, 0, []

    def submit(self, name, gpus, **fields):
        self.jobs[name] = job_of(name, gpus, time=self.timer.time, timer=self.timer, **fields)

    def end(self, name):
        self.left.append(self.jobs.pop(name))

    def round(self, seconds=60.0):
        """Play a round; return the names of the jobs that have GPUs, and of those that lost them."""
        self.timer.time += seconds
        left, self.left = tuple(self.left), []
        now = ClusterState(self.timer.time, self.index, 60.0, self.cluster, self.jobs, left=left)
        self.index += 1
        given = self.policy.schedule(now)
        lost = {name for name, job in self.jobs.items() if job.allocation is not None and name not in given}
        used = Counter()
        for name, job in self.jobs.items():
            job.allocation = given.get(name)
            if job.allocation is not None:
                assert job.allocation.gpus == job.gpus
                used[job.allocation.type] += job.gpus
        assert all(count <= self.cluster.capacity[type] for type, count in used.items())
        self.free = Counter(self.cluster.capacity)
        self.free.subtract(used)
        return set(given), lost


def fits(played, job):
    """Whether a job without GPUs fits on what is free."""
    speeds = {f"t{k}" for k in range(len(played.cluster.types)) if f"t{k}" in job.profile.curves}
    return any(played.free[type] >= job.gpus for type in speeds)


@pytest.mark.parametrize("quotas", ["", "red=4,blue=6"])
def test_nobody_waits_who_would_fit_and_nobody_is_stopped_in_vain(quotas):
    seen = Counter()
    for seed in range(8):
        rng, played = np.random.default_rng(seed), Played(Queue(quotas=quotas), 8, 6)
        for number in range(40):
            for _ in range(rng.integers(0, 3)):
                name = f"job-{number}-{rng.integers(1 << 30)}"
                played.submit(
                    name,
                    int(rng.choice([1, 2, 3, 5])),
                    speeds=(1.0, float(rng.choice([0.0, 2.0]))),
                    work=float(rng.exponential(2000.0)) + 10.0,
                    tenant=str(rng.choice(["red", "blue", "green"])),
                    priority=int(rng.integers(0, 3)),
                    preemptible=bool(rng.random() < 0.8),
                )
            if number % 7 == 3:
                played.cluster.set_nodes("t1", int(rng.integers(3, 9)))
                for job in played.jobs.values():  # the world takes what is on nodes that are gone
                    if job.allocation is not None and job.allocation.type == "t1":
                        job.allocation = None
            for name in [
                n for n, j in played.jobs.items() if j.allocation is not None and rng.random() < 0.1
            ]:
                played.end(name)
            before = {n: j.allocation for n, j in played.jobs.items() if j.allocation is not None}
            given, lost = played.round()
            seen["rounds"] += 1
            seen["waiting"] += len(played.jobs) - len(given)
            seen["lost"] += len(lost)
            for name, job in played.jobs.items():
                if name not in given:
                    assert not fits(played, job), name
            for name, held in before.items():
                job = played.jobs[name]
                seen["moved"] += job.allocation not in (None, held)
                assert job.submission.preemptible or job.allocation == held
            if lost and not quotas:
                started = [played.jobs[name] for name in given if name not in before]
                for name in lost:
                    priority = played.jobs[name].submission.priority
                    higher = [other for other in started if other.submission.priority > priority]
                    assert higher, name
    assert seen["waiting"] > 500 and seen["lost"] > 10, seen


def test_a_higher_priority_stops_the_fewest_gpus():
    seen = Counter()
    for seed in range(40):
        rng, played = np.random.default_rng(seed), Played(Queue(), 8)
        number = itertools.count()
        while True:
            played.submit(f"low-{next(number)}", int(rng.choice([1, 2, 3])))
            given, _ = played.round()
            if len(given) < len(played.jobs):
                break
        waiting = [name for name in played.jobs if name not in given]
        for name in waiting:
            played.end(name)
        need = int(rng.integers(1, 8))
        sizes = {name: played.jobs[name].gpus for name in given}
        idle = 8 - sum(sizes.values())
        least = min(
            sum(sizes[name] for name in victims)
            for k in range(len(sizes) + 1)
            for victims in itertools.combinations(sizes, k)
            if sum(sizes[name] for name in victims) >= need - idle
        )
        played.submit("high", need, priority=1)
        given, lost = played.round()
        assert "high" in given
        assert sum(sizes[name] for name in lost) == least
        seen["stopped" if lost else "fitted"] += 1
        assert played.policy.figures["proved"] == bool(lost)
    assert seen["stopped"] > 20, seen


def test_a_tenant_takes_its_quota_back_from_those_who_borrow():
    played = Played(Queue(quotas={"red": 4, "blue": 4}), 8)
    for k in range(4):
        played.submit(f"blue-{k}", 2, tenant="blue")
    given, _ = played.round()
    assert len(given) == 4, "blue borrows what red does not use"
    played.submit("red", 3, tenant="red")
    given, lost = played.round()
    assert "red" in given and len(lost) == 2
    played.submit("green", 1, tenant="green", priority=9)
    given, lost = played.round()
    assert "green" in given and not lost, "one GPU is free, and a tenant without a quota may borrow it"
    played.submit("red-2", 2, tenant="red")
    given, lost = played.round()
    assert "red-2" not in given and not lost, "red has one GPU of its quota left, and borrows from nobody"


def test_a_large_job_that_has_waited_long_gets_a_reservation():
    for seconds, starts in ((600.0, True), (1e9, False)):
        played, number = Played(Queue(reserve_seconds=seconds), 4), itertools.count()
        for _ in range(4):
            played.submit(f"small-{next(number)}", 1, work=5000.0)
        played.round()
        played.submit("large", 4, work=36_000.0)
        for k in range(60):
            given, _ = played.round()
            if "large" in given:
                break
            running = sorted(name for name in given if name.startswith("small"))
            if running:
                played.end(running[0])
            played.submit(f"small-{next(number)}", 1, work=9000.0 + 100.0 * k)
        assert ("large" in given) == starts


def test_it_says_what_stands_in_the_way():
    played = Played(Queue(quotas="red=2"), 8)
    played.submit("pinned", 2, tenant="blue", preemptible=False)
    played.round()
    played.submit("high", 3, tenant="red", priority=5)
    played.submit("low", 2, tenant="blue", priority=-1)
    played.round()
    played.submit("waits", 4, tenant="red")
    played.submit("never", 9, tenant="red")
    given, _ = played.round()
    assert given == {"pinned", "high", "low"}
    assert played.policy.why("waits") == [
        "It needs 4 t0: 1 are free, 2 are held by jobs that must not be stopped, "
        "3 are held by jobs of a higher priority, 2 are held by jobs of a lower priority.",
        "Its tenant 'red' has 3 GPUs, and a quota of 2.",
    ]
    assert played.policy.why("never") == ["No type has enough GPUs for it on the nodes in use."]
    assert played.policy.why("nobody") == [] and played.policy.why("high") == []


def test_a_reservation_stops_nobody_and_gives_way_to_a_higher_priority():
    played = Played(Queue(reserve_seconds=100.0), 8)
    played.submit("K", 4, work=3000.0, priority=2)
    played.submit("L", 4, work=1e6)
    played.round()
    played.submit("O", 8, work=1000.0)
    for _ in range(3):
        played.round()
    played.submit("H", 4, work=1e6, priority=1)
    assert played.round() == ({"K", "H"}, {"L"})
    for _ in range(3):
        assert played.round() == ({"K", "H"}, set())


def test_backfilling_never_delays_the_reservation():
    played = Played(make_policy("backfill"), 4)
    played.submit("runs", 3, work=1000.0)
    assert played.round()[0] == {"runs"}
    played.submit("wide", 4, work=100.0)  # starts when `runs` has ended
    played.submit("long", 1, work=5000.0)  # would delay it
    played.submit("short", 1, work=300.0)  # ends before
    given, _ = played.round()
    assert given == {"runs", "short"}


@pytest.mark.parametrize("wrong", ["red", "red=x", "red=-1", "=,"])
def test_wrong_quotas(wrong):
    with pytest.raises(SettingsError, match="quotas"):
        make_policy("queue", quotas=wrong)
