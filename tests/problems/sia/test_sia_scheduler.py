"""Sia, POP and LP* in the simulator: what they are told, limits, time shares, and a recorded replay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.nodes import NodeChange, NodeFailure
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.sia import Sia, SiaError, generate
from copter.problems.sia.policy import SiaPolicy
from copter.problems.sia.pop import Pop
from copter.problems.sia.scheduler import LpStar

PAIR = Cluster([GpuType("A", 4, 2), GpuType("B", 8, 1)])
LINEAR = ReplicaProfile("m", 10.0, 40_000.0, {"A": (1, 1.0), "B": (1, 1.0)})


def simulate(jobs, cluster=PAIR, policy=None, **options):
    simulator = Simulator(Scenario(cluster, jobs, {"m": LINEAR}), policy or Sia(), **options)
    list(simulator.run())
    return simulator


def job(name, time=0.0, **options):
    return JobSubmission(name, time, "", "m", **options)


def widths(simulator, name):
    return {segment.gpus for segment in simulator.segments if segment.job == name}


def test_limits_of_the_user_mask_configurations():
    simulator = simulate([job("few", max_gpus=2), job("many", min_gpus=4), job("one", kind="rigid", gpus=1)])
    assert widths(simulator, "few") == {1, 2}
    assert min(widths(simulator, "many")) == 4
    assert widths(simulator, "one") == {1}


def test_a_reserved_job_never_waits():
    jobs = [job(str(k)) for k in range(20)] + [job("mine", 600.0, reserved=True)]
    simulator = simulate(jobs)
    (mine,) = (one for one in simulator.job_results() if one.name == "mine")
    assert mine.started == 600.0


def test_a_job_that_lost_its_node_is_known_to_hold_nothing():
    failure = NodeFailure(630.0, "A", 0, 1200.0)
    only_a = Cluster([GpuType("A", 4, 2)])
    simulator = simulate([job("a")], only_a, placer=SiaPlacer(), events=[failure])
    at = {record.time: sum(record.gpus.values()) for record in simulator.records}
    # It starts again on one GPU, as every job without GPUs does, and doubles up to what is left.
    assert [at[600.0], at[660.0], at[720.0], at[780.0], at[840.0]] == [8, 1, 2, 4, 4]


def test_figures_of_a_round_are_recorded():
    simulator = simulate([job("a"), job("b")])
    figures = simulator.records[0].figures
    assert figures["variables"] == 2 * 3  # 1 A, 1 B and nothing, each
    assert 0 <= figures["gap"] <= 1e-5 and figures["missed"] == 0


CLUSTER = Cluster([GpuType("A", 2, 1)])
PROFILES = {"m": ReplicaProfile("m", 5.0, 6000.0, {"A": (1, 1.0)})}


def simulate_share(window, jobs=8):
    submissions = [JobSubmission(str(k), 120.0 * k, "", "m") for k in range(jobs)]
    simulator = Simulator(Scenario(CLUSTER, submissions, PROFILES), Sia(timeshare_seconds=window))
    list(simulator.run())
    return simulator


def test_a_new_job_keeps_its_gpus_until_it_ran_for_the_window():
    simulator = simulate_share(115.0)
    for name in (job.name for job in simulator.job_results()):
        first = [one for one in simulator.segments if one.job == name]
        ran = 0.0
        for before, after in zip(first, first[1:], strict=False):
            ran += before.end - before.begin - before.restart_seconds
            if ran < 115.0:
                assert after.begin == before.end
    assert all(job.finished > 0 for job in simulator.job_results())


@pytest.mark.parametrize("window", [0.0, -1.0, float("inf"), float("nan")])
def test_windows_that_make_no_sense(window):
    with pytest.raises(ValueError, match="timeshare_seconds"):
        Sia(timeshare_seconds=window)


def test_penalties_must_be_costs():
    with pytest.raises(SiaError, match="penalties"):
        SiaPolicy(CLUSTER).update_penalties([], np.array([np.nan]))


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
