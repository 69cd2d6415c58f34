"""Throughput, goodput and fit against AdaptDL, the package of Pollux' authors."""

import numpy as np
import pytest

from copter.problems.cluster.estimation.fit import fit_throughput
from copter.problems.cluster.profiles.goodput import BatchLimits, TypeModel, best_batches
from copter.problems.cluster.profiles.throughput import ThroughputParameters, efficiency

goodput = pytest.importorskip("adaptdl.goodput")


def _theirs(model):
    return goodput.PerfParams(
        alpha_c=model.alpha_grad,
        beta_c=model.beta_grad,
        alpha_n=model.alpha_node,
        beta_n=model.beta_node,
        alpha_r=model.alpha_local,
        beta_r=model.beta_local,
        gamma=model.gamma,
    )


def _ours(found):
    return ThroughputParameters(
        found.alpha_c, found.beta_c, found.alpha_r, found.beta_r, found.alpha_n, found.beta_n, found.gamma
    )


def _random_model(rng):
    return ThroughputParameters(*np.exp(rng.uniform(np.log(0.001), 0.0, 6)), rng.uniform(1.0, 10.0))


def _random_shape(rng):
    nodes = int(rng.integers(1, 17))
    return nodes, nodes * int(rng.integers(1, 5))


@pytest.mark.parametrize("seed", range(20))
def test_a_step_takes_what_adaptdl_says(seed):
    rng = np.random.default_rng(seed)
    model, (nodes, gpus) = _random_model(rng), _random_shape(rng)
    local, accumulation = int(rng.integers(1, 500)), int(rng.integers(0, 6))
    function = goodput.GoodputFunction(_theirs(model), goodput.GradParams(1.0, 1.0), 1)
    theirs = function.throughput(
        np.array([nodes]), np.array([gpus]), np.array([local]), np.array([accumulation])
    )
    seconds = gpus * local * (accumulation + 1) / theirs[0]
    # AdaptDL has 1e-8 GPUs beyond the second where there are none.
    assert model.step_seconds(nodes, gpus, local, accumulation) == pytest.approx(seconds, rel=1e-9, abs=1e-7)


@pytest.mark.parametrize("seed", range(20))
def test_goodput_is_that_of_adaptdl_and_no_batch_of_its_is_better(seed):
    rng = np.random.default_rng(seed)
    model, (nodes, gpus) = _random_model(rng), _random_shape(rng)
    initial, largest, local, variance = 64, 6400, 128, float(np.exp(rng.uniform(-2, 5)))
    function = goodput.GoodputFunction(_theirs(model), goodput.GradParams(sqr=1.0, var=variance), initial)
    theirs, atomic, accumulation = function.optimize(
        nodes, gpus, max_batch_size=largest, atomic_bsz_range=(1, local), accumulation=True
    )
    limits, noise = BatchLimits(initial, largest), initial * variance
    ours, _ = best_batches(
        TypeModel(model, local), np.array([nodes]), np.array([gpus]), np.array([noise]), limits
    )
    same = model.throughput(nodes, gpus, atomic, accumulation)
    same = same * efficiency(noise, initial, gpus * atomic * (accumulation + 1))
    assert same == pytest.approx(theirs, rel=1e-5)
    # It looks at fifty batch sizes, golden section between them too.
    assert ours[0] >= theirs * (1 - 1e-5)


def test_the_fit_is_as_close_as_that_of_adaptdl():
    model, rng = ThroughputParameters(0.1, 0.01, 0.02, 0.003, 0.2, 0.004, 2.0), np.random.default_rng(1)
    shapes = [(1, 1), (1, 2), (1, 4), (2, 8), (4, 16), (8, 32)]
    rows = np.array([(*shape, local) for shape in shapes for local in (4, 16, 64, 256)])
    nodes, gpus, local = rows.T
    grad = model.grad_seconds(local) * np.exp(rng.normal(0, 0.05, len(rows)))
    seconds = model.step_seconds(nodes, gpus, local) * np.exp(rng.normal(0, 0.05, len(rows)))
    theirs = _ours(goodput.fit_perf_params(nodes, gpus, local, grad, np.maximum(seconds, 1.001 * grad)))
    ours = fit_throughput(nodes, gpus, local, np.maximum(seconds, 1.001 * grad), grad)

    def error(found):
        step = np.log(found.step_seconds(nodes, gpus, local) / np.maximum(seconds, 1.001 * grad))
        own = np.log(found.grad_seconds(local) / grad)
        return float(step @ step + own @ own)

    assert error(ours) <= error(theirs)
