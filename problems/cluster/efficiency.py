"""Statistical efficiency: how much an example contributes to training when the batch grows.

With the initial batch size m0, the gradient's squared norm mu^2 and its variance sigma^2 at that batch size,

    phi = m0 sigma^2 / mu^2                      gradient noise scale, in examples
    EFFICIENCY(m) = (phi + m0) / (phi + m)       (7)
    r(m) = (phi / m0 + 1) / (phi / m + 1)        (5), gain of AdaScale: the factor on the learning rate

so r(m) m0 / m = EFFICIENCY(m), and a step at m is worth r steps at m0.

Sources: Pollux sections 2.2 and 3.1, equations 5 and 7; the square-root rule for optimisers of Adam's family:
Sia, thesis section 3.3.5.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

ScalingRule: TypeAlias = Literal["adascale", "square-root"]


def noise_scale(squared_norm: ArrayLike, variance: ArrayLike, initial_batch: float) -> NDArray[np.float64]:
    """Gradient noise scale from statistics of the gradient at the initial batch size.

    Parameters
    ----------
    squared_norm : array_like
        mu^2, squared norm of the expected gradient.
    variance : array_like
        sigma^2, trace of the covariance of the gradient at the initial batch size.
    initial_batch : float
        m0, examples.

    Returns
    -------
    array
        phi, examples.
    """
    return initial_batch * np.asarray(variance, np.float64) / np.asarray(squared_norm, np.float64)


def efficiency(noise: ArrayLike, initial_batch: float, batch_size: ArrayLike) -> NDArray[np.float64]:
    """Progress an example makes at a batch size over what it makes at the initial one (7).

    Parameters
    ----------
    noise : array_like
        phi, examples.
    batch_size : array_like
        At least the initial one.

    Returns
    -------
    array
        In (0, 1].
    """
    noise = np.asarray(noise, np.float64)
    return (noise + initial_batch) / (noise + np.asarray(batch_size, np.float64))


def adascale_gain(noise: ArrayLike, initial_batch: float, batch_size: ArrayLike) -> NDArray[np.float64]:
    """Steps at the initial batch size that one step at a batch size is worth (5).

    Parameters
    ----------
    noise : array_like
        phi, examples.

    Returns
    -------
    array
        From 1 to batch_size / initial_batch.
    """
    noise = np.asarray(noise, np.float64)
    return (noise / initial_batch + 1.0) / (noise / np.asarray(batch_size, np.float64) + 1.0)


def learning_rate_factor(
    rule: ScalingRule, noise: ArrayLike, initial_batch: float, batch_size: ArrayLike
) -> NDArray[np.float64]:
    """Factor on the initial learning rate at a batch size.

    Parameters
    ----------
    rule : {"adascale", "square-root"}
        The gain of AdaScale for stochastic gradient descent, the square root of the batch sizes' ratio for
        optimisers of Adam's family.
    noise : array_like
        phi, examples; the square-root rule takes none of it.

    Raises
    ------
    ValueError
        There is no such rule.
    """
    if rule == "adascale":
        return adascale_gain(noise, initial_batch, batch_size)
    if rule == "square-root":
        return np.sqrt(np.asarray(batch_size, np.float64) / initial_batch)
    raise ValueError(f"unknown scaling rule {rule!r}; there are: {', '.join(get_args(ScalingRule))}")
