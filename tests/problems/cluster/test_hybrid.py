"""Hybrid-parallel jobs by hand."""

import pytest

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.profiles.goodput import BatchLimits
from copter.problems.cluster.profiles.hybrid import HybridProfile, _pipeline, gpt_profile
from copter.problems.cluster.profiles.throughput import efficiency

CONFIGURATIONS = Cluster([GpuType("rtx", 8, 3), GpuType("a100", 8, 2), GpuType("t4", 4, 2)]).configurations
PROFILE = HybridProfile(
    "h",
    30.0,
    [10.0, 20.0],
    [100.0, 400.0],
    {"rtx": _pipeline(4, 0.5, (1.0, 0.1, 2.0, 0.2), 1.0)},
    BatchLimits(6, 24),
)


def test_a_pipeline_by_hand():
    # Four stages, six microbatches of half a second: nine times half a second.
    assert PROFILE.curve(Configuration(1, 4, "rtx"))[0] == pytest.approx(6 / 4.5 / 6)
    # Two replicas on a node synchronise for a second; four on two nodes for 2.4.
    eight, sixteen = PROFILE.curve(Configuration(1, 8, "rtx")), PROFILE.curve(Configuration(2, 16, "rtx"))
    assert eight == pytest.approx(12 / 5.5 * efficiency(PROFILE.noise, 6, 12) / 6)
    assert sixteen == pytest.approx(24 / 6.9 * efficiency(PROFILE.noise, 6, 24) / 6)
    # Not of a multiple of four, and not of a batch above 24.
    assert PROFILE.curve(Configuration(1, 2, "rtx"))[0] == 0
    assert PROFILE.curve(Configuration(3, 24, "rtx"))[0] == 0
    columns, values = PROFILE.row(CONFIGURATIONS, 1)
    assert [CONFIGURATIONS[int(k)].gpus for k in columns] == [4, 8, 16]
    assert values == pytest.approx([PROFILE.curve(CONFIGURATIONS[int(k)])[1] for k in columns])


def test_a_fixed_batch_is_divided_among_the_replicas():
    fixed = PROFILE.at_fixed_batch()
    assert fixed.curve(Configuration(1, 4, "rtx")) == pytest.approx(PROFILE.curve(Configuration(1, 4, "rtx")))
    # Two replicas with three microbatches each: six times half a second, and a second.
    assert fixed.curve(Configuration(1, 8, "rtx"))[0] == pytest.approx(6 / 4.0 / 6)


def test_the_gpt_of_the_thesis():
    profile = gpt_profile()
    gpus = {type: [] for type in ("rtx", "a100", "t4")}
    for column in profile.row(CONFIGURATIONS, 0)[0]:
        gpus[CONFIGURATIONS[int(column)].type].append(CONFIGURATIONS[int(column)].gpus)
    assert gpus == {"rtx": [8, 16, 24], "a100": [2, 4, 8, 16], "t4": []}
    # Section 3.5.3: throughput grows linearly with GPUs, as computation dominates.
    for type, first, last, shape in (("a100", 2, 16, (2, 16)), ("rtx", 8, 24, (3, 24))):
        model = profile.pipelines[type]
        replicas = last // first
        one, many = model.parameters.throughput(1, 1, 48), model.parameters.throughput(shape[0], replicas, 48)
        assert many / one == pytest.approx(replicas, rel=0.05)
