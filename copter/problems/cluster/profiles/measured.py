"""Goodput from measurements: times of a training step and statistics of the gradient, interpolated.

The time of a step is linear between the measured numbers of nodes and GPUs and, there, between the measured
local batches.  The gradient's squared norm mu^2 and variance sigma^2 were measured in each epoch under
several batch sizes, and are linear between those.  A step of batch m takes T(m) seconds and counts as

    r(m) = (sigma^2 + mu^2) / (sigma^2 m0 / m + mu^2)

steps at the initial batch size m0.  Progress is counted in such steps, a level is an epoch, and goodput is
the largest r(m) / T(m) over the feasible batch sizes.

Source: Pollux section 5.3 (simulating system throughput and statistical efficiency), equation 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import Delaunay, QhullError

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.throughput import BatchChoice, split_batch

_BATCH_SIZES = 50
"""Number of batch sizes, spaced geometrically, among which the best one is searched."""

_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

Measured: TypeAlias = Mapping[tuple[int, int], Mapping[int, tuple[float, float]]]


class MeasuredStepTimes:
    """Seconds of a step by nodes, GPUs and local batch.

    `min_local_batch`: smallest local batch that was measured on one GPU.
    """

    def __init__(self, measured: Measured) -> None:
        if (1, 1) not in measured:
            raise ValueError("measured: must have an entry for one GPU on one node")
        self._known = {key: _grid(key, by_batch) for key, by_batch in sorted(measured.items())}
        self._points = np.array(list(self._known), np.float64)
        try:
            self._triangles: Delaunay | None = Delaunay(self._points)
        except (QhullError, ValueError):
            self._triangles = None  # fewer than three measured shapes, or all on one line
        self._max_nodes = int(self._points[:, 0].max())
        self.min_local_batch = int(self._known[1, 1][0][0])

    def max_local_batch(self, max_batch: int) -> int:
        """Return the largest local batch of one GPU that is within the measured range of every shape.

        Shapes on which its whole batch exceeds `max_batch` do not count.
        """
        sizes = self._known[1, 1][0]
        last = [(gpus, grid[-1]) for (_, gpus), (grid, _) in self._known.items()]
        everywhere = [
            size for size in sizes if all(size <= end or gpus * size > max_batch for gpus, end in last)
        ]
        return int(max(everywhere, default=sizes[0]))

    def at(self, nodes: int, gpus: int) -> tuple[Floats, Floats] | None:
        """Return ascending local batches, and the seconds of a step and of its synchronisation for each.

        `nodes`, `gpus`: more nodes than measured count as the largest measured number. The result is None if
        the nodes and GPUs are outside the measured range.
        """
        key = (min(nodes, self._max_nodes), gpus)
        if key not in self._known:
            grid = self._between(key)
            if grid is None:
                return None
            self._known[key] = grid
        return self._known[key]

    def seconds(self, nodes: int, gpus: int, local_batch: ArrayLike, accumulation: ArrayLike = 0) -> Floats:
        """Return the seconds of a step with accumulation; infinite beyond the measured shapes and batches.

        `local_batch`: one below the measured range takes the time of the smallest one. `accumulation`: passes
        beyond the first, which take a step's time without its synchronisation.
        """
        local_batch = np.asarray(local_batch, np.float64)
        known = self.at(nodes, gpus)
        if known is None:
            return np.full(local_batch.shape, np.inf)
        grid, times = known
        step, sync = (np.interp(local_batch, grid, times[:, k]) for k in range(2))
        seconds = step + np.asarray(accumulation) * (step - sync)
        return np.where(local_batch > grid[-1], np.inf, seconds)

    def _between(self, key: tuple[int, int]) -> tuple[Floats, Floats] | None:
        """Return the linear interpolation in the triangle of measured shapes around a shape."""
        if self._triangles is None:
            return None
        simplex = int(self._triangles.find_simplex(np.array(key, np.float64), tol=1e-9))
        if simplex < 0:
            return None
        to_corner = self._triangles.transform[simplex]
        weights = to_corner[:2] @ (np.array(key, np.float64) - to_corner[2])
        weights = np.append(weights, 1.0 - weights.sum())
        corners = self._points[self._triangles.simplices[simplex]].astype(int)
        used = [
            (weight, self._known[int(nodes), int(gpus)])
            for weight, (nodes, gpus) in zip(weights, corners, strict=True)
            if weight > 1e-9
        ]
        last = min(grid[-1] for _, (grid, _) in used)
        sizes = np.unique(np.concatenate([grid[grid <= last] for _, (grid, _) in used]))
        total = np.zeros((sizes.size, 2))
        for weight, (grid, times) in used:
            columns = [np.interp(sizes, grid, times[:, k]) for k in range(2)]
            total += weight * np.stack(columns, axis=1)
        return sizes, total


def _grid(key: tuple[int, int], by_batch: Mapping[int, tuple[float, float]]) -> tuple[Floats, Floats]:
    sizes = sorted(by_batch)
    times = np.array([by_batch[size] for size in sizes], np.float64)
    if not sizes or sizes[0] < 1 or not (np.isfinite(times).all() and (times[:, 0] > 0).all()):
        raise ValueError(f"{key[1]} GPUs on {key[0]} nodes: times of a step must be positive and finite")
    times[:, 1] = np.clip(times[:, 1], 0.0, times[:, 0])  # synchronisation is part of the step
    return np.array(sizes, np.float64), times


class GradientStatistics(NamedTuple):
    """Statistics of the gradient by epoch and batch size.

    `batch_sizes`: ascending; the first is the initial one. `squared_norm`, `variance`: mu^2, and sigma^2 at
    the initial batch size.
    """

    batch_sizes: Floats
    squared_norm: Floats
    variance: Floats

    def gain(self, batch_size: Floats) -> Floats:
        """Return the number of initial steps that a step counts as, by epoch."""
        squared_norm, variance = self._at(self.squared_norm, batch_size), self._at(self.variance, batch_size)
        scale = batch_size / self.batch_sizes[0]
        return (variance + squared_norm) / (variance / scale + squared_norm)

    def _at(self, table: Floats, batch_size: Floats) -> Floats:
        if self.batch_sizes.size == 1:
            return np.repeat(table, batch_size.size, axis=1)
        last = self.batch_sizes.size - 2
        below = (np.searchsorted(self.batch_sizes, batch_size, side="right") - 1).clip(0, last)
        width = np.diff(self.batch_sizes)[below]
        weight = ((batch_size - self.batch_sizes[below]) / width).clip(0.0, 1.0)
        return table[:, below] * (1.0 - weight) + table[:, below + 1] * weight


class MeasuredProfile(Profile):
    """Goodput of a training job whose steps and gradients were measured on one type of GPU.

    `progress`: end of each epoch, in steps at the initial batch size. `gradients`: statistics of the same
    epochs. `type`: GPU type of the measurements. `max_batch`: largest allowed batch size. `batch_size`: the
    only batch size, if it is fixed.
    """

    batch_size: int | None = None

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        progress: ArrayLike,
        times: MeasuredStepTimes,
        gradients: GradientStatistics,
        type: str,
        max_batch: int,
    ) -> None:
        super().__init__(name, restart_seconds, progress)
        if gradients.squared_norm.shape[0] != self.n_levels:
            epochs = f"{gradients.squared_norm.shape[0]} epochs of gradients"
            raise ValueError(f"profile {name!r}: {epochs}: must be {self.n_levels}, as of progress")
        self.times, self.gradients, self.type = times, gradients, type
        self.initial_batch, self.max_batch = int(gradients.batch_sizes[0]), int(max_batch)
        self.max_local_batch = times.max_local_batch(self.max_batch)

    @property
    def batch_range(self) -> tuple[int, int]:  # noqa: D102 - see Profile
        return self.initial_batch, self.max_batch

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        rates = np.zeros((len(shapes), levels.size))
        for k, (nodes, gpus, type) in enumerate(shapes):
            batch, _, _, seconds = self._candidates(nodes, gpus) if type == self.type else _NOTHING
            if batch.size:
                gain = self.gradients.gain(batch.astype(np.float64))
                rates[k] = (gain / seconds).max(axis=1)[levels]
        return rates

    def best_batch(self, configuration: Configuration, level: int) -> BatchChoice:
        """Return the batch of most goodput under a configuration, with AdaScale's learning rate factor."""
        batch, local, accumulation, seconds = self._candidates(configuration.nodes, configuration.gpus)
        if configuration.type != self.type or not batch.size:
            raise ValueError(f"profile {self.name!r}: {configuration}: must be able to run the job")
        gain = self.gradients.gain(batch.astype(np.float64))[level]
        best = int(np.argmax(gain / seconds))
        return BatchChoice(int(batch[best]), int(local[best]), int(accumulation[best]), float(gain[best]))

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Return the profile of the job at one batch size, whose efficiency is the same on all GPUs.

        Raises ValueError if the batch size is out of its range.
        """
        size = self.initial_batch if batch_size is None else int(batch_size)
        if not 1 <= size <= self.max_batch:
            raise ValueError(f"profile {self.name!r}: batch_size = {size}: must be in 1 .. {self.max_batch}")
        return self._variant(("fixed", size), batch_size=size)

    def with_max_batch(self, max_batch_size: int) -> Profile:
        """Return the same job with a smaller limit on its batch size; at least the initial one."""
        # The largest local batch stays that of the original limit.
        largest = min(self.max_batch, max(max_batch_size, self.initial_batch))
        return self._variant(("largest", largest), max_batch=largest)

    def steps(self, level: int) -> float:
        """Return the steps at a fixed batch size that equal one step at the initial one; 1 if it adapts."""
        if self.batch_size is None:
            return 1.0
        return 1.0 / float(self.gradients.gain(np.array([float(self.batch_size)]))[level, 0])

    def _candidates(self, nodes: int, gpus: int) -> tuple[Ints, Ints, Ints, Floats]:
        """Return batch sizes that can run, local batches, passes beyond the first, and seconds of a step."""
        least = max(self.initial_batch, gpus * self.times.min_local_batch)
        if self.batch_size is not None:
            wanted = np.array([float(self.batch_size)])
        elif least > self.max_batch:
            wanted = np.empty(0)
        else:
            wanted = np.geomspace(least, self.max_batch, _BATCH_SIZES)
        local, accumulation = split_batch(wanted, gpus, self.max_local_batch)
        if gpus == 1:
            # A single GPU can estimate the gradient's variance only if it accumulates at least two passes.
            accumulation = np.where(wanted > self.initial_batch, np.maximum(accumulation, 1), accumulation)
            local = np.ceil(wanted / (accumulation + 1) - 1e-9).astype(np.int64)
        # Rounding up must not bring the batch above its limit.
        local = np.minimum(local, self.max_batch // (gpus * (accumulation + 1)))
        local = np.maximum(local, self.times.min_local_batch if self.batch_size is None else 1)
        batch = gpus * local * (accumulation + 1)
        seconds = self.times.seconds(nodes, gpus, local, accumulation)
        runs = np.isfinite(seconds) & (batch <= self.max_batch) & (wanted >= gpus)
        return batch[runs], local[runs], accumulation[runs], seconds[runs]
