"""TunedJobs: valid configurations by hand, and what a job of its own size keeps."""

from collections import Counter

import numpy as np
import pytest

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.traces import TunedJobs
from copter.problems.cluster.traces.tuned import constrained
from copter.problems.cluster.workload import JobSubmission

CLUSTER = Cluster([GpuType("a", 4, 4), GpuType("b", 4, 1)])


def profile(speeds, hours=1.0, **others):
    return CountProfile("p", 10.0, 3600.0 * hours, [1, 2, 4, 8, 16], {"a": speeds, **others})


def test_valid_counts_have_half_to_four_fifths_of_the_ideal_speedup():
    tuned = TunedJobs(CLUSTER)
    # Shares of the ideal speedup: 1, 0.9, 0.75, 0.5, 0.3.
    assert tuned.choices(profile([1.0, 1.8, 3.0, 4.0, 4.8])) == [(4, None), (8, None)]


def test_counts_stay_below_the_limit_of_the_cluster():
    linear = profile([1.0, 2.0, 4.0, 8.0, 16.0])
    assert TunedJobs(CLUSTER).most_gpus == 16
    assert TunedJobs(Cluster([GpuType("a", 4, 16)])).most_gpus == 64
    assert TunedJobs(CLUSTER, most_gpus=4).choices(linear)[0][0] <= 4


def test_jobs_that_take_too_long_are_tuned_on_the_next_type():
    slow, fast = [0.1, 0.15, 0.25, 0.4, 0.8], [0.5, 0.8, 1.2, 0.0, 0.0]  # shares 0.75 .. 0.5 and 0.8, 0.6
    tuned = TunedJobs(CLUSTER)
    assert [gpus for gpus, _ in tuned.choices(profile(slow, 1.0, b=fast))] == [2, 4, 8, 16]
    assert tuned.choices(profile(slow, 9.5, b=fast)) == [(16, None)]  # 11.9 h; 8 take 23.8
    assert tuned.choices(profile(slow, 10.0, b=fast)) == [(4, None)]  # 8.3 h; 2 take 12.5
    assert tuned.choices(profile(slow, 100.0, b=fast)) == [(4, None)]  # none: the middle of the range


def test_sizes_of_the_authors_published_workloads():
    """Of their first samples of Philly and Helios; all but those with shares within the error of the fits."""
    tuned, known = TunedJobs(cluster_by_name("heterogeneous-64")), builtin_goodput_profiles()
    published = {
        "bert": {(6, 384), (8, 384), (12, 384), (16, 384)},
        "cifar10": {(6, 2048), (8, 2048)},
        "deepspeech2": {(6, 320)},
        "yolov3": {(4, 64)},
        "imagenet": {(10, 1600), (14, 3200)},
    }
    for model, sizes in published.items():
        assert sizes <= set(tuned.choices(known[model]))


def test_shares_of_jobs_are_constrained():
    jobs = [JobSubmission(f"j{k}", 0.0, "x", "p", batch_size=64, tuned_gpus=4) for k in range(1000)]
    changed = constrained(jobs, np.random.default_rng(0), strong_scaling=0.3, rigid=0.2)
    kinds = Counter(job.kind for job in changed)
    assert kinds["rigid"] == pytest.approx(200, abs=40)
    assert kinds["strong-scaling"] == pytest.approx(300, abs=40)
    assert {job.gpus for job in changed if job.kind == "rigid"} == {4}
    with pytest.raises(ValueError, match="their sum at most 1"):
        constrained(jobs, np.random.default_rng(0), strong_scaling=0.8, rigid=0.3)


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
