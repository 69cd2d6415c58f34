"""The policy `queue` with jobs that must be in one rack, compared with brute force."""

import itertools
from collections import Counter

import numpy as np
from test_policies_queue import job_of

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.policy import ClusterState, Placement
from copter.problems.policies.queue import Queue


class Played:
    """A cluster of nodes with one GPU in racks, on which each decision takes effect."""

    def __init__(self, nodes, racks, **settings):
        self.type = GpuType("t0", 1, nodes, racks)
        self.policy, self.cluster, self.timer = Queue(**settings), Cluster([self.type]), Timer()
        self.jobs, self.index, self.seen = {}, 0, Counter()

    def submit(self, name, gpus, **fields):
        self.jobs[name] = job_of(name, gpus, time=self.timer.time, timer=self.timer, **fields)

    def rooms(self):
        """Return the free nodes of each rack."""
        used = {node for job in self.jobs.values() for node, _ in job.place or ()}
        return [len(set(rack) - used) for rack in self.type.racks_of(self.type.nodes)]

    def round(self):
        """Play a round; return the names of the jobs that have GPUs, and of those that lost them."""
        self.timer.time += 60.0
        now = ClusterState(self.timer.time, self.index, 60.0, self.cluster, self.jobs)
        self.index += 1
        wanted = self.policy.schedule(now)
        running = [job for job in self.jobs.values() if job.allocation is not None]
        held = {job.name: Placement("t0", job.place) for job in running}
        fixed = [job.name for job in running if not job.submission.preemptible]
        one_rack = [name for name in wanted if self.jobs[name].submission.one_rack]
        placed = placer_for(self.policy).place(self.cluster, {}, held, wanted, fixed, one_rack)
        self.seen["placed"] += len(placed.places)
        self.seen["unplaced"] += len(placed.evicted)
        for name, job in self.jobs.items():
            place = placed.places.get(name)
            job.allocation, job.place = (None, None) if place is None else (place.configuration, place.nodes)
            if job.place and job.submission.one_rack:
                nodes = {node for node, _ in job.place}
                assert any(nodes <= set(rack) for rack in self.type.racks_of(self.type.nodes))
                self.seen["in one rack"] += len(nodes) > 1
        return set(placed.places), set(held) - set(placed.places)


def test_no_job_waits_that_a_rack_could_hold_and_none_gets_gpus_in_vain():
    seen = Counter()
    for seed in range(16):
        rng = np.random.default_rng(seed)
        played = Played(9, (4, 2, 3), reserve_seconds=1e9, exact_seconds=0.0)
        for number in range(30):
            for k in range(rng.integers(0, 3)):
                played.submit(
                    f"job-{number}-{k}",
                    int(rng.choice([1, 2, 3, 4])),
                    work=float(rng.exponential(2000.0)) + 10.0,
                    priority=int(rng.integers(0, 2)),
                    preemptible=bool(rng.random() < 0.5),
                    one_rack=bool(rng.random() < 0.5),
                )
            running = [name for name, job in played.jobs.items() if job.allocation is not None]
            for name in running:
                if rng.random() < 0.15:
                    del played.jobs[name]
            before = {name: job.place for name, job in played.jobs.items() if job.allocation is not None}
            given, lost = played.round()
            assert all(played.jobs[name].submission.preemptible for name in lost)
            assert all(played.jobs[name].place == place for name, place in before.items() if name in given)
            rooms = played.rooms()
            for name, job in played.jobs.items():
                if (
                    name not in given and name not in lost
                ):  # a job that was stopped can move in the next round
                    one_rack = job.submission.one_rack
                    assert job.gpus > (max(rooms) if one_rack else sum(rooms)), (seed, number, name)
                    seen["waits for a rack"] += one_rack and job.gpus <= sum(rooms)
            seen["lost"] += len(lost)
        seen += played.seen
    assert seen["unplaced"] == 0 and min(seen["waits for a rack"], seen["lost"], seen["in one rack"]) > 5, (
        seen
    )


def test_a_higher_priority_stops_the_fewest_gpus_of_one_rack():
    seen = Counter()
    for seed in range(40):
        rng, number = np.random.default_rng(seed), itertools.count()
        played = Played(9, (3,), exact_seconds=10.0)
        while True:
            if seed % 2:  # one GPU of each rack stays free
                played.submit(f"low-{next(number)}", 2, one_rack=True)
            else:
                rack = bool(rng.random() < 0.5)
                played.submit(f"low-{next(number)}", int(rng.choice([1, 2, 3])), one_rack=rack)
            given, _ = played.round()
            if len(given) < len(played.jobs):
                break
        for name in set(played.jobs) - given:
            del played.jobs[name]
        need, rooms = int(rng.choice([2, 3])), played.rooms()
        running = list(played.jobs.values())
        least = min(
            sum(job.gpus for job in victims)
            for k in range(len(running) + 1)
            for victims in itertools.combinations(running, k)
            if any(
                room + sum(node in rack for job in victims for node, _ in job.place) >= need
                for room, rack in zip(rooms, played.type.racks_of(9), strict=True)
            )
        )
        sizes = {job.name: job.gpus for job in running}
        played.submit("high", need, priority=1, one_rack=True)
        given, lost = played.round()
        assert "high" in given, seed
        assert sum(sizes[name] for name in lost) == least, seed
        seen["stopped" if lost else "fitted"] += 1
        seen["rooms elsewhere"] += bool(lost) and sum(rooms) >= need
    assert seen["stopped"] > 10 and seen["rooms elsewhere"] > 3, seen
