"""The Sia policy: what each kind of job may choose, nodes that come and go, how a choice is taken over."""

from dataclasses import replace

import numpy as np
import pytest

from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.sia import Cluster, Configuration, GpuType, SiaJob
from support.sia_cases import BIG, LAM, PAIR, RISING, force, gpus, make, milp, table

# ---- what a job may choose ---------------------------------------------------------------------------


def test_a_job_starts_with_its_smallest_and_at_most_doubles():
    policy = make(BIG)
    policy.submit(SiaJob("J", RISING))
    seen = []
    for k in range(1, 7):
        policy.play(milp(), ("at", 60.0 * k))
        seen.append(policy.allocation["J"].gpus)
    assert seen == [1, 2, 4, 8, 16, 16]


def test_a_job_without_gpus_starts_again_from_its_smallest():
    policy = make(BIG)
    policy.submit(SiaJob("J", RISING))
    force(policy, 60.0, J=Configuration(1, 1, "B"))
    force(policy, 120.0, J=Configuration(1, 2, "A"))
    force(policy, 180.0, J=None)
    policy.at(240.0)
    policy.prepare()
    assert gpus(policy, "J") == [None, ("A", 1), ("B", 1)]
    assert policy.program.requests["J"].costs == pytest.approx([LAM, 1.0, 1.0])  # no discount without GPUs


def test_restarting_jobs_are_pinned_until_they_run():
    policy = make(PAIR)
    policy.submit(SiaJob("J", table([1.0, 2.0, 1.0, 2.0, 4.0], seconds=100.0)))
    force(policy, 60.0, J=Configuration(1, 1, "A"))
    policy.at(120.0)
    policy.prepare()
    assert gpus(policy, "J") == [("A", 1)]
    policy.at(160.0)
    policy.prepare()
    assert gpus(policy, "J") == [None, ("A", 1), ("A", 2), ("B", 1), ("B", 2)]


def test_rigid_jobs_choose_among_types():
    policy = make(BIG)
    policy.submit(SiaJob("J", RISING, kind="rigid", gpus=8))
    policy.at(60.0)
    policy.prepare()
    assert gpus(policy, "J") == [None, ("A", 8), ("B", 8)]
    assert policy.program.requests["J"].costs == pytest.approx([LAM, 8**-0.5, 8**-0.5])  # N_min is 8


def test_strong_scaling_jobs_are_given_their_throughput():
    scaling = Scaling(16.0, (0.5, 50.0), 0.2, (0.1, 0.5))
    profile = TrainingProfile("m", 0.0, 100.0, {"A": 1.0, "B": 2.0}, scaling)
    policy = make(BIG, p=1.0, scale_up_limit=None)
    policy.submit(SiaJob("J", profile, kind="strong-scaling"))
    policy.at(60.0)
    policy.prepare()
    found = BIG.configurations
    throughput = replace(scaling, m_max=1.0).speedup(found.gpus, found.nodes, 0.0)
    throughput *= np.where(found.type_index == 0, 1.0, 2.0)
    assert policy.program.requests["J"].costs[1:] == pytest.approx(-throughput / throughput.min())


def test_reserved_jobs_are_given_gpus():
    # Without the reservation the best answer leaves J without GPUs: lambda is small and K is worth more.
    policy = make(Cluster([GpuType("A", 1, 1)]), p=1.0, lam=0.0)
    one = Cluster([GpuType("A", 1, 1)])
    policy.submit(SiaJob("K", table([5.0], one)))
    policy.submit(SiaJob("J", table([5.0], one), reserved=True))
    policy.at(60.0)
    policy.prepare()
    assert gpus(policy, "J") == [("A", 1)]
    assert policy.play(milp(), ("at", 60.0)).allocation == {"K": None, "J": Configuration(1, 1, "A")}


# ---- nodes come and go -------------------------------------------------------------------------------


def test_pins_of_restarts_are_released_when_nodes_vanish():
    policy = make(BIG, scale_up_limit=None)
    profile = table(list(BIG.configurations.gpus.astype(float)), BIG, seconds=500.0)
    for name in ("J", "K"):
        policy.submit(SiaJob(name, profile))
    force(policy, 60.0, J=Configuration(2, 8, "A"))
    force(policy, 120.0, J=Configuration(2, 8, "A"), K=Configuration(2, 8, "A"))
    policy.set_nodes("A", 2)
    done = policy.play(milp(), ("at", 180.0))
    assert done.released == ["K"]  # the younger restart
    assert done.allocation["J"] == Configuration(2, 8, "A")
    assert done.allocation["K"] != Configuration(2, 8, "A")


def test_a_pin_that_is_released_keeps_the_scale_up_limit():
    policy = make(BIG)
    rising = BIG.configurations.gpus.astype(float)
    without = rising.copy()
    without[BIG.configurations.index(Configuration(1, 2, "A"))] = 0.0
    policy.submit(SiaJob("J", table([rising, without], BIG, seconds=500.0)))
    force(policy, 60.0, J=Configuration(1, 1, "A"))
    policy.update("J", restarting_until=0.0)
    force(policy, 120.0, J=Configuration(1, 2, "A"))
    policy.update("J", level=1)
    policy.at(180.0)
    policy.prepare()  # still restarting, but its level cannot run on 2 GPUs any more
    assert gpus(policy, "J") == [None, ("A", 1), ("A", 4), ("B", 1), ("B", 2), ("B", 4)]
