"""A network that reads digits, in numpy: a job that trains, or ``python docs/examples/training/digits.py``.

The digits are drawn, not scanned: a font of 5 x 7 dots at a random position in 9 x 9 pixels, with random
brightness and noise.  The network has one hidden layer of rectified units and is trained by stochastic
gradient descent.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from copter.live.training import Training

Floats = NDArray[np.float64]
SIDE = 9
_FONT = """
01110 00100 01110 11111 00010 11111 00110 11111 01110 01110
10001 01100 10001 00010 00110 10000 01000 00001 10001 10001
10011 00100 00001 00100 01010 11110 10000 00010 10001 10001
10101 00100 00010 00010 10010 00001 11110 00100 01110 01111
11001 00100 00100 00001 11111 00001 10001 01000 10001 00001
10001 00100 01000 10001 00010 10001 10001 01000 10001 00010
01110 01110 11111 01110 00010 01110 01110 01000 01110 01100
"""
_ROWS = [[[int(dot) for dot in row] for row in line.split()] for line in _FONT.split("\n") if line]
_GLYPHS = np.array(_ROWS, np.float64).transpose(1, 0, 2)
"""Array of shape (10, 7, 5): the dots of each digit."""


def generate(examples: int, noise: float, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """Draw pictures of digits.

    Parameters
    ----------
    noise : float
        Standard deviation of a pixel; a dot is about 1.

    Returns
    -------
    pictures : (examples, 81) array
    digits : (examples,) int array
    """
    rng = np.random.default_rng(seed)
    digits = rng.integers(10, size=examples)
    pictures = rng.normal(0.0, noise, (examples, SIDE, SIDE))
    brightness = rng.uniform(0.5, 1.5, (examples, 1, 1))
    down, right = rng.integers(SIDE - 6, size=examples), rng.integers(SIDE - 4, size=examples)
    rows = (down[:, None] + np.arange(7))[:, :, None]
    columns = (right[:, None] + np.arange(5))[:, None, :]
    pictures[np.arange(examples)[:, None, None], rows, columns] += brightness * _GLYPHS[digits]
    return pictures.reshape(examples, -1), digits


def initial_model(hidden: int, seed: int) -> dict[str, Floats]:
    """Return the network before training."""
    rng = np.random.default_rng(seed)
    return {
        "first": rng.normal(0.0, (2.0 / SIDE**2) ** 0.5, (SIDE**2, hidden)),
        "first_bias": np.zeros(hidden),
        "second": rng.normal(0.0, hidden**-0.5, (hidden, 10)),
        "second_bias": np.zeros(10),
    }


def loss_and_gradient(
    model: Mapping[str, Floats], x: Floats, y: NDArray[np.int64]
) -> tuple[float, dict[str, Floats]]:
    """Return the mean cross entropy over some examples, and its gradient."""
    units = np.maximum(x @ model["first"] + model["first_bias"], 0.0)
    logits = units @ model["second"] + model["second_bias"]
    logits -= logits.max(axis=1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    at_logits = np.exp(logs)
    at_logits[np.arange(len(y)), y] -= 1.0
    at_logits /= len(y)
    at_units = (at_logits @ model["second"].T) * (units > 0)
    gradient = {
        "first": x.T @ at_units,
        "first_bias": at_units.sum(axis=0),
        "second": units.T @ at_logits,
        "second_bias": at_logits.sum(axis=0),
    }
    return -float(logs[np.arange(len(y)), y].mean()), gradient


def accuracy(model: Mapping[str, Floats], x: Floats, y: NDArray[np.int64]) -> float:
    """Return the share of digits that the network reads correctly."""
    units = np.maximum(x @ model["first"] + model["first_bias"], 0.0)
    return float((np.argmax(units @ model["second"] + model["second_bias"], axis=1) == y).mean())


def main() -> None:
    """Train, and print the progress now and then."""
    parser = argparse.ArgumentParser(description="Learn to read generated digits.")
    parser.add_argument("--hidden", type=int, default=64, help="units of the hidden layer")
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--noise", type=float, default=0.3, help="standard deviation of a pixel's noise")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--say-every", type=int, default=500, help="steps between two lines of output")
    by_hand = parser.add_argument_group("used only if copter has not started the process")
    by_hand.add_argument("--initial-batch", type=int, default=64)
    by_hand.add_argument("--work", type=float, default=3000, help="steps at the initial batch size")
    arguments = parser.parse_args()

    x, y = generate(arguments.examples, arguments.noise, arguments.seed)
    model = initial_model(arguments.hidden, arguments.seed)
    training = Training(
        model,
        examples=len(x),
        initial_batch=arguments.initial_batch,
        work=arguments.work,
        seed=arguments.seed,
    )
    for step in training.steps():
        for indices in step.passes():
            loss, gradient = loss_and_gradient(model, x[indices], y[indices])
            step.add(gradient)
        mean = step.gradient()
        rate = arguments.learning_rate * step.learning_rate_factor
        for name, weights in model.items():
            weights -= rate * mean[name]
        if training.rank == 0 and step.number % arguments.say_every == 0:
            print(
                f"step {step.number}: loss {loss:.4f}, batch {step.batch_size} in {training.ranks} processes,"
                f" {training.progress:.0f} of {training.work:.0f} initial steps",
                flush=True,
            )
    if training.rank == 0:
        held_out = generate(2000, arguments.noise, arguments.seed + 1)
        print(f"{accuracy(model, *held_out):.1%} of 2000 other digits are read correctly", flush=True)


if __name__ == "__main__":
    main()
