"""Profiles from tables of measured goodput, and from simple rules for a number of GPUs.

:class:`TableProfile` has a value for each configuration and level.  The other profiles have one level and
depend on the type and the number of GPUs only, not on the nodes.  :class:`CountProfile` has measured values
and :class:`PowerLawProfile` a formula.  The goodput of :class:`ReplicaProfile` (batch inference) is
proportional to the number of replicas that fit.  For :class:`ServiceProfile` (inference within a latency
bound), the goodput depends on whether the replicas suffice:

    replicas = floor(GPUs / GPUs a replica needs)
    goodput = 1  if  latency <= bound  and  replicas throughput >= demand,  else 0.

The work of a service is its duration in seconds.

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
        The K measured configurations.
    goodput : (L, K) array_like
        Goodput by level and configuration; 0 where the job cannot run.
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
        """Return the position of each configuration on the grid, -1 for one that is not on the grid."""
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
        """Return the goodput of the first level for all progress, whatever the batch size.

        A table has no throughput at a fixed batch size.  The first level approximates it: at the start of
        training, gradient noise is lowest, the goodput-optimal batch is the smallest, and its efficiency is 1
        by definition. So goodput is then the throughput at the initial batch size.
        """
        return self._variant("fixed", progress=self.progress[-1:], table=self.table[:1])


class CountProfile(Profile):
    """Goodput by GPU count and type, independent of the nodes; the job cannot run on other counts.

    Parameters
    ----------
    counts : (K,) array_like of int
        GPU counts, ascending.
    goodput : mapping of str to (K,) array_like
        Goodput for each count, by GPU type.
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
            raise ValueError(f"profile {name!r}: counts must be positive integers, ascending")
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
    """Throughput ``speed n^exponent / (1 + n / saturation)`` on n GPUs: one level and a fixed batch.

    `speed`: the factor of each type; other types cannot run the job.
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
    """Throughput in proportion to the number of replicas, of a few GPUs each: batch inference.

    Parameters
    ----------
    replicas : mapping of str to (int, float)
        GPUs and throughput of a replica, by GPU type.
    max_replicas : int, optional
        The job cannot run on configurations with more replicas.
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
                raise ValueError(
                    f"profile {name!r}: {type}: {gpus} GPUs, throughput {throughput}: must be >= 1 and >= 0"
                )
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

    `gpus`: GPUs that the replica needs. `throughput`: requests per second. `latency`: seconds from a request
    to its response.
    """

    gpus: int
    throughput: float
    latency: float


class ServiceProfile(ReplicaProfile):
    """Inference within a latency bound: the goodput of a configuration is 1 or 0.

    `seconds`: duration of the service. `demand`: requests per second. `bound`: largest latency in seconds.
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
            raise ValueError(f"profile {name!r}: bound = {bound:g} s: no GPU type is as fast")
        super().__init__(name, restart_seconds, seconds, quick)
        self.demand = demand

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        return (super().speeds(shapes, levels) >= self.demand).astype(np.float64)


def _table(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray:
    """Return the `values` as a checked array; a float type is kept, an integer type becomes float64."""
    table = np.array(values)
    if table.dtype.kind not in "fiu":
        raise ValueError(f"profile {name!r}: goodput of type {table.dtype}: must be numbers")
    table = table if table.dtype.kind == "f" else table.astype(np.float64)
    if table.shape != shape:
        raise ValueError(f"profile {name!r}: goodput of shape {table.shape}: must be {shape}")
    if not (np.isfinite(table).all() and (table >= 0).all()):
        raise ValueError(f"profile {name!r}: goodput must be finite and not negative")
    return table
