"""Profiles by tables of measured goodput, and by simple rules for a number of GPUs.

:class:`TableProfile` has a figure for each configuration and level.  The others have one level, and go by the
number of GPUs alone, whatever their nodes: :class:`CountProfile` measured, :class:`PowerLawProfile` by a
formula, :class:`ReplicaProfile` (batch inference) by the replicas that fit, and :class:`ServiceProfile`
(inference within a promised latency) by whether they suffice:

    replicas = floor(GPUs / GPUs a replica needs)
    goodput = 1  if  latency <= bound  and  replicas throughput >= demand,  else 0.

The work of a service is the seconds for which it serves.

Source: thesis section 3.3.4 (scheduling other workload types).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.profiles.base import Profile


class TableProfile(Profile):
    """Goodput measured on a grid of configurations; outside the grid the job cannot run.

    Parameters
    ----------
    grid : sequence of Configuration
        The K configurations that were measured.
    goodput : (L, K) array_like
        By level and configuration; 0 where it cannot run.
    """

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        progress: ArrayLike,
        grid: list[Configuration],
        goodput: ArrayLike,
        calibration: float = 1.0,
    ) -> None:
        super().__init__(name, restart_seconds, progress, calibration)
        self.grid = list(grid)
        self.table = _table(name, goodput, (self.n_levels, len(self.grid)))
        self._matched: tuple[Configurations, Ints] | None = None

    def _entries(self, shapes: Configurations) -> Ints:
        """Position on the grid of each configuration, -1 for one that is not on it."""
        if self._matched is None or self._matched[0] is not shapes:
            known = {name: k for k, name in enumerate(shapes.types)}
            entries = np.array([k for k, c in enumerate(self.grid) if c.type in known], np.int64)
            types = np.array([known[self.grid[k].type] for k in entries], np.int64)
            nodes = np.array([self.grid[k].nodes for k in entries], np.int64)
            gpus = np.array([self.grid[k].gpus for k in entries], np.int64)
            at, found = shapes.find(types, nodes, gpus), np.full(len(shapes), -1)
            found[at[at >= 0]] = entries[at >= 0]
            self._matched = shapes, found
        return self._matched[1]

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        at = self._entries(shapes)
        out = np.zeros((at.size, levels.size))
        out[at >= 0] = self.table[np.ix_(levels, at[at >= 0])].T
        return out

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Goodput of the first level throughout, whatever the batch size.

        Tables hold no throughput at a fixed batch size.  At the start of training the gradient noise is
        lowest, the goodput-optimal batch is the smallest, and its efficiency is 1 by definition: there
        goodput is the throughput at the initial batch size.
        """
        return self._variant("fixed", progress=self.progress[-1:], table=self.table[:1])


class CountProfile(Profile):
    """Goodput by GPU count and type, whatever the nodes; counts that were not measured do not exist.

    Parameters
    ----------
    counts : (K,) array_like of int
        GPU counts, ascending.
    """

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        work: float,
        counts: ArrayLike,
        goodput: Mapping[str, ArrayLike],
        max_gpus: int | None = None,
    ) -> None:
        super().__init__(name, restart_seconds, [work])
        self.counts = np.array(counts).astype(np.int64)
        ascending = self.counts.ndim == 1 and (np.diff(self.counts, prepend=0) > 0).all()
        if not ascending or (self.counts != counts).any():
            raise ValueError(f"profile {name!r}: GPU counts must be whole, positive, ascending")
        self.max_gpus = max_gpus
        self.curves = {type: _table(name, curve, self.counts.shape) for type, curve in goodput.items()}

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        at = np.searchsorted(self.counts, shapes.gpus).clip(max=self.counts.size - 1)
        values = np.zeros((len(shapes), 1))
        for position, type in enumerate(shapes.types):
            if type in self.curves:
                here = (self.counts[at] == shapes.gpus) & (shapes.type_index == position)
                values[here, 0] = self.curves[type][at[here]]
        return values


class PowerLawProfile(Profile):
    """Throughput ``speed n^exponent / (1 + n / saturation)``: a job with one phase and no batch to adapt.

    `speed`: other types cannot run the job.
    """

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        work: float,
        speed: Mapping[str, float],
        exponent: float,
        saturation: float,
    ) -> None:
        super().__init__(name, restart_seconds, [work])
        self.speed, self.exponent, self.saturation = dict(speed), exponent, saturation

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        speed = np.array([self.speed.get(type, 0.0) for type in shapes.types])[shapes.type_index]
        return (speed * (shapes.gpus**self.exponent / (1.0 + shapes.gpus / self.saturation)))[:, None]


class ReplicaProfile(Profile):
    """Throughput that grows with replicas of a few GPUs each: batch inference.

    Parameters
    ----------
    max_replicas : int, optional
        Configurations with more replicas do not exist.
    """

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        work: float,
        replicas: Mapping[str, tuple[int, float]],
        max_replicas: int | None = None,
    ) -> None:
        super().__init__(name, restart_seconds, [work])
        for type, (gpus, throughput) in replicas.items():
            if gpus < 1 or not 0 <= throughput < math.inf:
                raise ValueError(f"profile {name!r}: {type}: {gpus} GPUs, throughput {throughput}")
        self.replicas = dict(replicas)
        self.max_replicas = max_replicas

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        needs = [self.replicas.get(type, (1, 0.0)) for type in shapes.types]
        count = shapes.gpus // np.array([gpus for gpus, _ in needs], np.int64)[shapes.type_index]
        if self.max_replicas is not None:
            count = np.where(count > self.max_replicas, 0, count)
        return (count * np.array([throughput for _, throughput in needs])[shapes.type_index])[:, None]


class Replica(NamedTuple):
    """One replica of a service on a type of GPU.

    `gpus`: GPUs that it needs. `throughput`: requests a second. `latency`: seconds from a request to its
    answer.
    """

    gpus: int
    throughput: float
    latency: float


class ServiceProfile(ReplicaProfile):
    """Inference within a latency: a configuration is good enough or it is not.

    `seconds`: for which it serves. `demand`: requests a second. `bound`: largest latency, seconds.
    """

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        seconds: float,
        replicas: Mapping[str, Replica],
        demand: float,
        bound: float,
    ) -> None:
        if not 0 < demand < math.inf:
            raise ValueError(f"profile {name!r}: demand = {demand}: must be positive and finite")
        quick = {type: (one.gpus, one.throughput) for type, one in replicas.items() if one.latency <= bound}
        if not quick:
            raise ValueError(f"profile {name!r}: no GPU type answers within {bound:g} s")
        super().__init__(name, restart_seconds, seconds, quick)
        self.demand = demand

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        return (super().speeds(shapes, levels) >= self.demand).astype(np.float64)


def _table(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray:
    """``values`` in their own float type, checked."""
    table = np.array(values)
    if table.dtype.kind not in "fiu":
        raise ValueError(f"profile {name!r}: goodput must be numbers, not {table.dtype}")
    table = table if table.dtype.kind == "f" else table.astype(np.float64)
    if table.shape != shape:
        raise ValueError(f"profile {name!r}: goodput has the shape {table.shape}, not {shape}")
    if not (np.isfinite(table).all() and (table >= 0).all()):
        raise ValueError(f"profile {name!r}: goodput must be finite and not negative")
    return table
