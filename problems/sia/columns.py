"""Columns of the jobs' requests: who may choose what this round, and at which cost.

Jobs that may choose from the same configurations share one column template, and jobs of the same application
at the same level share one array of costs, so that a job's arrival or change costs no more than its own
columns.

Costs are those of the Sia objective (:class:`Objective`): for job i and configuration j with goodput G_ij
(thesis section 3.3.4, section 4.4.1)

    G_ij   <-  N_i^min G_ij / min_j G_ij           over all configurations that can run the job
    r_i     =  (T_i - N_i S_i) / (T_i + S_i)       on every configuration but the current one

    p < 0:  minimise   sum_ij (r_i G_ij)^p X_ij  +  lambda sum_i (1 - sum_j X_ij)
    p > 0:  maximise   sum_ij (r_i G_ij)^p X_ij  -  lambda sum_i (1 - sum_j X_ij)

The printed signs of lambda are wrong in both places.  Here both are minimised: p > 0 with its sign flipped.
Because (r G)^p = r^p G^p, a change of r_i alone is a change of one scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configurations
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind
from copter.program.program import ContinualProgram, SharedColumns, SharedCosts

_Key = TypeVar("_Key", bound=Hashable)
_Handle = TypeVar("_Handle")

_CACHED_BYTES = 1 << 27
"""Rows are forgotten, oldest first, when they hold more than this."""
_ROW_BYTES = 1000
"""Of a row, beside its costs."""


_MIN_RESTART_FACTOR = 0.01
"""Floor of the restart factor.

A young job that restarted often has N S >= T, a factor of zero or less, and (r G)^p would be infinite or no
number.  At the floor and p = -0.5 a move costs ten times as much as it is worth: the job stays where it is.
"""


@dataclass(eq=False)
class JobChoices:
    """What a request chooses from.

    `key`: equal for equal columns, also between states of the cluster. `columns`: configuration of each
    column of the request, -1 for "no allocation". `positions`: where the configurations are in the rows of
    costs.
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
        """Return the column of a configuration, -1 if it is not among them."""
        column = self._found.get(configuration)
        if column is None:
            column = self._found[configuration] = _place(self.columns, configuration)
        return column


def _place(columns: Ints, configuration: int) -> int:
    """Return where a configuration is among ascending ones, -1 if it is not there."""
    at = int(np.searchsorted(columns, configuration))
    return at if at < columns.size and columns[at] == configuration else -1


class _Runnable:
    """Configurations that can run an application, and what a job may choose of them."""

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
        """Configurations of at most ``limit`` GPUs, or the smallest of their type; all if it is negative."""
        key = (limit, has_null)
        if key not in self._choices:
            if limit < 0:
                positions = np.arange(self.columns.size)
            else:
                positions = np.flatnonzero(self.gpus <= np.maximum(limit, self._smallest))
            self._choices[key] = self._make(positions, has_null)
        return self._choices[key]

    def only(self, configuration: int) -> JobChoices | None:
        """Return one configuration, without a choice; None if it cannot run the application."""
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
    """Costs of one application at one level: ``+-G^p`` for each configuration that can run it."""

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
        """Row of a profile at a level, made if it is not there. `number`: the number of the source."""
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


class _Handles(Generic[_Key, _Handle]):
    """Handles of what requests of a program share, by what they stand for.

    Those without users are dropped when there are many: jobs come back to the same few.
    """

    def __init__(self, drop: Callable[[_Handle], None]) -> None:
        self._drop = drop
        self._handles: dict[_Key, _Handle] = {}
        self._users: dict[_Key, int] = {}

    def __len__(self) -> int:
        return len(self._handles)

    def _take(self, key: _Key, make: Callable[[], _Handle]) -> _Handle:
        if key not in self._handles:
            self._handles[key] = make()
            self._users[key] = 0
        self._users[key] += 1
        return self._handles[key]

    def release(self, key: _Key) -> None:
        """Count one user less."""
        self._users[key] -= 1

    def sweep(self, keep: int = 256) -> None:
        """Drop the handles that have no user, if there are more than ``keep``."""
        unused = [key for key, users in self._users.items() if not users]
        for key in unused if len(unused) > keep else ():
            self._drop(self._handles.pop(key))
            del self._users[key]


class TemplateCache(_Handles[tuple[bool, bytes], SharedColumns]):
    """Column templates of a program by :attr:`JobChoices.key`."""

    def __init__(self, program: ContinualProgram) -> None:
        super().__init__(program.forget)
        self.program = program

    def take(self, choices: JobChoices, configurations: Configurations) -> SharedColumns:
        """Return the handle of the columns of some choices, with one user more."""
        size = choices.columns.size
        return self._take(
            choices.key, lambda: self.program.share_columns(_usage(choices, configurations), size)
        )


class VectorCache(_Handles[tuple[CostRow, JobChoices], SharedCosts]):
    """Cost vectors of a program by row of costs and choices."""

    def __init__(self, program: ContinualProgram) -> None:
        super().__init__(program.forget)
        self.program = program

    def take(self, row: CostRow, choices: JobChoices) -> SharedCosts:
        """Return the vector of the costs of some choices, counting one user more."""
        return self._take((row, choices), lambda: self.program.share_costs(row.block(choices)))


def _usage(choices: JobChoices, configurations: Configurations) -> dict[Hashable, Any]:
    """Return the GPUs of each type that the columns take: ``{type: (columns, GPUs)}``."""
    real = np.flatnonzero(choices.columns >= 0)
    picked = choices.columns[real]
    types, gpus = configurations.type_index[picked], configurations.gpus[picked].astype(np.float64)
    return {
        name: (real[types == k], gpus[types == k])
        for k, name in enumerate(configurations.types)
        if (types == k).any()
    }


def _normalised(goodput: Floats, min_gpus: int) -> Floats:
    """Return the goodputs of a job, all positive, scaled so that the smallest is ``min_gpus``."""
    if not goodput.size:
        return goodput
    return goodput * (min_gpus / goodput.min())


def restart_factor(age: Floats, restarts: Ints, restart_seconds: Floats) -> Floats:
    """Share of its time that a job spends running if it goes on restarting as it did, after one restart more.

    `age`: seconds since submission. `restarts`: restarts so far, the first start not counted.
    `restart_seconds`: time of one restart. Result: in [`_MIN_RESTART_FACTOR`, 1]; 1 for a job that
    restarts in no time.
    """
    lived = age + restart_seconds
    factor = np.divide(age - restarts * restart_seconds, lived, out=np.ones(lived.shape), where=lived > 0)
    return factor.clip(_MIN_RESTART_FACTOR, 1.0)


@dataclass(frozen=True)
class Objective:
    """Costs of the Sia policy.

    `p`: fairness knob, not zero; the thesis' default is -0.5. `lam`: cost of leaving a job without GPUs, >=
    0; the thesis' default is 1.1.
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
    """What jobs run by: a profile, and how many GPUs they may have; all jobs with the same ones share it.

    `least`: fewest GPUs that a job of it may have. `most`: most GPUs; None for any number.
    """

    profile: Profile
    least: int = 1
    most: int | None = None


class Sources:
    """Numbers of the sources in use; a number is never used for two."""

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
        """Return the number of a source, counting one user more.

        `kind`: jobs that are not adaptive run by the profile at its fixed batch size. `most`: limits, see
        `_Source`.
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
        """Count one user less; what nobody uses is forgotten, for jobs may bring profiles of their own."""
        self._users[number] -= 1
        if not self._users[number]:
            source = self._sources.pop(number)
            del self._numbers[source], self._users[number]
            self._fixed_batch = {k: v for k, v in self._fixed_batch.items() if v is not source.profile}
