"""Training steps a second at a fixed batch size: those of the throughput model, in every level the same."""

import numpy as np
import pytest

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.profiles.throughput import ThroughputParameters

MODEL = TypeModel(ThroughputParameters(0.05, 0.001, 0.02, 0.001, 0.05, 0.002, 1.5), 256)
PROFILE = GoodputProfile(
    "a", 30.0, [100.0, 300.0, 900.0], [50.0, 400.0, 3000.0], {"t4": MODEL}, BatchLimits(128, 4096)
)


@pytest.mark.parametrize("size", [128, 512, 2048])
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 1), (1, 4), (2, 8)])
def test_steps_a_second_are_those_of_the_throughput_model(size, nodes, gpus):
    fixed = PROFILE.at_fixed_batch(size)
    goodput = fixed.curve(Configuration(nodes, gpus, "t4"))
    steps = np.array([fixed.steps(level) for level in range(3)])
    passes = -(-size // (gpus * MODEL.max_local_batch))
    seconds = MODEL.parameters.step_seconds(nodes, gpus, size / (gpus * passes), passes - 1)
    assert goodput * steps == pytest.approx(np.full(3, 1.0 / float(seconds)), rel=1e-12)


def test_a_job_that_adapts_counts_its_progress():
    assert [PROFILE.steps(level) for level in range(3)] == [1.0, 1.0, 1.0]
    assert PROFILE.at_fixed_batch().steps(0) == pytest.approx(1.0)
