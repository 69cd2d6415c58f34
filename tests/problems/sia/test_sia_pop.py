"""POP-k of Sia: an even split, parts that keep to their nodes, one part is Sia; LP* is the same program."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.nodes import NodeChange
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.sia.generator import generate
from copter.problems.sia.pop import Pop
from copter.problems.sia.scheduler import LpStar, Sia


def play(scenario, policy, rounds=None):
    simulator = Simulator(scenario, policy)
    for record in simulator.run():
        if record.index + 1 == rounds:
            break
    return simulator


@given(nodes=st.lists(st.integers(0, 40), min_size=1, max_size=5), parts=st.integers(1, 9))
def test_nodes_are_split_evenly_and_all_of_them(nodes, parts):
    pop = Pop(parts=parts)
    for counts in (nodes, nodes[::-1]):  # the second time nodes came and went
        cluster = Cluster(GpuType(f"t{k}", 4, n) for k, n in enumerate(counts))
        pop._split_nodes(cluster)
        split = np.array([[type.nodes for type in own.types] for own in pop._clusters])
        assert split.sum(axis=0).tolist() == counts
        assert (np.ptp(split, axis=0) <= 1).all()
        assert np.ptp(split.sum(axis=1)) <= 1


def test_one_part_is_sia():
    scenario = generate(gpus=64, jobs_per_day=300, hours=2.0)
    whole, one = (play(scenario, policy, rounds=60) for policy in (Sia(), Pop(parts=1, solver="copter")))
    assert whole.segments == one.segments


def wide_and_narrow():
    """A rigid job of three of four nodes, and one of one node, that two parts share."""
    profile = ReplicaProfile("a", 0.0, 6000.0, {"t0": (1, 1.0)}, 8)
    jobs = [JobSubmission("wide", 0.0, "", "a", "rigid", 6), JobSubmission("one", 60.0, "", "a", "rigid", 2)]
    return Scenario(Cluster([GpuType("t0", 2, 4)]), jobs, {"a": profile})


def test_a_job_too_large_for_every_part_runs_when_nodes_come():
    simulator = Simulator(
        wide_and_narrow(), Pop(parts=2, solver="copter"), events=[NodeChange(6000.0, "t0", 6)]
    )
    list(simulator.run())
    wide, _ = simulator.job_results()
    assert (wide.started, wide.finished) == (6000.0, pytest.approx(7000.0))


@pytest.mark.parametrize("strategy", ["auto", "primal"])
def test_lp_star_solves_the_same_program(strategy):
    scenario = generate(gpus=128, jobs_per_day=4000, hours=1.0)
    star, sia = LpStar(strategy=strategy), Sia(tolerance=1e-7)
    for policy in (star, sia):
        play(scenario, policy, rounds=1)
    assert star.last.solution.objective == pytest.approx(sia.last.solution.objective, rel=1e-6)
