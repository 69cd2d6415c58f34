"""Columns of the jobs' requests: the configurations that each job may get in a round, and their costs.

Jobs with the same configurations share one set of columns, and jobs of the same application at the same level
share one array of costs.  So the arrival or change of a job takes time in proportion to its own columns only.

Costs are those of the Sia objective (:class:`Objective`): for job i and configuration j with goodput G_ij
(thesis section 3.3.4, section 4.4.1)

    G_ij   <-  N_i^min G_ij / min_j G_ij           over all configurations that can run the job
    r_i     =  (T_i - N_i S_i) / (T_i + S_i)       on every configuration but the current one

    p < 0:  minimise   sum_ij (r_i G_ij)^p X_ij  +  lambda sum_i (1 - sum_j X_ij)
    p > 0:  maximise   sum_ij (r_i G_ij)^p X_ij  -  lambda sum_i (1 - sum_j X_ij)

with N_i^min the fewest GPUs of job i, T_i its age, N_i its restarts so far, and S_i the seconds of a restart.
The thesis prints wrong signs of lambda in both cases.  Here both objectives are minimised; for p > 0, the
signs of the costs are changed.  Because (r G)^p = r^p G^p, a change of r_i alone is a change of one scale.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configurations, GpuLimit
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind
from copter.program.program import ContinualProgram, SharedColumns

_Key = TypeVar("_Key", bound=Hashable)
_Handle = TypeVar("_Handle")

_CACHED_BYTES = 1 << 27
"""Limit of the memory of cached rows in bytes; beyond this limit the oldest rows are dropped."""
_ROW_BYTES = 1000
"""Approximate memory of a row without its costs, in bytes."""


_MIN_RESTART_FACTOR = 0.01
"""Floor of the restart factor.

A young job with many restarts has N S >= T, so its factor would not be positive, and (r G)^p would be
infinite or undefined.  At the floor and p = -0.5, another configuration costs ten times as much as without
the factor, so the job does not move.
"""


@dataclass(eq=False)
class JobChoices:
    """The columns of a request.

    `key`: equal for equal columns, even in different states of the cluster. `columns`: index of each column's
    configuration, -1 for "no allocation". `positions`: positions of the configurations in rows of costs.
    """

    key: tuple[bool, bytes]
    columns: Ints
    positions: Ints
    _found: dict[int, int] = field(default_factory=dict)

    @property
    def has_null(self) -> bool:
        """True if column 0 is "no allocation"."""
        return self.key[0]

    def find(self, configuration: int) -> int:
        """Return the column of a configuration, -1 if the request does not have it."""
        column = self._found.get(configuration)
        if column is None:
            column = self._found[configuration] = _place(self.columns, configuration)
        return column


def _place(columns: Ints, configuration: int) -> int:
    """Return the position of a configuration in an ascending array, -1 if it does not occur."""
    at = int(np.searchsorted(columns, configuration))
    return at if at < columns.size and columns[at] == configuration else -1


class _Runnable:
    """Configurations that can run an application, with the column sets of its jobs."""

    def __init__(self, configurations: Configurations, columns: Ints) -> None:
        self.columns = columns
        self.gpus = configurations.gpus[columns]
        self._codes = configurations.codes[columns]
        types = configurations.type_index[columns]
        smallest = np.full(len(configurations.types), np.iinfo(np.int64).max)
        np.minimum.at(smallest, types, self.gpus)
        self._smallest = smallest[types]
        self._choices: dict[tuple[int, bool] | int, JobChoices] = {}

    @property
    def min_gpus(self) -> int:
        """Smallest number of GPUs with which the job runs."""
        return int(self.gpus.min(initial=np.iinfo(np.int64).max))

    def choices(self, limit: int, has_null: bool) -> JobChoices:
        """Return the configurations of at most `limit` GPUs and each type's smallest; all if `limit` < 0."""
        key = (limit, has_null)
        if key not in self._choices:
            if limit < 0:
                positions = np.arange(self.columns.size)
            else:
                positions = np.flatnonzero(self.gpus <= np.maximum(limit, self._smallest))
            self._choices[key] = self._make(positions, has_null)
        return self._choices[key]

    def only(self, configuration: int) -> JobChoices | None:
        """Return the columns with one configuration only; None if it cannot run the application."""
        choices = self._choices.get(configuration)
        if choices is None and (position := _place(self.columns, configuration)) >= 0:
            choices = self._choices[configuration] = self._make(np.array([position]), False)
        return choices

    def _make(self, positions: Ints, has_null: bool) -> JobChoices:
        columns = self.columns[positions]
        if has_null:
            columns = np.concatenate(([-1], columns))
        return JobChoices((has_null, self._codes[positions].tobytes()), columns, positions)


@dataclass(eq=False)
class CostRow:
    """Costs ``+-G^p`` of one application at one level, for each configuration that can run it."""

    runnable: _Runnable
    costs: Floats
    lam: float
    _blocks: dict[JobChoices, Floats] = field(default_factory=dict)

    def block(self, choices: JobChoices) -> Floats:
        """Return the costs of the columns of a request, read-only."""
        if choices not in self._blocks:
            costs = self.costs[choices.positions]
            if choices.has_null:
                costs = np.concatenate(([self.lam], costs))
            costs.flags.writeable = False
            self._blocks[choices] = costs
        return self._blocks[choices]


class RowCache:
    """Rows of costs by application and level, for one state of the cluster."""

    def __init__(self, configurations: Configurations, objective: Objective) -> None:
        self.configurations = configurations
        self.objective = objective
        self._runnable: dict[bytes, _Runnable] = {}
        self._rows: dict[tuple[int, int], CostRow] = {}
        self._bytes = 0

    def get(self, number: int, level: int, source: _Source) -> CostRow:
        """Return the row of source number `number` at a level; compute it if it is not cached."""
        row = self._rows.get((number, level))
        if row is None:
            row = self._build(source, level)
            self._rows[number, level] = row
            self._bytes += row.costs.nbytes + _ROW_BYTES
            while self._bytes > _CACHED_BYTES and len(self._rows) > 1:
                self._bytes -= self._rows.pop(next(iter(self._rows))).costs.nbytes + _ROW_BYTES
        return row

    def _build(self, source: _Source, level: int) -> CostRow:
        columns, goodput = source.profile.row(self.configurations, level)
        if source.least > 1 or source.most is not None:
            gpus = self.configurations.gpus[columns]
            within = (gpus >= source.least) & (gpus <= (gpus if source.most is None else source.most))
            columns, goodput = columns[within], goodput[within]
        key = columns.tobytes()
        if key not in self._runnable:
            self._runnable[key] = _Runnable(self.configurations, columns)
        runnable = self._runnable[key]
        costs = self.objective.costs(_normalised(goodput, runnable.min_gpus))
        return CostRow(runnable, costs, self.objective.lam)


class TemplateCache:
    """Handles of shared columns of a program, by :attr:`JobChoices.key`.

    Handles without users are dropped only when there are many, because jobs return to a few keys.
    """

    def __init__(self, program: ContinualProgram) -> None:
        self.program = program
        self._handles: dict[tuple[bool, bytes], SharedColumns] = {}
        self._users: dict[tuple[bool, bytes], int] = {}

    def __len__(self) -> int:
        return len(self._handles)

    def take(self, choices: JobChoices, limits: Sequence[GpuLimit]) -> SharedColumns:
        """Return the handle of the columns of some choices, and count one more user."""
        key = choices.key
        if key not in self._handles:
            size = choices.columns.size
            self._handles[key] = self.program.share_columns(_usage(choices, limits), size)
            self._users[key] = 0
        self._users[key] += 1
        return self._handles[key]

    def release(self, key: tuple[bool, bytes]) -> None:
        """Decrease the number of users by one."""
        self._users[key] -= 1

    def sweep(self, keep: int = 256) -> None:
        """Drop the handles without users, if there are more than `keep`."""
        unused = [key for key, users in self._users.items() if not users]
        for key in unused if len(unused) > keep else ():
            self.program.forget(self._handles.pop(key))
            del self._users[key]


def _usage(choices: JobChoices, limits: Sequence[GpuLimit]) -> dict[Hashable, Any]:
    """Return the GPUs with which the columns count for each limit: ``{name: (columns, GPUs)}``."""
    real = np.flatnonzero(choices.columns >= 0)
    usage: dict[Hashable, Any] = {}
    for limit in limits:
        gpus = limit.gpus[choices.columns[real]]
        if gpus.any():
            usage[limit.name] = real[gpus > 0], gpus[gpus > 0].astype(np.float64)
    return usage


def _normalised(goodput: Floats, min_gpus: int) -> Floats:
    """Return the goodputs of a job, all positive, scaled so that the smallest is ``min_gpus``."""
    if not goodput.size:
        return goodput
    return goodput * (min_gpus / goodput.min())


def restart_factor(age: Floats, restarts: Ints, restart_seconds: Floats) -> Floats:
    """Return the share of its time that a job runs after one more restart, if restarts continue at this rate.

    `age`: seconds since submission. `restarts`: restarts so far, without the first start. `restart_seconds`:
    time of one restart. The result is in [`_MIN_RESTART_FACTOR`, 1]; it is 1 for a job that restarts in no
    time.
    """
    lived = age + restart_seconds
    factor = np.divide(age - restarts * restart_seconds, lived, out=np.ones(lived.shape), where=lived > 0)
    return factor.clip(_MIN_RESTART_FACTOR, 1.0)


@dataclass(frozen=True)
class Objective:
    """Costs of the Sia policy.

    `p`: fairness exponent, not zero; the thesis' default is -0.5. `lam`: cost of leaving a job without GPUs,
    at least 0; the thesis' default is 1.1.
    """

    p: float = -0.5
    lam: float = 1.1

    def __post_init__(self) -> None:
        if not math.isfinite(self.p) or self.p == 0:
            raise ValueError(f"p = {self.p}: must be finite and not zero")
        if not 0 <= self.lam < math.inf:
            raise ValueError(f"lam = {self.lam}: must be finite and not negative")

    def costs(self, goodput: Floats) -> Floats:
        """Return the cost of each configuration without restart factor, to be minimised: ``+-G^p``."""
        return math.copysign(1.0, -self.p) * goodput**self.p

    def scales(self, factor: Floats) -> Floats:
        """Return the factor on costs for a restart factor: ``r^p``."""
        return factor**self.p


@dataclass(frozen=True)
class _Source:
    """The profile and GPU limits of a job, shared by all jobs that have equal ones.

    `least`: fewest GPUs of a job. `most`: most GPUs; None for no limit.
    """

    profile: Profile
    least: int = 1
    most: int | None = None


class Sources:
    """Numbers of the sources in use; no number is used twice."""

    def __init__(self) -> None:
        self._numbers: dict[_Source, int] = {}
        self._sources: dict[int, _Source] = {}
        self._users: dict[int, int] = {}
        self._fixed_batch: dict[Profile, Profile] = {}
        self._next = 0

    def __getitem__(self, number: int) -> _Source:
        return self._sources[number]

    def __len__(self) -> int:
        return len(self._sources)

    def take(self, profile: Profile, kind: Kind, least: int, most: int | None) -> int:
        """Return the number of a source, and count one more user.

        `kind`: jobs that are not adaptive have the profile at its fixed batch size. `least`, `most`: limits,
        see `_Source`.
        """
        if kind != "adaptive":
            if profile not in self._fixed_batch:
                self._fixed_batch[profile] = profile.at_fixed_batch()
            profile = self._fixed_batch[profile]
        source = _Source(profile, least, most)
        if source not in self._numbers:
            self._numbers[source], self._sources[self._next] = self._next, source
            self._users[self._next] = 0
            self._next += 1
        number = self._numbers[source]
        self._users[number] += 1
        return number

    def release(self, number: int) -> None:
        """Decrease the number of users; drop unused sources, because jobs may have their own profiles."""
        self._users[number] -= 1
        if not self._users[number]:
            source = self._sources.pop(number)
            del self._numbers[source], self._users[number]
            self._fixed_batch = {k: v for k, v in self._fixed_batch.items() if v is not source.profile}
