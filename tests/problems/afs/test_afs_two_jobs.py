"""Two jobs: splits of GPUs by Algorithm 1 against all of them, and the toy example of appendix A."""

import numpy as np
import pytest

from copter.problems.afs.allocation import Curves, afs_shares
from copter.problems.afs.reproductions import play
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.workload import JobSubmission, Scenario


def total_seconds(work, speed, split, gpus):
    """Sum of both completion times, where the job that is left has all GPUs."""
    rates = [speed[k][split[k]] for k in range(2)]
    ends = [work[k] / rates[k] if rates[k] > 0 else np.inf for k in range(2)]
    first = int(np.argmin(ends))
    left = work[1 - first] - rates[1 - first] * ends[first]
    return 2.0 * ends[first] + left / speed[1 - first][gpus]


def afs_split(work, speed, gpus):
    ones, both = np.ones(2 * (gpus + 1), bool), np.full(2, gpus)
    curves = Curves(np.concatenate(speed), ones, np.array([0, gpus + 1]), np.ones(2, np.int64), both)
    return afs_shares(curves, work, gpus, key_is_work=True).tolist()


def test_algorithm_1_loses_little_where_nobody_comes():
    rng = np.random.default_rng(7)
    found = []
    for _ in range(400):
        gpus = int(rng.integers(2, 17))
        steps = np.sort(rng.uniform(0.02, 1.0, (2, gpus)), axis=1)[:, ::-1]  # concave curves
        work, speed = rng.lognormal(1.0, 1.0, 2), [np.concatenate(([0.0], np.cumsum(row))) for row in steps]
        best = min(total_seconds(work, speed, (mine, gpus - mine), gpus) for mine in range(gpus + 1))
        found.append(total_seconds(work, speed, afs_split(work, speed, gpus), gpus) / best)
    assert np.mean(found) < 1.02
    assert min(found) >= 1 - 1e-12


def toy_hours(policy, later, hours_on_two=1.5):
    """Average JCT of A and B, which take 2 h on one GPU, and of later jobs, each x h after the one before."""
    hours = {"A": 1.0, "B": 1.5} | {f"later {k}": hours_on_two for k in range(later)}
    times = {"A": 0.0, "B": 0.0} | {f"later {k}": 1.0 + k * hours_on_two for k in range(later)}
    profiles = {
        name: CountProfile(name, 0.0, 7200.0, [1, 2], {"gpu": [1.0, 2.0 / each]})
        for name, each in hours.items()
    }
    jobs = [
        JobSubmission(name, 3600.0 * time, "", name, kind="strong-scaling", tuned_gpus=2)
        for name, time in times.items()
    ]
    return play(Scenario(Cluster([GpuType("gpu", 2, 1)]), jobs, profiles), policy).jct.mean() / 3600.0


def test_toy_example_by_hand():
    """A runs 1 h on both GPUs, then B 1.5 h; or both run 2 h on one each."""
    assert toy_hours("srtf", 0) == pytest.approx((1.0 + 2.5) / 2)
    assert toy_hours("max-min", 0) == pytest.approx(2.0)


@pytest.mark.parametrize("x", [1.1, 1.5, 1.9])
def test_arrivals_reverse_the_toy_example(x):
    assert toy_hours("max-min", 10, x) < toy_hours("srtf", 10, x)
