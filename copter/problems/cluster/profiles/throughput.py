"""Throughput of data-parallel training: the seven-parameter model of Pollux.

The model has K GPUs on N nodes, a local batch of b examples on each GPU, and s further passes whose gradients
are accumulated before they are synchronised.  The whole batch is m = K b (s + 1):

    T_grad = alpha_grad + beta_grad b                                                      (9)
    T_sync = 0                                          K = 1                              (10)
             alpha_local + beta_local (K - 2)           N = 1, K >= 2
             alpha_node + beta_node (K - 2)             otherwise
    T_iter = (T_grad^gamma + T_sync^gamma)^(1/gamma)    one pass with its synchronisation  (11)
    T = s T_grad + T_iter,    throughput = m / T                                           (8)

Sources: Pollux section 3.2, equations 8 to 12; gradient accumulation and one set of parameters for each GPU
type: Sia, thesis sections 3.3.1 and 3.3.2.

Statistical efficiency is the progress per example at a large batch, relative to that at the initial batch.

With the initial batch size m0, the gradient's squared norm mu^2 and its variance sigma^2 at that batch size,

    phi = m0 sigma^2 / mu^2                      gradient noise scale, in examples
    EFFICIENCY(m) = (phi + m0) / (phi + m)       (7)
    r(m) = (phi / m0 + 1) / (phi / m + 1)        (5), gain of AdaScale: the factor on the learning rate

so r(m) m0 / m = EFFICIENCY(m), and a step at m counts as r steps at m0.

Sources: Pollux sections 2.2 and 3.1, equations 5 and 7; the square-root rule for optimisers of Adam's family:
Sia, thesis section 3.3.5.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints

MAX_GAMMA = 10.0
"""Largest gamma: computation and synchronisation overlap almost perfectly (Pollux section 4.1)."""


ScalingRule: TypeAlias = Literal["adascale", "square-root"]


class BatchChoice(NamedTuple):
    """Batch of a job under a configuration.

    `batch_size`: examples of the whole batch. `local_batch`: examples on each GPU in one pass.
    `accumulation`: passes beyond the first whose gradients are accumulated. `learning_rate_factor`: factor on
    the learning rate of the initial batch size.
    """

    batch_size: int
    local_batch: int
    accumulation: int
    learning_rate_factor: float


class ThroughputParameters(NamedTuple):
    """Parameters of one job on one type of GPU (equation 12), in seconds except gamma.

    `alpha_grad`, `beta_grad`: time of a pass, and of each example of the local batch in it. `alpha_local`,
    `beta_local`: time of synchronisation within a node, and of each GPU beyond the second in it.
    `alpha_node`, `beta_node`: the same times if there are several nodes. `gamma`: from 1 (computation and
    synchronisation are sequential) to 10 (they overlap).
    """

    alpha_grad: float
    beta_grad: float
    alpha_local: float
    beta_local: float
    alpha_node: float
    beta_node: float
    gamma: float

    def check(self) -> None:
        """Raise ValueError for parameters that are out of their range."""
        for name, value in zip(self._fields[:-1], self, strict=False):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} = {value}: must be finite and not negative")
        if self.alpha_grad + self.beta_grad <= 0:
            raise ValueError("alpha_grad and beta_grad = 0: one must be positive, because a pass takes time")
        if not 1 <= self.gamma <= MAX_GAMMA:
            raise ValueError(f"gamma = {self.gamma}: must be from 1 to {MAX_GAMMA:g}")

    def scaled(self, factor: float) -> ThroughputParameters:
        """Return the parameters of a job whose times are `factor` times as long."""
        return ThroughputParameters(*(factor * value for value in self))._replace(gamma=self.gamma)

    def grad_seconds(self, local_batch: ArrayLike) -> Floats:
        """Return the seconds of one pass over the local batch (9). `local_batch`: examples on each GPU."""
        return self.alpha_grad + self.beta_grad * np.asarray(local_batch, np.float64)

    def sync_seconds(self, nodes: ArrayLike, gpus: ArrayLike) -> Floats:
        """Return the seconds of synchronising the gradients (10)."""
        nodes, gpus = np.asarray(nodes), np.asarray(gpus)
        within = self.alpha_local + self.beta_local * (gpus - 2)
        between = self.alpha_node + self.beta_node * (gpus - 2)
        return np.where(gpus <= 1, 0.0, np.where(nodes <= 1, within, between))

    def step_seconds(
        self, nodes: ArrayLike, gpus: ArrayLike, local_batch: ArrayLike, accumulation: ArrayLike = 0
    ) -> Floats:
        """Return the seconds of one step of training, with accumulating passes and a synchronising one.

        `local_batch`: examples on each GPU in one pass. `accumulation`: s, passes beyond the first. The
        result has the shape to which the arguments broadcast.
        """
        return self.combined(local_batch, self.sync_seconds(nodes, gpus), accumulation)

    def combined(self, local_batch: ArrayLike, sync: ArrayLike, accumulation: ArrayLike) -> Floats:
        """Return the seconds of one step whose synchronisation takes a known time (11)."""
        grad = self.grad_seconds(local_batch)
        # Take the larger value out of the norm, because small times to the power of gamma would underflow.
        larger, smaller = np.maximum(grad, sync), np.minimum(grad, sync)
        share = np.divide(smaller, larger, out=np.zeros(np.shape(larger)), where=larger > 0)
        return np.asarray(accumulation) * grad + larger * (1.0 + share**self.gamma) ** (1.0 / self.gamma)

    def throughput(
        self, nodes: ArrayLike, gpus: ArrayLike, local_batch: ArrayLike, accumulation: ArrayLike = 0
    ) -> Floats:
        """Return the examples per second (8)."""
        batch = np.asarray(gpus) * np.asarray(local_batch, np.float64) * (np.asarray(accumulation) + 1)
        return batch / self.step_seconds(nodes, gpus, local_batch, accumulation)


def split_batch(batch_size: ArrayLike, gpus: ArrayLike, max_local_batch: ArrayLike) -> tuple[Ints, Ints]:
    """Divide a batch among GPUs with as few passes as their memory allows.

    `batch_size`: examples of the whole batch. `max_local_batch`: most examples that fit on one GPU. Result:
    examples on each GPU in one pass, rounded up; passes beyond the first.
    """
    share = np.ceil(np.asarray(batch_size) / np.asarray(gpus) - 1e-9)
    passes = np.maximum(np.ceil(share / np.asarray(max_local_batch)), 1.0)
    return np.ceil(share / passes).astype(np.int64), passes.astype(np.int64) - 1


def noise_scale(squared_norm: ArrayLike, variance: ArrayLike, initial_batch: float) -> Floats:
    """Return the gradient noise scale from statistics of the gradient at the initial batch size.

    `squared_norm`: mu^2, squared norm of the expected gradient. `variance`: sigma^2, trace of the covariance
    of the gradient at the initial batch size. `initial_batch`: m0, examples. Result: phi, examples.
    """
    return initial_batch * np.asarray(variance, np.float64) / np.asarray(squared_norm, np.float64)


def efficiency(noise: ArrayLike, initial_batch: float, batch_size: ArrayLike) -> Floats:
    """Return the progress per example at a batch size, relative to that at the initial batch size (7).

    `noise`: phi, examples. `batch_size`: at least the initial one. Result: in (0, 1].
    """
    noise = np.asarray(noise, np.float64)
    return (noise + initial_batch) / (noise + np.asarray(batch_size, np.float64))


def adascale_gain(noise: ArrayLike, initial_batch: float, batch_size: ArrayLike) -> Floats:
    """Return the number of steps at the initial batch size that equal one step at a batch size (5).

    `noise`: phi, examples. Result: from 1 to batch_size / initial_batch.
    """
    noise = np.asarray(noise, np.float64)
    return (noise / initial_batch + 1.0) / (noise / np.asarray(batch_size, np.float64) + 1.0)


def learning_rate_factor(
    rule: ScalingRule, noise: ArrayLike, initial_batch: float, batch_size: ArrayLike
) -> Floats:
    """Return the factor on the initial learning rate at a batch size.

    `rule`: "adascale" is AdaScale's gain, for stochastic gradient descent; "square-root" is the square root
    of the ratio of the batch sizes, for optimisers of Adam's family. `noise`: phi, examples; only for
    "adascale".
    """
    if rule == "adascale":
        return adascale_gain(noise, initial_batch, batch_size)
    if rule == "square-root":
        return np.sqrt(np.asarray(batch_size, np.float64) / initial_batch)
    raise ValueError(f"rule = {rule!r}: must be one of {', '.join(get_args(ScalingRule))}")
