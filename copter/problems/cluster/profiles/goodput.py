"""Goodput of an adaptive training job: the throughput model of each GPU type times statistical efficiency.

    GOODPUT(a, m) = THROUGHPUT(a, m) EFFICIENCY(m)                 examples a second        (6)
    m*(a) = argmax GOODPUT(a, m),   max(m0, K) <= m <= m_max                                (13)

Here a is a configuration with K GPUs, m a batch size, and m0 the initial batch size.  With a largest local
batch b_max on each GPU, a batch of m on K GPUs takes p = ceil(m / (K b_max)) passes.  Fewer passes do not fit
in memory, and more passes are never faster.  For a given p, goodput has one maximum in m, which
golden-section search finds; all p are tried.  A profile counts progress in steps of the initial batch size,
so its speed is goodput / m0.

Sources: Pollux sections 3 and 4.1, equations 6 and 13; one throughput model for each GPU type, memory limits
and gradient accumulation: Sia, thesis sections 3.3.1 and 3.3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.throughput import (
    BatchChoice,
    ScalingRule,
    ThroughputParameters,
    efficiency,
    learning_rate_factor,
    split_batch,
)

_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
_SEARCH_STEPS = 24
"""Steps of golden-section search: 24 steps narrow a range from m to 100 m to a relative width of 0.005%."""


class TypeModel(NamedTuple):
    """Model of a job on one type of GPU; `max_local_batch`: most examples that fit on one GPU."""

    parameters: ThroughputParameters
    max_local_batch: int


class BatchLimits(NamedTuple):
    """Batch sizes that a job may use, from `initial` (m0, the user's) to `largest`."""

    initial: int
    largest: int


def best_batches(
    model: TypeModel | Sequence[TypeModel], nodes: Ints, gpus: Ints, noise: Floats, limits: BatchLimits
) -> tuple[Floats, Floats]:
    """Return the largest goodput over all batch sizes, and the batch size that attains it.

    `noise`: gradient noise scale in examples. The goodput is in examples per second; it is 0 where there are
    more GPUs than examples in the largest batch. The batch size is not rounded.
    """
    fields, local = _stacked([model] * gpus.size if isinstance(model, TypeModel) else model)
    whole = gpus * local
    first = np.ceil(np.maximum(limits.initial, gpus) / whole).astype(np.int64)
    last = np.ceil(limits.largest / whole).astype(np.int64)
    count = np.where(gpus > limits.largest, 0, last - first + 1)
    goodput, batch = np.zeros(gpus.size), np.full(gpus.size, float(limits.initial))
    item = np.repeat(np.arange(gpus.size), count)
    if not item.size:
        return goodput, batch
    start = np.cumsum(count) - count
    passes = first[item] + np.arange(item.size) - start[item]
    low = np.maximum(np.maximum(limits.initial, gpus[item]), whole[item] * (passes - 1))
    high = np.minimum(limits.largest, whole[item] * passes)
    sync = ThroughputParameters(*fields).sync_seconds(nodes, gpus)[item]
    parameters = ThroughputParameters(*fields[:, item])
    held, scale = gpus[item], noise[item]

    def value(log_batch: Floats) -> Floats:
        size = np.exp(log_batch)
        seconds = parameters.combined(size / (held * passes), sync, passes - 1)
        return size / seconds * efficiency(scale, limits.initial, size)

    at = _golden_section(value, np.log(low), np.log(high))
    values = value(at)
    np.maximum.at(goodput, item, values)
    best = values >= goodput[item]
    batch[item[best]] = np.exp(at[best])
    return goodput, batch


def _stacked(models: Sequence[TypeModel]) -> tuple[Floats, Ints]:
    """Return the seven parameters, and the largest local batches, of n models: (7, n) and (n,) arrays."""
    fields = np.array([one.parameters for one in models], np.float64).reshape(-1, 7).T
    return fields, np.array([one.max_local_batch for one in models], np.int64)


def _golden_section(value: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return the position of the only maximum of `value` between `low` and `high`, element by element."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    ends = (low, high)
    for _ in range(_SEARCH_STEPS):
        keep = at_left >= at_right
        low, high = np.where(keep, low, left), np.where(keep, right, high)
        new = np.where(keep, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = value(new)
        left, right = np.where(keep, new, right), np.where(keep, left, new)
        at_left, at_right = np.where(keep, at_new, at_right), np.where(keep, at_left, at_new)
    middle = (low + high) / 2.0
    candidates = np.stack((middle, *ends))
    values = np.stack([value(candidate) for candidate in candidates])
    return np.take_along_axis(candidates, values.argmax(axis=0)[None], axis=0)[0]


class GoodputProfile(Profile):
    """Goodput by a throughput model for each GPU type and a gradient noise scale for each level.

    `progress`: steps at the initial batch size at which each level ends. `noise`: gradient noise scale in
    each level, in examples. `models`: throughput model by type; other types cannot run the job. `rule`:
    learning rate rule. `batch_size`: the only batch size, if it is fixed.
    """

    batch_size: int | None = None

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        progress: ArrayLike,
        noise: ArrayLike,
        models: Mapping[str, TypeModel],
        limits: BatchLimits,
        *,
        rule: ScalingRule = "adascale",
        calibration: float = 1.0,
    ) -> None:
        super().__init__(name, restart_seconds, progress, calibration)
        self.noise = np.array(noise, np.float64)
        if self.noise.shape != (self.n_levels,) or not ((self.noise >= 0) & np.isfinite(self.noise)).all():
            raise ValueError(f"profile {name!r}: noise must be {self.n_levels} finite numbers >= 0")
        if not 1 <= limits.initial <= limits.largest:
            given = f"initial = {limits.initial}, largest = {limits.largest}"
            raise ValueError(f"profile {name!r}: batch sizes must satisfy 1 <= initial <= largest; {given}")
        self._check(models)
        self.models, self.limits, self.rule = dict(models), limits, rule

    @property
    def batch_range(self) -> tuple[int, int]:  # noqa: D102 - see Profile
        return self.limits.initial, self.limits.largest

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        known = np.array([type in self.models for type in shapes.types], np.bool_)[shapes.type_index]
        here, rates = np.flatnonzero(known), np.zeros((len(shapes), levels.size))
        types = [shapes.types[k] for k in shapes.type_index[here].tolist()]
        models = [self.models[type] for type in types for _ in range(levels.size)]
        nodes, gpus = np.repeat(shapes.nodes[here], levels.size), np.repeat(shapes.gpus[here], levels.size)
        noise, initial, size = np.tile(self.noise[levels], here.size), self.limits.initial, self.batch_size
        if size is None:
            goodput = best_batches(models, nodes, gpus, noise, self.limits)[0]
        else:
            fields, local = _stacked(models)
            passes = np.ceil(size / (gpus * local))
            seconds = ThroughputParameters(*fields).step_seconds(
                nodes, gpus, size / (gpus * passes), passes - 1
            )
            goodput = np.where(gpus <= size, size / seconds * efficiency(noise, initial, size), 0.0)
        rates[here] = (goodput / initial).reshape(here.size, levels.size)
        return rates

    def best_batch(self, configuration: Configuration, level: int) -> BatchChoice:
        """Return the batch size, passes and learning rate factor of a job under a configuration."""
        nodes, gpus, type = configuration
        if type not in self.models or self.curve(configuration)[level] <= 0:
            raise ValueError(f"profile {self.name!r}: {configuration}: must be able to run the job")
        model, noise = self.models[type], float(self.noise[level])
        if self.batch_size is None:
            shape = (np.array([nodes]), np.array([gpus]))
            _, best = best_batches(model, *shape, np.array([noise]), self.limits)
            # Candidates in whole examples on each GPU: next to the best batch size, and the largest allowed.
            near = gpus * np.arange(max(1, int(best[0] // gpus)), int(best[0] // gpus) + 2)
            near = near[near <= self.limits.largest]
            near = near[near >= self.limits.initial] if near[-1] >= self.limits.initial else near[-1:]
        else:
            near = np.array([self.batch_size])
        local, accumulation = split_batch(near, gpus, model.max_local_batch)
        batch = gpus * local * (accumulation + 1)
        rate = model.parameters.throughput(nodes, gpus, local, accumulation)
        rate = np.where(batch <= max(self.limits.largest, near[0]), rate, 0.0)
        k = int(np.argmax(rate * efficiency(noise, self.limits.initial, batch)))
        factor = learning_rate_factor(self.rule, noise, self.limits.initial, batch[k])
        return BatchChoice(int(batch[k]), int(local[k]), int(accumulation[k]), float(factor))

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Return the goodput at one batch size, whose efficiency is the same under all configurations."""
        size = self.limits.initial if batch_size is None else batch_size
        if size < 1:
            raise ValueError(f"profile {self.name!r}: batch_size = {size}: must be at least 1")
        return self._variant(("fixed", size), batch_size=size)

    def steps(self, level: int) -> float:
        """Return the steps at the fixed batch size that equal one initial step; 1 if no size is fixed."""
        if self.batch_size is None:
            return 1.0
        initial, size = self.limits.initial, self.batch_size
        return float(initial / (size * efficiency(self.noise[level], initial, size)))

    def with_max_batch(self, max_batch_size: int) -> Profile:
        """Return the same job with a smaller limit on its batch size, but at least the initial size."""
        largest = min(self.limits.largest, max(max_batch_size, self.limits.initial))
        return self._variant(("largest", largest), limits=self.limits._replace(largest=largest))

    def with_models(self, models: Mapping[str, TypeModel]) -> GoodputProfile:
        """Return the same job with other throughput models, for example estimated ones."""
        self._check(models)
        return self._changed(models=dict(models))

    def with_noise(self, noise: ArrayLike) -> GoodputProfile:
        """Return the same job with another gradient noise scale in each level, in examples."""
        values = np.array(noise, np.float64)
        if values.shape != self.noise.shape or not ((values >= 0) & np.isfinite(values)).all():
            raise ValueError(f"profile {self.name!r}: noise must be {self.n_levels} finite numbers >= 0")
        return self._changed(noise=values)

    def _check(self, models: Mapping[str, TypeModel]) -> None:
        for type, model in models.items():
            try:
                model.parameters.check()
            except ValueError as error:
                raise ValueError(f"profile {self.name!r}: {type}: {error}") from None
            if model.max_local_batch < 1:
                raise ValueError(f"profile {self.name!r}: {type}: max_local_batch must be at least 1")
