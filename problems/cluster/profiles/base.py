"""Goodput profiles: how fast a job progresses under each configuration, by how far it has come.

A profile is a list of levels.  Level ``l`` holds from progress ``progress[l-1]`` (0 for the first) up to
``progress[l]``; within it the job makes ``goodput`` units of progress a second, which depends on the
configuration alone.  A configuration without goodput cannot run the job: for the Sia policy it does not
exist.

A subclass says where the figures come from, in one method, :meth:`Profile.speeds`; the limits of the user
(thesis section 3.3.1), and what is known of it per cluster, per configuration and over time, are the same for
all.  One that knows batch sizes also says which batch size a job has (:meth:`Profile.best_batch`), and how
fast it is with another limit or at a fixed one (:meth:`Profile.with_max_batch`,
:meth:`Profile.at_fixed_batch`).

Sources: goodput = throughput x statistical efficiency (Pollux section 3; Sia, thesis section 3.3.2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from copy import copy
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.profiles.throughput import BatchChoice

Row: TypeAlias = tuple[Ints, Floats]

_CHECKPOINTS = 100
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

    min_gpus: int | None = None
    max_gpus: int | None = None

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
        self._forget()

    def _forget(self) -> None:
        self._rows: dict[int, Row] = {}
        self._rows_for: Configurations | None = None
        self._clocks: dict[Configuration, Floats] = {}
        self._curves: dict[Configuration, Floats] = {}
        self._variants: dict[Hashable, Self] = {}

    def _changed(self, **changes: Any) -> Self:
        """A copy with other attributes."""
        other = copy(self)
        other._forget()
        vars(other).update(changes)
        return other

    def _variant(self, key: Hashable, **changes: Any) -> Self:
        """A copy with other attributes, the same object for the same key."""
        if key not in self._variants:
            self._variants[key] = self._changed(**changes)
        return self._variants[key]

    # ---- where the figures come from -------------------------------------------------------------

    @abstractmethod
    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:
        """Goodput under each of n configurations at each of k levels, 0 where the job cannot run."""

    @property
    def batch_range(self) -> tuple[int, int] | None:
        """Initial and largest batch size, if the profile knows them."""
        return None

    def best_batch(self, configuration: Configuration, level: int) -> BatchChoice | None:
        """How the job trains under a configuration that can run it, if the profile knows batch sizes."""
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
            The same object for equal arguments.
        """
        return self

    def with_max_batch(self, max_batch_size: int) -> Profile:
        """The same job with a smaller limit on its batch size, if the profile knows batch sizes."""
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

    # ---- what follows from them ------------------------------------------------------------------

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return self.progress.size

    @property
    def work(self) -> float:
        """Progress at which the job is complete."""
        return float(self.progress[-1])

    def level(self, progress: Floats) -> Ints:
        """Level in which each job is, by its progress."""
        return np.searchsorted(self.progress, progress, side="right").clip(max=self.n_levels - 1)

    def checkpoint(self, progress: float) -> float:
        """Progress that is safe when a node fails: the end of the last level, or hundredth of the work."""
        step = self.work / _CHECKPOINTS
        passed = self.progress[self.progress <= progress]
        return max(math.floor(progress / step) * step, float(passed[-1]) if passed.size else 0.0)

    def with_gpus(self, min_gpus: int | None, max_gpus: int | None) -> Profile:
        """The same job on no fewer and no more GPUs than these, nor than those of its own limits.

        Returns
        -------
        Profile
            The same object for equal arguments.
        """
        if min_gpus is None and max_gpus is None:
            return self
        least = max(filter(None, (min_gpus, self.min_gpus)), default=None)
        most = min((gpus for gpus in (max_gpus, self.max_gpus) if gpus is not None), default=None)
        return self._variant(("gpus", least, most), min_gpus=least, max_gpus=most)

    def with_restart_seconds(self, seconds: float) -> Self:
        """The same job with another time of a checkpoint-restore."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"profile {self.name!r}: restart_seconds = {seconds}: must not be negative")
        return self._changed(restart_seconds=float(seconds))

    def _limited(self, shapes: Configurations, levels: Ints) -> Floats:
        speeds = self.speeds(shapes, levels)
        if self.min_gpus is not None or self.max_gpus is not None:
            most = math.inf if self.max_gpus is None else self.max_gpus
            speeds[(shapes.gpus < (self.min_gpus or 1)) | (shapes.gpus > most)] = 0.0
        return speeds

    def row(self, configurations: Configurations, level: int) -> Row:
        """Configurations that can run the job at a level, ascending, and its goodput (> 0) under each.

        Returns
        -------
        (m,) int array, (m,) array
            Positions and goodput.
        """
        if self._rows_for is not configurations:
            self._rows, self._rows_for = {}, configurations
        if level not in self._rows:
            values = self._limited(configurations, np.array([level]))[:, 0]
            columns = np.flatnonzero(values > 0)
            self._rows[level] = columns, values[columns]
        return self._rows[level]

    def goodput(self, configurations: Configurations, level: int) -> Floats:
        """Goodput under every configuration of a cluster, 0 where the job cannot run, shape (n,)."""
        dense = np.zeros(len(configurations))
        columns, values = self.row(configurations, level)
        dense[columns] = values
        return dense

    def curve(self, configuration: Configuration) -> Floats:
        """Goodput by level under any configuration, of a cluster's set or not; 0 where the job cannot run."""
        if configuration not in self._curves:
            nodes, gpus, type = configuration
            one = Configurations((type,), np.zeros(1, np.int64), np.array([nodes]), np.array([gpus]))
            rates = self._limited(one, np.arange(self.n_levels))[0]
            rates.flags.writeable = False
            self._curves[configuration] = rates
        return self._curves[configuration]

    def clock(self, configuration: Configuration) -> Floats:
        """Seconds of running under any configuration to reach each level's end, from 0.

        Infinite where the job cannot run.  With it a job advances by any time in one interpolation, however
        many levels it crosses.
        """
        if configuration not in self._clocks:
            steps = np.diff(self.progress, prepend=0.0)
            rates = self.curve(configuration) / self.calibration
            spent = np.divide(steps, rates, out=np.full(steps.size, np.inf), where=rates > 0)
            clock = np.concatenate(([0.0], np.cumsum(spent)))
            clock.flags.writeable = False
            self._clocks[configuration] = clock
        return self._clocks[configuration]
