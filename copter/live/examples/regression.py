"""Linear regression, whose gradient noise is known: ``python -m copter.live.examples.regression``.

Examples are y = w* x + e with x of d independent standard normal entries and e of variance s^2.  The
gradient of half the squared error at w* + h, over one example, is (h x - e) x, and so

    mu^2 = |h|^2,   sigma^2 = ((d + 1) |h|^2 + d s^2) / m0

at the batch size m0: see :mod:`copter.problems.cluster.estimation.gradients`.  As w approaches w*, the
gradient becomes small and the noise does not.  Larger batches therefore gain value, and the scheduler
enlarges the job.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from copter.live.training import Training


def generate(
    examples: int, features: int, error: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Draw examples.

    Parameters
    ----------
    error : float
        Standard deviation s of e.

    Returns
    -------
    x : (examples, features) array
    y : (examples,) array
    true : (features,) array
        The vector w*.
    """
    rng = np.random.default_rng(seed)
    x, true = rng.standard_normal((examples, features)), rng.standard_normal(features)
    return x, x @ true + rng.normal(0.0, error, examples), true


def main() -> None:
    """Train, and print the distance from the solution."""
    parser = argparse.ArgumentParser(description="Linear regression by stochastic gradient descent.")
    parser.add_argument("--examples", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--error", type=float, default=1.0)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=0)
    by_hand = parser.add_argument_group("used only if copter has not started the process")
    by_hand.add_argument("--initial-batch", type=int, default=16)
    by_hand.add_argument("--work", type=float, default=3000, help="steps at the initial batch size")
    arguments = parser.parse_args()

    x, y, true = generate(arguments.examples, arguments.features, arguments.error, arguments.seed)
    w = np.zeros(arguments.features)
    training = Training({"w": w}, examples=len(x), initial_batch=arguments.initial_batch, work=arguments.work)
    for step in training.steps():
        for indices in step.passes():
            residual = x[indices] @ w - y[indices]
            step.add(x[indices].T @ residual / len(indices))
        w -= arguments.learning_rate * step.learning_rate_factor * step.gradient()
        step.figure(0.5 * float(residual @ residual) / len(residual))
    if training.rank == 0:
        print(f"{training.step_count} steps: |w - w*| = {np.linalg.norm(w - true):.4f}", flush=True)


if __name__ == "__main__":
    main()
