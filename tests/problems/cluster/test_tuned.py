"""TunedJobs: valid configurations by hand, and what a job of its own size keeps."""

import numpy as np
import pytest

from copter.problems.cluster.builtin import builtin_goodput_profiles
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.profiles import CountProfile
from copter.problems.cluster.traces import TunedJobs
from copter.problems.cluster.workload import JobSubmission

CLUSTER = Cluster([GpuType("a", 4, 4), GpuType("b", 4, 1)])


def profile(speeds, **others):
    return CountProfile("p", 10.0, 100.0, [1, 2, 4, 8, 16], {"a": speeds, **others})


def test_valid_counts_have_half_to_four_fifths_of_the_ideal_speedup():
    tuned = TunedJobs(CLUSTER)
    # Shares of the ideal speedup: 1, 0.9, 0.75, 0.5, 0.3.
    assert tuned.choices(profile([1.0, 1.8, 3.0, 4.0, 4.8])) == [(4, None), (8, None)]


def test_without_a_valid_count_the_nearest_is_taken():
    tuned = TunedJobs(CLUSTER)
    assert tuned.choices(profile([1.0, 1.7, 1.8, 2.0, 2.1])) == [(2, None)]  # 0.85, 0.45
    assert tuned.choices(profile([1.0, 2.0, 4.0, 8.0, 14.0])) == [(16, None)]  # all above


def test_counts_stay_below_the_limit_of_the_cluster():
    linear = profile([1.0, 2.0, 4.0, 8.0, 16.0])
    assert TunedJobs(CLUSTER).most_gpus == 16
    assert TunedJobs(Cluster([GpuType("a", 4, 16)])).most_gpus == 64
    assert TunedJobs(CLUSTER, most_gpus=4).choices(linear)[0][0] <= 4


def test_run_times_are_compared_on_the_type_with_the_least_memory():
    cluster = Cluster([GpuType("a100", 4, 4), GpuType("rtx", 4, 1)])
    slow = [0.5, 0.8, 1.2, 0.0, 0.0]  # shares 1, 0.8, 0.6
    both = CountProfile("p", 10.0, 100.0, [1, 2, 4, 8, 16], {"a100": [1.0, 2.0, 4.0, 8.0, 16.0], "rtx": slow})
    assert TunedJobs(cluster).choices(both) == [(2, None), (4, None)]
    assert TunedJobs(cluster, type="a100").choices(both) == [(1, None)]  # all are above; the first of equals
    with pytest.raises(ValueError, match="unknown GPU type 'c'"):
        TunedJobs(cluster, type="c")


def test_batch_sizes_are_the_fastest_of_each_count():
    cluster = cluster_by_name("heterogeneous-64")
    tuned = TunedJobs(cluster)
    for profile in builtin_goodput_profiles().values():
        for gpus, batch in tuned.choices(profile):
            assert gpus <= 16
            seconds = {
                size: profile.at_fixed_batch(size).clock(cluster.packed("rtx", gpus))[-1]
                for size in (batch // 2, batch, 2 * batch)
                if profile.limits.initial <= size <= profile.limits.largest
            }
            assert seconds[batch] == min(seconds.values())


def test_jobs_get_a_valid_pair_and_keep_a_count_of_their_own():
    known = {"p": profile([1.0, 1.8, 3.0, 4.0, 4.8])}
    jobs = [JobSubmission(f"j{k}", 0.0, "x", "p") for k in range(40)]
    jobs += [
        JobSubmission("rigid", 0.0, "x", "p", "rigid", 1),
        JobSubmission("t", 0.0, "x", "p", tuned_gpus=2),
    ]
    tuned = TunedJobs(CLUSTER).tune(jobs, known, np.random.default_rng(0))
    assert {job.tuned_gpus for job in tuned[:40]} == {4, 8}
    assert tuned[40:] == jobs[40:]


def test_jobs_that_no_gpu_runs_are_left_alone():
    job = JobSubmission("j", 0.0, "x", "p")
    none = CountProfile("p", 1.0, 1.0, [1], {"z": [1.0]})
    assert TunedJobs(CLUSTER).tune([job], {"p": none}, np.random.default_rng(0)) == [job]


def test_the_unit_of_jobs_too_large_for_one_gpu_is_the_smallest_count_that_runs():
    # Shares of the ideal speedup over 4 GPUs: 1, 0.67, 0.4.
    assert TunedJobs(CLUSTER).choices(profile([0.0, 0.0, 3.0, 4.0, 4.8])) == [(8, None)]
