"""Two jobs: splits of GPUs by Algorithm 1 against all of them, and the toy example of appendix A."""

import numpy as np
import pytest

from copter.bench.reproduction import Effort, reproductions
from copter.problems.afs.allocation import Curves, afs_shares
from copter.problems.afs.reproductions import _toy_sample


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


def toy_hours(policy, **case):
    """Average JCT of the example; see `_toy_sample`."""
    return _toy_sample(Effort(), "", 0, policy=policy, **case)["average JCT"]


def test_toy_example_by_hand():
    """A runs 1 h on both GPUs, then B 1.5 h; or both run 2 h on one each."""
    assert toy_hours("srtf") == pytest.approx((1.0 + 2.5) / 2)
    assert toy_hours("max-min") == pytest.approx(2.0)


def test_arrivals_reverse_the_toy_example():
    found = {one.row: one.ours for one in reproductions()["afs-appendix-a"].measure(Effort())}
    for x in (1.1, 1.5, 1.9):
        assert found[f"later jobs, x = {x}: max-min"] < found[f"later jobs, x = {x}: srtf"]
