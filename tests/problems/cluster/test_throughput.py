"""The throughput model against hand-worked steps, its fit against known parameters and measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.cluster.estimation.fit import fit_throughput
from copter.problems.cluster.profiles.throughput import ThroughputParameters, split_batch
from support.amounts import seeds

PARAMETERS = ThroughputParameters(0.1, 0.01, 0.02, 0.003, 0.2, 0.004, 2.0)

times = st.floats(0.001, 1.0)
parameters = st.builds(ThroughputParameters, times, times, times, times, times, times, st.floats(1.0, 10.0))


@given(st.integers(1, 5000), st.integers(1, 64), st.integers(1, 300))
def test_a_split_batch_fits_with_as_few_passes_as_can_be(batch, gpus, largest):
    local, accumulation = split_batch(batch, gpus, largest)
    assert local <= largest
    assert gpus * local * (accumulation + 1) >= batch
    assert gpus * largest * accumulation < batch


def _grid(model):
    shapes = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 8), (4, 16), (8, 32)]
    nodes, gpus, local = (
        np.array(column) for column in zip(*((*s, b) for s in shapes for b in (4, 16, 64, 256)), strict=True)
    )
    return nodes, gpus, local, model.step_seconds(nodes, gpus, local)


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_a_fit_of_exact_times_predicts_them(seed):
    rng = np.random.default_rng(seed)
    model = ThroughputParameters(*np.exp(rng.uniform(np.log(0.001), 0.0, 6)), rng.uniform(1.0, 10.0))
    nodes, gpus, local, seconds = _grid(model)
    fitted = fit_throughput(nodes, gpus, local, seconds, model.grad_seconds(local))
    fitted.check()
    error = np.log(fitted.step_seconds(nodes, gpus, local) / seconds)
    assert np.sqrt(np.mean(error**2)) < 0.03


@pytest.mark.parametrize(
    "shapes, zero",
    [
        ([(1, 1)], {"alpha_local", "beta_local", "alpha_node", "beta_node"}),
        ([(1, 1), (1, 2)], {"beta_local", "alpha_node", "beta_node"}),
        ([(1, 1), (1, 2), (1, 4)], {"alpha_node", "beta_node"}),
        ([(1, 1), (2, 2)], {"alpha_local", "beta_local", "beta_node"}),
        ([(1, 1), (1, 2), (2, 8)], {"beta_local"}),
    ],
)
def test_a_job_is_believed_to_scale_perfectly_until_it_has_run_so(shapes, zero):
    nodes, gpus, local = (np.array(c) for c in zip(*((*s, b) for s in shapes for b in (8, 32)), strict=True))
    fitted = fit_throughput(nodes, gpus, local, PARAMETERS.step_seconds(nodes, gpus, local))
    sync = {
        name
        for name in ("alpha_local", "beta_local", "alpha_node", "beta_node")
        if getattr(fitted, name) == 0
    }
    assert sync >= zero
    assert fitted.grad_seconds(16) == pytest.approx(PARAMETERS.grad_seconds(16), rel=0.05)
