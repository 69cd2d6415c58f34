"""Goodput profiles: how fast a job progresses under each configuration, by how far it has come.

A profile is a list of levels.  Level ``l`` holds from progress ``progress[l-1]`` (0 for the first) up to
``progress[l]``; within it the job makes ``goodput`` units of progress a second, which depends on the
configuration alone.  A configuration without goodput cannot run the job: for the Sia policy it does not
exist.

Sources: goodput = throughput x statistical efficiency (Pollux section 3; Sia, thesis section 3.3.2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.problems.cluster.cluster import Configuration, Configurations

Row: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]


CHECKPOINTS = 100
"""Checkpoints that a job writes over its life, besides one at the end of each level."""


class Profile(ABC):
    """Goodput of one application.

    Parameters
    ----------
    restart_seconds : float
        Time of one checkpoint-restore, in which the job makes no progress.
    progress : (L,) array_like
        Progress at which each level ends, ascending; the last one is the work of the whole job.
    calibration : float
        The job runs at goodput / calibration: what the authors divide goodputs by to match measured run
        times.  It does not change what the policy sees, which normalises.
    """

    def __init__(
        self, name: str, restart_seconds: float, progress: ArrayLike, calibration: float = 1.0
    ) -> None:
        self.name = name
        self.restart_seconds = float(restart_seconds)
        self.progress = np.array(progress, np.float64)
        self.calibration = float(calibration)
        steps = np.diff(self.progress, prepend=0.0)
        if self.progress.ndim != 1 or not self.progress.size or not (steps > 0).all():
            raise ValueError(f"profile {name!r}: progress must be positive and ascending")
        if not math.isfinite(self.progress[-1]):
            raise ValueError(f"profile {name!r}: progress must be finite")
        if not 0 <= self.restart_seconds < math.inf:
            raise ValueError(f"profile {name!r}: restart_seconds = {restart_seconds}: must not be negative")
        if not 0 < self.calibration < math.inf:
            raise ValueError(f"profile {name!r}: calibration = {calibration}: must be positive")
        self._clocks: dict[Configuration, NDArray[np.float64]] = {}
        self._curves: dict[Configuration, NDArray[np.float64]] = {}

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return self.progress.size

    @property
    def work(self) -> float:
        """Progress at which the job is complete."""
        return float(self.progress[-1])

    def level(self, progress: NDArray[np.float64]) -> NDArray[np.int64]:
        """Level in which each job is.

        Parameters
        ----------
        progress : (k,) array

        Returns
        -------
        (k,) int array
        """
        return np.searchsorted(self.progress, progress, side="right").clip(max=self.n_levels - 1)

    def checkpoint(self, progress: float) -> float:
        """Progress that is safe when a node fails: the end of the last level, or hundredth of the work."""
        step = self.work / CHECKPOINTS
        passed = self.progress[self.progress <= progress]
        return max(math.floor(progress / step) * step, float(passed[-1]) if passed.size else 0.0)

    @abstractmethod
    def row(self, configurations: Configurations, level: int) -> Row:
        """Configurations that can run the job at a level, ascending, and its goodput (> 0) under each.

        Returns
        -------
        (m,) int array, (m,) array
            Positions and goodput.
        """

    @abstractmethod
    def rates(self, configurations: Configurations, column: int) -> NDArray[np.float64]:
        """Goodput under one configuration by level.

        Parameters
        ----------
        column : int
            Position of the configuration.

        Returns
        -------
        (L,) array
        """

    @property
    def batch_range(self) -> tuple[int, int] | None:
        """Initial and largest batch size, if the profile knows them."""
        return None

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """The profile of the same job when its batch size is fixed.

        Parameters
        ----------
        batch_size : int, optional
            Examples; the initial batch size by default.  Profiles that know goodput alone take no other one.

        Returns
        -------
        Profile
            The same object for equal arguments, where it is not cheap.
        """
        return self

    def steps(self, level: int) -> float:
        """Training steps in a unit of progress at a level; 1 if the batch size is not known."""
        return 1.0

    def efficiency(self, configuration: Configuration, level: int) -> float:
        """Statistical efficiency of training under a configuration: NaN for a profile that does not know it.

        Parameters
        ----------
        configuration : Configuration
            One that can run the job.
        """
        return math.nan

    def goodput(self, configurations: Configurations, level: int) -> NDArray[np.float64]:
        """Goodput under every configuration of a cluster, 0 where the job cannot run.

        Returns
        -------
        (n,) array
        """
        dense = np.zeros(len(configurations))
        columns, values = self.row(configurations, level)
        dense[columns] = values
        return dense

    def curve(self, configuration: Configuration) -> NDArray[np.float64]:
        """Goodput by level under any configuration, of a cluster's set or not; 0 where the job cannot run.

        Returns
        -------
        (L,) array, read-only
        """
        if configuration not in self._curves:
            nodes, gpus, type = configuration
            one = Configurations((type,), np.zeros(1, np.int64), np.array([nodes]), np.array([gpus]))
            rates = np.array(self.rates(one, 0), np.float64)
            rates.flags.writeable = False
            self._curves[configuration] = rates
        return self._curves[configuration]

    def clock(self, configuration: Configuration) -> NDArray[np.float64]:
        """Seconds of running under any configuration to reach each level's end, from 0.

        Infinite where the job cannot run.  With it a job advances by any time in one interpolation, however
        many levels it crosses.

        Returns
        -------
        (L + 1,) array, read-only
        """
        if configuration not in self._clocks:
            steps = np.diff(self.progress, prepend=0.0)
            rates = self.curve(configuration) / self.calibration
            spent = np.divide(steps, rates, out=np.full(steps.size, np.inf), where=rates > 0)
            clock = np.concatenate(([0.0], np.cumsum(spent)))
            clock.flags.writeable = False
            self._clocks[configuration] = clock
        return self._clocks[configuration]


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
        self._columns: NDArray[np.int64] = np.empty(0, np.int64)
        self._entries: NDArray[np.int64] = np.empty(0, np.int64)
        self._matched: Configurations | None = None

    def _match(self, configurations: Configurations) -> None:
        """Work out which configurations of the cluster are on the grid, ascending."""
        known = {name: k for k, name in enumerate(configurations.types)}
        entries = np.array([k for k, c in enumerate(self.grid) if c.type in known], np.int64)
        types = np.array([known[self.grid[k].type] for k in entries], np.int64)
        nodes = np.array([self.grid[k].nodes for k in entries], np.int64)
        gpus = np.array([self.grid[k].gpus for k in entries], np.int64)
        columns = configurations.find(types, nodes, gpus)
        order = np.argsort(columns, kind="stable")
        order = order[columns[order] >= 0]
        self._columns, self._entries, self._matched = columns[order], entries[order], configurations

    def row(self, configurations: Configurations, level: int) -> Row:  # noqa: D102 - see Profile
        if self._matched is not configurations:
            self._match(configurations)
        values = self.table[level, self._entries].astype(np.float64)
        runs = values > 0
        return (self._columns, values) if runs.all() else (self._columns[runs], values[runs])

    def rates(self, configurations: Configurations, column: int) -> NDArray[np.float64]:  # noqa: D102
        if self._matched is not configurations:
            self._match(configurations)
        at = np.searchsorted(self._columns, column)
        if at == self._columns.size or self._columns[at] != column:
            return np.zeros(self.n_levels)
        return self.table[:, self._entries[at]].astype(np.float64)

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Goodput of the first level throughout, whatever the batch size.

        Tables hold no throughput at a fixed batch size.  At the start of training the gradient noise is
        lowest, the goodput-optimal batch is the smallest, and its efficiency is 1 by definition: there
        goodput is the throughput at the initial batch size.
        """
        return TableProfile(
            self.name, self.restart_seconds, [self.work], self.grid, self.table[:1], self.calibration
        )


class CountProfile(Profile):
    """Goodput by GPU count and type, whatever the nodes; counts that were not measured do not exist.

    Parameters
    ----------
    counts : (K,) array_like of int
        GPU counts, ascending.
    goodput : mapping of GPU type to (K,) array_like
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
        if (
            self.counts.ndim != 1
            or (self.counts != counts).any()
            or not (np.diff(self.counts, prepend=0) > 0).all()
        ):
            raise ValueError(f"profile {name!r}: GPU counts must be whole, positive, ascending")
        self.max_gpus = max_gpus
        self.curves = {type: _table(name, curve, self.counts.shape) for type, curve in goodput.items()}

    def row(self, configurations: Configurations, level: int) -> Row:  # noqa: D102
        at = np.searchsorted(self.counts, configurations.gpus).clip(max=self.counts.size - 1)
        on_grid = self.counts[at] == configurations.gpus
        if self.max_gpus is not None:
            on_grid &= configurations.gpus <= self.max_gpus
        values = np.zeros(len(configurations))
        for position, type in enumerate(configurations.types):
            if type in self.curves:
                here = on_grid & (configurations.type_index == position)
                values[here] = self.curves[type][at[here]]
        columns = np.flatnonzero(values > 0)
        return columns, values[columns]

    def rates(self, configurations: Configurations, column: int) -> NDArray[np.float64]:  # noqa: D102
        return self.goodput(configurations, 0)[column : column + 1]


class ReplicaProfile(Profile):
    """Throughput that grows with replicas of a few GPUs each: batch inference.

    Parameters
    ----------
    replicas : mapping of GPU type to (GPUs a replica needs, throughput of one replica)
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

    def row(self, configurations: Configurations, level: int) -> Row:  # noqa: D102
        needs = [self.replicas.get(type, (1, 0.0)) for type in configurations.types]
        size = np.array([gpus for gpus, _ in needs], np.int64)[configurations.type_index]
        speed = np.array([throughput for _, throughput in needs])[configurations.type_index]
        count = configurations.gpus // size
        if self.max_replicas is not None:
            count = np.where(count > self.max_replicas, 0, count)
        values = count * speed
        columns = np.flatnonzero(values > 0)
        return columns, values[columns]

    def rates(self, configurations: Configurations, column: int) -> NDArray[np.float64]:  # noqa: D102
        return self.goodput(configurations, 0)[column : column + 1]


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
