"""Tiresias: queues by attained service, first come first served in each."""

import pytest

from copter.problems.cluster.nodes import NodeChange
from copter.problems.policies import Tiresias
from support.policy_cases import cluster_of, scenario_of, simulate


def held(simulator):
    """When each job held GPUs, from and to, in order."""
    spans = {}
    for one in sorted(simulator.segments, key=lambda one: one.begin):
        spans.setdefault(one.job, []).append((one.begin, one.end))
    return spans


def test_a_job_that_has_had_its_service_makes_way():
    """Restarts of 20 s: the first job is at its limit of 600 GPU-seconds after 10 rounds."""
    jobs = [("long", (1.0,), 1, 2000.0, 0.0), ("short", (1.0,), 1, 100.0, 0.0)]
    spans = held(simulate(scenario_of(cluster_of(1), jobs), Tiresias(limits=(600.0,))))
    assert spans["long"][0] == (0.0, 600.0)
    assert spans["short"] == [(600.0, 720.0)]
    assert spans["long"][1:] == [(720.0, 720.0 + 20.0 + 1420.0)]


def test_in_a_queue_the_first_come_first_and_small_ones_fill_up():
    jobs = [("a", (1.0,), 2, 500.0, 0.0), ("b", (1.0,), 2, 500.0, 1.0), ("c", (1.0,), 1, 500.0, 2.0)]
    spans = held(simulate(scenario_of(cluster_of(3), jobs), Tiresias()))
    assert spans["a"] == [(0.0, 520.0)]
    assert spans["c"] == [(60.0, 580.0)]  # passes b, which does not fit
    assert spans["b"] == [(540.0, 1060.0)]


def test_an_earlier_job_takes_its_gpus_back():
    """The wide job came first: when there is room for it again it goes before the narrow ones."""
    jobs = [("wide", (1.0,), 3, 3000.0, 0.0), ("thin", (1.0,), 1, 3000.0, 30.0)]
    events = [NodeChange(120.0, "t0", 2), NodeChange(540.0, "t0", 3)]
    simulator = simulate(scenario_of(cluster_of(3), jobs), Tiresias(), events=events)
    spans = held(simulator)
    assert spans["wide"][0] == (0.0, 120.0)
    assert spans["thin"][0] == (120.0, 540.0)
    assert spans["wide"][1][0] == 540.0


def test_limits_must_ascend():
    with pytest.raises(ValueError, match="ascending"):
        Tiresias(limits=(600.0, 60.0))
