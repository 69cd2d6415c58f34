"""Best batches against dense grids, efficiency against AdaScale, fixed batches, the built-in profiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel, best_batches
from copter.problems.cluster.profiles.throughput import (
    ThroughputParameters,
    adascale_gain,
    efficiency,
    learning_rate_factor,
    noise_scale,
)

times = st.floats(0.001, 1.0)
parameters = st.builds(
    ThroughputParameters, times, st.floats(1e-4, 0.1), times, times, times, times, st.floats(1.0, 10.0)
)
MODEL = TypeModel(ThroughputParameters(0.05, 0.002, 0.02, 0.001, 0.1, 0.002, 2.0), 64)
PROFILE = GoodputProfile("job", 30.0, [100.0, 400.0], [200.0, 5000.0], {"t4": MODEL}, BatchLimits(32, 4096))


def test_efficiency_by_hand():
    assert noise_scale(2.0, 6.0, 32) == pytest.approx(96.0)
    assert efficiency(96.0, 32, 128) == pytest.approx(128 / 224)
    assert adascale_gain(96.0, 32, 128) == pytest.approx(4.0 / 1.75)
    with pytest.raises(ValueError, match="rule = 'linear': must be one of"):
        learning_rate_factor("linear", 1.0, 1, 2)


@given(
    parameters,
    st.integers(1, 16),
    st.integers(1, 4),
    st.floats(1.0, 1e6),
    st.integers(1, 100),
    st.integers(4, 64),
    st.floats(1.0, 50.0),
)
def test_golden_section_finds_the_best_batch_of_a_dense_grid(
    model, nodes, per_node, noise, local, initial, ratio
):
    gpus, limits = nodes * per_node, BatchLimits(initial, int(initial * ratio))
    found, batch = best_batches(
        TypeModel(model, local), np.array([nodes]), np.array([gpus]), np.array([noise]), limits
    )
    if gpus > limits.largest:
        assert found[0] == 0
        return
    least = max(initial, gpus)
    sizes = np.unique(
        np.r_[np.geomspace(least, limits.largest, 2000), np.arange(least, limits.largest, gpus * local)]
    )
    passes = np.ceil(sizes / (gpus * local) - 1e-12)
    grid = model.throughput(nodes, gpus, sizes / (gpus * passes), passes - 1) * efficiency(
        noise, initial, sizes
    )
    assert found[0] >= grid.max() * (1 - 1e-6)
    # Nor does it claim more than its batch size has.
    passes = np.ceil(batch / (gpus * local) - 1e-9)
    own = model.throughput(nodes, gpus, batch / (gpus * passes), passes - 1) * efficiency(
        noise, initial, batch
    )
    assert found[0] == pytest.approx(own[0], rel=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 16)])
@pytest.mark.parametrize("level", [0, 1])
def test_the_chosen_batch_runs_at_the_goodput_that_was_promised(shape, level):
    configuration = Configuration(*shape, "t4")
    choice = PROFILE.best_batch(configuration, level)
    assert choice.batch_size == shape[1] * choice.local_batch * (choice.accumulation + 1)
    assert choice.local_batch <= MODEL.max_local_batch
    assert 32 <= choice.batch_size <= 4096
    rate = MODEL.parameters.throughput(*shape, choice.local_batch, choice.accumulation)
    rate = rate * efficiency(PROFILE.noise[level], 32, choice.batch_size) / 32
    assert rate == pytest.approx(PROFILE.curve(configuration)[level], rel=0.02)
    gain = adascale_gain(PROFILE.noise[level], 32, choice.batch_size)
    assert choice.learning_rate_factor == pytest.approx(gain)


def test_a_fixed_batch_has_its_own_throughput():
    fixed = PROFILE.at_fixed_batch(512)
    assert fixed is PROFILE.at_fixed_batch(512)
    assert fixed.best_batch(Configuration(1, 4, "t4"), 0).batch_size == 512
    # 512 on four GPUs are two passes of 64: one of them synchronises.
    seconds = MODEL.parameters.step_seconds(1, 4, 64, 1)
    expected = 512 / seconds * efficiency(PROFILE.noise, 32, 512) / 32
    assert fixed.curve(Configuration(1, 4, "t4")) == pytest.approx(expected)
    assert (fixed.curve(Configuration(1, 4, "t4")) <= PROFILE.curve(Configuration(1, 4, "t4"))).all()
    assert PROFILE.at_fixed_batch().curve(Configuration(1, 1, "t4")) == pytest.approx(
        1 / MODEL.parameters.step_seconds(1, 1, 32)
    )


@pytest.mark.parametrize("size", [128, 512, 2048])
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 1), (1, 4), (2, 8)])
def test_steps_a_second_are_those_of_the_throughput_model(size, nodes, gpus):
    fixed = PROFILE.at_fixed_batch(size)
    goodput = fixed.curve(Configuration(nodes, gpus, "t4"))
    steps = np.array([fixed.steps(level) for level in range(2)])
    passes = -(-size // (gpus * MODEL.max_local_batch))
    seconds = MODEL.parameters.step_seconds(nodes, gpus, size / (gpus * passes), passes - 1)
    assert goodput * steps == pytest.approx(np.full(2, 1.0 / float(seconds)), rel=1e-12)
