"""The policies in the simulator, against examples worked out by hand."""

import pytest

from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator, make_policy
from copter.problems.cluster.profiles.tables import CountProfile

ALL = (
    "afs-l",
    "afs-p",
    "afs-s",
    "srtf",
    "srsf",
    "srtf-e",
    "srsf-e",
    "max-min",
)


def play(policy, jobs, gpus=2, **settings):
    """Simulate jobs (time, throughput at 1, 2, 4... GPUs, work, GPUs asked for)."""
    nodes = Cluster([GpuType("g", gpus, 1)])
    counts = nodes.configurations.gpus
    profiles = {
        f"p{k}": CountProfile(f"p{k}", 0.0, work, counts[: len(speed)], {"g": speed})
        for k, (_, speed, work, _) in enumerate(jobs)
    }
    listed = [
        JobSubmission(f"j{k}", time, "", f"p{k}", kind="strong-scaling", tuned_gpus=asked)
        for k, (time, _, _, asked) in enumerate(jobs)
    ]
    simulator = Simulator(Scenario(nodes, listed, profiles), make_policy(policy, **settings))
    records = list(simulator.run())
    return simulator, records, [job.jct for job in simulator.job_results()]


def test_srtf_runs_the_shortest_of_those_that_fit():
    """B asks for both GPUs and has 10 s to go, A and C ask for one and have 12 s and 30 s."""
    jobs = [(0, [1, 1.5], 12, 1), (0, [1, 1.5], 15, 2), (0, [1, 1.5], 30, 1)]
    assert play("srtf", jobs)[2] == [22.0, 10.0, 40.0]


def test_srsf_lets_a_job_that_asks_for_many_gpus_wait():
    jobs = [(0, [1, 1.5], 12, 1), (0, [1, 1.5], 15, 2), (0, [1, 1.5], 30, 1)]
    assert play("srsf", jobs)[2] == [12.0, 40.0, 30.0]


def test_leftovers_of_srtf_go_to_the_job_that_gains_most():
    jobs = [(0, [1, 1.1, 1.2], 60, 1), (0, [1, 1.5, 2.0], 60, 1)]
    assert play("srtf-e", jobs, gpus=3)[2] == pytest.approx([40 + 20 / 1.2, 40.0])
    assert play("srtf", jobs, gpus=3)[2] == [60.0, 60.0]


def test_max_min_gives_everybody_the_same_and_those_who_came_first_if_they_are_too_many():
    job = (0, [1, 2, 4], 40, 1)
    assert play("max-min", [job, job], gpus=4)[2] == [20.0, 20.0]
    one = (0, [1, 2], 40, 1)
    assert play("max-min", [one, one, one], gpus=2)[2] == [40.0, 40.0, 60.0]


def test_afs_p_shares_processors_by_units_of_time():
    """One GPU, three jobs of 3 units: in turn, the one with the fewest units, that came first."""
    job = (0, [1.0], 30, 1)
    simulator, records, jcts = play("afs-p", [job] * 3, gpus=1, unit_seconds=10.0)
    assert jcts == [70.0, 80.0, 90.0]
    assert [record.time for record in records] == [10.0 * k for k in range(9)]


@pytest.mark.parametrize("policy", ALL)
def test_nobody_fits_beside_a_job_that_must_not_be_preempted(policy):
    """The wide job waits for all GPUs until the one that holds half of them completes."""
    cluster = Cluster([GpuType("g", 4, 4)])
    profiles = {"p": CountProfile("p", 0.0, 800.0, [8, 16], {"g": [8.0, 16.0]})}
    held = JobSubmission("held", 0.0, "", "p", kind="rigid", gpus=8, preemptible=False)
    wide = JobSubmission("wide", 10.0, "", "p", kind="rigid", gpus=16)
    simulator = Simulator(Scenario(cluster, [held, wide], profiles), make_policy(policy))
    list(simulator.run())
    assert [(one.job, one.begin, one.end) for one in simulator.segments] == [
        ("held", 0.0, 100.0),
        ("wide", 100.0, 150.0),
    ]


def test_afs_s_stops_at_the_count_that_is_fastest():
    jobs = [(0, [1.0], 40, 1), (0, [1, 2, 3], 60, 1)]
    _, records, jcts = play("afs-s", jobs, gpus=4)
    assert jcts[0] == 40.0
    assert records[0].gpus == {"g": 3}  # 1 and 2: three are no unit, four are not there
