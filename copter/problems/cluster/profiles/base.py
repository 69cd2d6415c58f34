"""Goodput profiles: the speed of a job's progress under each configuration, as a function of its progress.

A profile is a list of levels.  Level ``l`` is from progress ``progress[l-1]`` (0 for the first) to
``progress[l]``. Within a level the job makes ``goodput`` units of progress per second, and its goodput
depends on the configuration only.  A configuration with zero goodput cannot run the job; the Sia policy has
no column for such a configuration.

A subclass defines the speeds in one method, :meth:`Profile.speeds`.  The user's limits (thesis section 3.3.1)
and the derived quantities (for a cluster, for a configuration, over time) are computed in one way for all
subclasses.  A profile that has batch sizes also defines the batch size of a job (:meth:`Profile.best_batch`),
and its speed with another limit or a fixed batch size (:meth:`Profile.with_max_batch`,
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
"""Number of checkpoints that a job writes, in addition to one at the end of each level."""


class Profile(ABC):
    """Goodput of one application, by level and configuration.

    Parameters
    ----------
    name : str
        Name of the application, for messages.
    restart_seconds : float
        Time of one checkpoint-restore, in which the job makes no progress.
    progress : (L,) array_like
        Progress at which each level ends, ascending; the last one is the work of the whole job.
    calibration : float
        The job runs at goodput / calibration.  The thesis' authors divide goodputs by this factor to match
        measured run times.  The goodput that policies read is not divided, because policies normalise it.

    Raises
    ------
    ValueError
        If an argument is out of its range.
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

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle has: all attributes, without the derived quantities."""
        derived = {name: dict[Any, Any]() for name in ("_rows", "_clocks", "_curves", "_variants")}
        return vars(self) | derived | {"_rows_for": None}

    def _changed(self, **changes: Any) -> Self:
        """Return a copy with other attributes."""
        other = copy(self)
        other._forget()
        vars(other).update(changes)
        return other

    def _variant(self, key: Hashable, **changes: Any) -> Self:
        """Return a copy with other attributes; calls with equal keys return the same object."""
        if key not in self._variants:
            self._variants[key] = self._changed(**changes)
        return self._variants[key]

    # ---- speeds of a subclass --------------------------------------------------------------------

    @abstractmethod
    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:
        """Return the goodput under n configurations at k levels, shape (n, k); 0 where the job cannot run."""

    @property
    def batch_range(self) -> tuple[int, int] | None:
        """Initial and largest batch size; None if the profile has no batch sizes."""
        return None

    def best_batch(self, configuration: Configuration, level: int) -> BatchChoice | None:
        """Return the job's batch under a configuration that can run it; None if there are no batch sizes."""
        return None

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Return the profile of the same job when its batch size is fixed.

        Parameters
        ----------
        batch_size : int, optional
            Number of examples; default: the initial batch size.  Profiles without batch sizes ignore it.

        Returns
        -------
        Profile
            The same object for equal arguments.
        """
        return self

    def with_max_batch(self, max_batch_size: int) -> Profile:
        """Return the same job with a smaller limit on its batch size, if it has batch sizes."""
        return self

    def steps(self, level: int) -> float:
        """Return the training steps per unit of progress at a level; 1 unless the batch size is fixed."""
        return 1.0

    # ---- derived quantities ----------------------------------------------------------------------

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return self.progress.size

    @property
    def work(self) -> float:
        """Progress at which the job is complete."""
        return float(self.progress[-1])

    def level(self, progress: Floats) -> Ints:
        """Return the level in which each job is, by its progress."""
        return np.searchsorted(self.progress, progress, side="right").clip(max=self.n_levels - 1)

    def checkpoint(self, progress: float) -> float:
        """Return the progress at the last checkpoint: the end of a level or a multiple of work / 100."""
        step = self.work / _CHECKPOINTS
        passed = self.progress[self.progress <= progress]
        return max(math.floor(progress / step) * step, float(passed[-1]) if passed.size else 0.0)

    def with_gpus(self, min_gpus: int | None, max_gpus: int | None) -> Profile:
        """Return the same job with limits on its GPUs, in addition to its own limits.

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
        """Return the same job with another time of a checkpoint-restore."""
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
        """Return the configurations that can run the job at a level, and its goodput (> 0) under each.

        Returns
        -------
        (m,) int array, (m,) array
            Positions, ascending, and goodput.
        """
        if self._rows_for is not configurations:
            self._rows, self._rows_for = {}, configurations
        if level not in self._rows:
            values = self._limited(configurations, np.array([level]))[:, 0]
            columns = np.flatnonzero(values > 0)
            self._rows[level] = columns, values[columns]
        return self._rows[level]

    def goodput(self, configurations: Configurations, level: int) -> Floats:
        """Return the goodput under each configuration of a cluster, (n,); 0 if it cannot run the job."""
        dense = np.zeros(len(configurations))
        columns, values = self.row(configurations, level)
        dense[columns] = values
        return dense

    def curve(self, configuration: Configuration) -> Floats:
        """Return the goodput by level under any configuration, even if no cluster has it; read-only."""
        if configuration not in self._curves:
            nodes, gpus, type = configuration
            one = Configurations((type,), np.zeros(1, np.int64), np.array([nodes]), np.array([gpus]))
            rates = self._limited(one, np.arange(self.n_levels))[0]
            rates.flags.writeable = False
            self._curves[configuration] = rates
        return self._curves[configuration]

    def clock(self, configuration: Configuration) -> Floats:
        """Return the seconds of running under a configuration until each level's end, beginning with 0.

        The seconds are infinite where the job cannot run.  A single interpolation in this array advances a
        job by any time, whatever number of levels it passes.
        """
        if configuration not in self._clocks:
            steps = np.diff(self.progress, prepend=0.0)
            rates = self.curve(configuration) / self.calibration
            spent = np.divide(steps, rates, out=np.full(steps.size, np.inf), where=rates > 0)
            clock = np.concatenate(([0.0], np.cumsum(spent)))
            clock.flags.writeable = False
            self._clocks[configuration] = clock
        return self._clocks[configuration]
