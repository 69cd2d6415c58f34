"""Queue: all waiting jobs of a cluster are considered in every round, as one program.

A queue that considers only its first job leaves GPUs idle while later jobs would fit.  Here every job,
running or waiting, is a request that takes all of its GPUs on one type, or none:

    max  sum_j w_j x_j    s.t.  GPUs in use on each type <= GPUs of the type
                                GPUs of a tenant's jobs within its quota <= quota

A job has a column for each type that can run it.  If there are quotas, it has a second column for each type,
for GPUs that its tenant borrows: this column does not count in the quota and has a lower value.

The value w_j of a job is its number of GPUs times the value of a GPU:

| job | value of a GPU |
| --- | --- |
| running, within its tenant's quota | 3 B^r |
| waiting, within the quota | (1 + u) B^r |
| running on borrowed GPUs | 0.05 |
| waiting for borrowed GPUs | 0.01 (1 + u) |

u = age / (1 + GPUs s / P) is between 0 and 1, where s is the time that the job is expected to run, P is the
setting `patience_seconds`, and the age of a job that has waited for w seconds is (1 + min(w / P, 3)) / 4.  r
is the rank of the job's priority among those present, from 0 (the four highest have ranks of their own), and
B is 50.  So a job is stopped only for a job of higher priority, or if its GPUs are borrowed and a tenant
needs them within its quota. For a job whose rank is higher by one, the program stops jobs with at most about
17 times as many GPUs, and up to 33 times if that job is urgent (u near 1). Among jobs of one rank, small and
short jobs and jobs that have waited come first. A running job that must not be preempted keeps its GPUs, and
is not in the program.

The fractional solution is rounded.  If the result stops a job, branch and bound looks for a better result for
up to `exact_seconds`, and usually proves that no other choice has a higher value. Then jobs that were to be
stopped keep their GPUs as far as these are still free, and waiting jobs, by their value, get GPUs as far as
they fit.  So no job waits that would fit, and no job is stopped whose GPUs would stay idle.  There is one
exception: if the oldest job that gets nothing has waited for `reserve_seconds`, it gets a reservation as in
:mod:`.backfill`, and jobs that would delay it do not start, unless their priority is higher.  So large jobs
do not wait for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState, pinned
from copter.problems.cluster.workload import JobSubmission, Kind
from copter.problems.policies.backfill import Reservation, fastest, reservation, seconds_left, take_first
from copter.program.program import ContinualProgram, SharedColumns
from copter.shims.choose_one import ChooseOneShim
from copter.solvers.registry import make_solver, repeatable_solver

_RANKS, _BASE = 5, 50.0
_KEEP, _BORROWED_KEEP, _BORROWED = 3.0, 0.05, 0.01


class _Choice(NamedTuple):
    """A column of a job: configuration, and whether its GPUs count as borrowed."""

    configuration: Configuration
    borrowed: bool


class _Known(NamedTuple):
    """A job as it is in the program.

    `submission`, `held`, `rank`: state that determines its columns. `choices`: the columns. `small`:
    1 / (1 + GPUs s / P).
    """

    submission: JobSubmission
    held: Configuration | None
    rank: int
    choices: tuple[_Choice, ...]
    small: float


class _Held(NamedTuple):
    """GPUs of a job after a round, and whether the job must keep them (`pinned`)."""

    configuration: Configuration
    submission: JobSubmission
    pinned: bool


_Columns: TypeAlias = tuple[tuple[tuple[Hashable, int], ...], ...]
"""Columns that jobs share: for each column, its rows, each with the GPUs that the column uses."""


class Queue:
    """A queue that decides about all of its jobs in every round.

    Parameters
    ----------
    quotas : str or mapping of str to int
        Number of GPUs of each tenant, such as ``"vision=64,speech=32"``; empty for no quotas.  Tenants
        without a quota, and tenants above their quota, borrow GPUs that others do not use.
    patience_seconds : float
        P of the module: GPU seconds of a job that is half as urgent as a very short job, and the waiting time
        after which a job is twice as urgent as a new job.
    reserve_seconds : float
        Waiting time after which a job gets a reservation.
    exact_seconds : float
        Time limit of branch and bound in a round that stops a job; 0 for no branch and bound.
    tolerance : float
        Relative tolerance of the fractional solution.
    time_limit : float, optional
        Time limit of the solver in a round, in seconds.

    Attributes
    ----------
    figures : dict of str to float
        Figures of the last round: "gap", "variables" of the program, "proved" (1 if branch and bound proved
        that no other choice has a higher value, else 0), and the numbers of "waiting" and "stopped" jobs.
    """

    name = "queue"
    kind: Kind = "rigid"

    def __init__(
        self,
        *,
        quotas: str | Mapping[str, int] = "",
        patience_seconds: float = 600.0,
        reserve_seconds: float = 86_400.0,
        exact_seconds: float = 0.2,
        tolerance: float = 1e-5,
        time_limit: float | None = None,
        round_seconds: float = 60.0,
    ) -> None:
        if not patience_seconds > 0:
            raise ValueError(f"patience_seconds = {patience_seconds}: must be positive")
        self.round_seconds: float | None = float(round_seconds)
        self.quotas = _quotas(quotas)
        self.figures: dict[str, float] = {}
        self._patience, self._reserve, self._time_limit = patience_seconds, reserve_seconds, time_limit
        self._exact = make_solver("copter-exact", time_limit=exact_seconds) if exact_seconds > 0 else None
        self._solver = repeatable_solver("copter", tolerance=tolerance)
        self._shim = ChooseOneShim()
        self._program = ContinualProgram(sense="max")
        self._known: dict[str, _Known] = {}
        self._capacity: dict[str, int] = {}
        self._after: dict[str, _Held] = {}
        self._free: dict[str, int] = {}
        self._shared: dict[_Columns, SharedColumns] = {}

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the configuration of every job that gets GPUs."""
        free = now.cluster.capacity
        given = pinned(now.jobs.values(), free)
        left = _within(self.quotas, [(now.jobs[name], one) for name, one in given.items()])
        jobs = {name: job for name, job in now.jobs.items() if name not in given}
        self._edit(now, jobs, free, left)
        wanted = self._decide()
        taken: dict[str, Configuration] = {}
        for name, choice in wanted.items():
            if jobs[name].allocation is not None and take_first([choice.configuration], free):
                taken[name] = choice.configuration
        waits = (name for name, job in jobs.items() if job.allocation is None and name not in wanted)
        oldest = next((jobs[name] for name in waits if self._known[name].choices), None)
        held, rank = Reservation(), -1 if oldest is None else self._known[oldest.name].rank
        if oldest is not None and now.time - oldest.submitted >= self._reserve:
            held = reservation(now, given | taken, free, fastest(oldest, now.cluster))
        for name in self._order(jobs, wanted, now.time):
            if name in taken:
                continue
            options = [choice.configuration for choice in self._known[name].choices]
            if name in wanted:
                options.insert(0, wanted[name].configuration)
            if jobs[name].allocation is not None:  # the job was to be stopped, and may restart elsewhere
                options += fastest(jobs[name], now.cluster)
            for one in dict.fromkeys(options):
                fits = one.gpus <= free.get(one.type, 0)
                first = one == jobs[name].allocation or jobs[name] is oldest or self._known[name].rank > rank
                if fits and (first or held.admits(jobs[name], one, now.time)):
                    taken[name] = one
                    free[one.type] -= one.gpus
                    break
        stopped = sum(job.allocation is not None and name not in taken for name, job in jobs.items())
        self.figures |= {"waiting": len(jobs) - len(taken), "stopped": stopped}
        self._after = {
            name: _Held(one, now.jobs[name].submission, name in given)
            for name, one in (given | taken).items()
        }
        self._free = free
        return given | taken

    def why(self, job: str) -> list[str]:
        """Return sentences about the GPUs that a job may have, and the jobs that hold them after a round."""
        known = self._known.get(job)
        if known is None or job in self._after:
            return []
        if not known.choices:
            return ["No type has enough GPUs for it on the nodes in use."]
        types = dict.fromkeys(choice.configuration for choice in known.choices)
        return [*(self._who_has(one, known.submission) for one in types), *self._quota_of(known.submission)]

    def _who_has(self, one: Configuration, submission: JobSubmission) -> str:
        """Return a sentence about the GPUs of a type after the last round."""
        counts = dict.fromkeys(("never stopped", "of a higher", "of the same", "of a lower"), 0)
        for held in self._after.values():
            if held.configuration.type == one.type:
                more = held.submission.priority - submission.priority
                group = "of a higher" if more > 0 else "of a lower" if more < 0 else "of the same"
                counts["never stopped" if held.pinned else group] += held.configuration.gpus
        parts = [
            f"{gpus} are held by jobs {'that must not be stopped' if group == 'never stopped' else group}"
            f"{'' if group == 'never stopped' else ' priority'}"
            for group, gpus in counts.items()
            if gpus
        ]
        free = self._free.get(one.type, 0)
        return f"It needs {one.gpus} {one.type}: {free} are free{''.join(f', {part}' for part in parts)}."

    def _quota_of(self, submission: JobSubmission) -> list[str]:
        """Return a sentence about the quota of a job's tenant, if there are quotas."""
        if not self.quotas:
            return []
        tenant = submission.tenant
        used = sum(
            each.configuration.gpus for each in self._after.values() if each.submission.tenant == tenant
        )
        return [f"Its tenant {tenant!r} has {used} GPUs, and a quota of {self.quotas.get(tenant, 0)}."]

    # ---- a round ---------------------------------------------------------------------------------

    def _edit(
        self, now: ClusterState, jobs: Mapping[str, Job], free: Mapping[str, int], left: Mapping[str, int]
    ) -> None:
        """Turn the differences since the last round into edits of the program."""
        program = self._program
        uppers: dict[Hashable, float] = {("gpus", type): float(gpus) for type, gpus in free.items()}
        uppers |= {("quota", tenant): float(gpus) for tenant, gpus in left.items()}
        for id, upper in uppers.items():
            if id not in program.resources:
                program.add_resource(id, upper)
            elif program.resources[id].upper != upper:
                program.update_resources(id, upper=upper)
        ranks = _ranks(jobs.values())
        same, self._capacity = self._capacity == now.cluster.capacity, now.cluster.capacity
        gone = []
        for name, known in self._known.items():
            job = jobs.get(name)
            if job is None or job.submission is not known.submission:
                gone.append(name)  # perhaps another job with the same name has come
            elif not same or known.held != job.allocation:
                gone.append(name)
            elif known.rank != ranks[job.submission.priority]:
                gone.append(name)
        program.remove_requests([name for name in gone if name in program.requests])
        for name in gone:
            del self._known[name]
        added: dict[_Columns, list[tuple[str, list[float]]]] = {}
        for name, job in jobs.items():
            if name not in self._known:
                columns, worths = self._columns(now.cluster, job, ranks[job.submission.priority])
                if worths:
                    added.setdefault(columns, []).append((name, worths))
        for columns, group in added.items():
            self._add(columns, group)
        waiting = [name for name in program.requests if self._known[str(name)].held is None]
        if waiting:
            u = np.array([self._urgency(jobs[str(name)], now.time) for name in waiting])
            program.update_requests(waiting, scales=1.0 + u)

    def _columns(self, cluster: Cluster, job: Job, rank: int) -> tuple[_Columns, list[float]]:
        """Return the columns of a job that is new in the program, and the value of each."""
        configurations = fastest(job, cluster) if job.allocation is None else [job.allocation]
        gpus, tenant = job.gpus or 1, job.submission.tenant
        own = not self.quotas or tenant in self.quotas
        each = _BASE**rank * (_KEEP if job.allocation is not None else 1.0)
        each_borrowed = _BORROWED_KEEP if job.allocation is not None else _BORROWED
        runs = bool(configurations) and job.speed(configurations[0]) > 0
        seconds = seconds_left(job, configurations[0]) if runs else 0.0
        small = 1.0 / (1.0 + gpus * seconds / self._patience)
        kinds = [False] * own + [True] * bool(self.quotas)
        choices = tuple(_Choice(one, borrowed) for one in configurations for borrowed in kinds)
        worths = [gpus * (each_borrowed if choice.borrowed else each) for choice in choices]
        self._known[job.name] = _Known(job.submission, job.allocation, rank, choices, small)
        rows = []
        for one, borrowed in choices:
            used: dict[Hashable, int] = {("gpus", one.type): gpus}
            if self.quotas and not borrowed:
                used["quota", tenant] = gpus
            rows.append(tuple(used.items()))
        return tuple(rows), worths

    def _add(self, columns: _Columns, group: Sequence[tuple[str, list[float]]]) -> None:
        """Add the requests of jobs with the same columns."""
        if columns not in self._shared:
            usage: dict[Hashable, tuple[list[int], list[float]]] = {}
            for column, rows in enumerate(columns):
                for row, gpus in rows:
                    numbers, values = usage.setdefault(row, ([], []))
                    numbers.append(column)
                    values.append(float(gpus))
            self._shared[columns] = self._program.share_columns(usage, len(columns))
        self._program.add_requests(
            [name for name, _ in group],
            np.concatenate([worths for _, worths in group]),
            np.full(len(group), len(columns)),
            self._shared[columns],
            totals=np.ones(len(group)),
            integral=True,
        )

    def _decide(self) -> dict[str, _Choice]:
        """Solve and round the program; without a solution in time, running jobs keep their GPUs."""
        self.figures = {}
        if not len(self._program):
            return {}
        solution = self._solver.solve(self._program, time_limit=self._time_limit)
        if not solution.found:
            kept = {name: known for name, known in self._known.items() if known.held is not None}
            return {name: known.choices[0] for name, known in kept.items() if known.choices}
        rounded, proved = self._shim.round(self._program, solution), False
        if self._exact is not None and self._costs(rounded.choice):
            exactly = self._exact.solve(self._program)
            if exactly.found and exactly.integer is not None:
                proved = exactly.integer.proven
                if proved or exactly.objective > rounded.objective:
                    rounded = self._shim.round(self._program, exactly)
        self.figures = {"gap": rounded.gap, "variables": self._program.n_variables, "proved": float(proved)}
        chosen = {str(name): column for name, column in rounded.choice.items() if column is not None}
        return {name: self._known[name].choices[column] for name, column in chosen.items()}

    def _costs(self, choice: Mapping[Hashable, int | None]) -> bool:
        """Return whether a choice leaves a running job without GPUs."""
        return any(choice.get(name) is None for name, known in self._known.items() if known.held is not None)

    def _urgency(self, job: Job, time: float) -> float:
        """Return u of a waiting job, see the module."""
        age = (1.0 + min((time - job.submitted) / self._patience, 3.0)) / 4.0
        return age * self._known[job.name].small

    def _order(self, jobs: Mapping[str, Job], wanted: Mapping[str, _Choice], time: float) -> list[str]:
        """Return the jobs in the order in which they take GPUs, after running jobs that keep their GPUs.

        A job that was to be stopped comes before chosen jobs of its own or a lower rank, with
        quotas only before those that borrow, so that it is not stopped for one of them.  Jobs that were not
        chosen come last, by rank and urgency.
        """

        def place(name: str) -> tuple[float, float]:
            known, choice = self._known[name], wanted.get(name)
            if known.held is not None:
                return -(known.rank + 0.5), 0.0
            urgency = self._urgency(jobs[name], time)
            if choice is None:
                return 1.0, -known.rank - 0.5 * urgency
            if self.quotas:  # within its quota, a job takes GPUs back from jobs that borrow them
                return (0.5 if choice.borrowed else -float(_RANKS)), -known.rank - 0.5 * urgency
            return -float(known.rank), -urgency

        return sorted((name for name in jobs if self._known[name].choices), key=place)


def _quotas(given: str | Mapping[str, int]) -> dict[str, int]:
    """Return quotas from a mapping, or from a text such as "vision=64,speech=32"."""
    if not isinstance(given, str):
        quotas = dict(given)
    else:
        quotas = {}
        for part in filter(None, given.split(",")):
            tenant, equals, gpus = part.rpartition("=")
            if not equals or not gpus.strip().isdecimal():
                raise ValueError(f"quotas = {given!r}: must be TENANT=GPUS, separated by commas")
            quotas[tenant.strip()] = int(gpus)
    for tenant, count in quotas.items():
        if count < 0:
            raise ValueError(f"quotas = {count} of tenant {tenant!r}: must not be negative")
    return quotas


def _within(quotas: Mapping[str, int], given: list[tuple[Job, Configuration]]) -> dict[str, int]:
    """Return the remainder of each quota after the jobs that must keep their GPUs."""
    left = dict(quotas)
    for job, held in given:
        if job.submission.tenant in left:
            left[job.submission.tenant] = max(0, left[job.submission.tenant] - held.gpus)
    return left


def _ranks(jobs: Iterable[Job]) -> dict[int, int]:
    """Return the rank of each priority: the four highest have their own ranks, and all others rank 0."""
    present = sorted({job.submission.priority for job in jobs})
    return {
        priority: max(0, rank + min(_RANKS, len(present)) - len(present))
        for rank, priority in enumerate(present)
    }
