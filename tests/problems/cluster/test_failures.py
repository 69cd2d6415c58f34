"""Failures by their mean time, and slowdowns of jobs that share a node."""

import numpy as np
import pytest

from copter.problems.cluster.cluster import GpuType
from copter.problems.cluster.nodes import draw_failures

TYPES = [GpuType("a", 4, 30), GpuType("b", 8, 20)]


def test_failures_have_the_mean_time_and_never_overlap():
    failures = draw_failures(TYPES, 2000.0, np.random.default_rng(0), mean_hours=50.0, repair_hours=10.0)
    assert [one.time for one in failures] == sorted(one.time for one in failures)
    assert len(failures) == pytest.approx(50 * 2000 / 60, rel=0.1)  # a cycle is 60 h
    assert np.mean([one.repair_seconds for one in failures]) == pytest.approx(36000, rel=0.1)
    back = {}
    for one in failures:
        assert one.time >= back.get((one.type, one.node), 0.0)
        back[one.type, one.node] = one.time + one.repair_seconds
    assert len(back) == 50


@pytest.mark.parametrize("wrong", ["mean_hours", "repair_hours"])
def test_times_must_be_positive(wrong):
    with pytest.raises(ValueError, match=f"{wrong} = 0"):
        draw_failures(TYPES, 1.0, np.random.default_rng(0), **({"mean_hours": 1.0} | {wrong: 0.0}))
