"""Replay of a workload, round by round: jobs arrive, progress, pay for restarts, and complete.

A round lasts ``round_seconds``.  At its start the jobs submitted by then enter the queue, the policy
decides, and its allocation holds for the whole round.  A job whose configuration changed, or that starts,
first spends its restart seconds without progress; then it runs at the goodput of its level, through as many
levels as the time allows.  It completes in the middle of the round, at the interpolated time; its GPUs are
free from the next round on.

Source: the experiments of the thesis (section 4.5) and the authors' simulator use rounds of 60 seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.problems.cluster.cluster import Configurations
from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.scenario import Scenario
from copter.problems.sia.interface import Job, SiaRound
from copter.problems.sia.policy import SiaPolicy
from copter.problems.sia.records import JobRecord, NodeChange, RoundRecord

if TYPE_CHECKING:
    from copter.solvers.base import Solver

ROUND_SECONDS = 60.0
NONE = -1


class CapacityError(CopterError, RuntimeError):
    """An allocation uses more GPUs of a type than there are: a bug in a solver or shim."""


class Replay:
    """Simulation of a cluster under the Sia policy.

    Parameters
    ----------
    scenario : Scenario
    solver : Solver
    policy : SiaPolicy, optional
        By default one with its defaults; a given one must be fresh, on the scenario's cluster.
    round_seconds : float
    hours : float, optional
        Only jobs submitted in the first so many hours take part.  The replay goes on until all are
        complete.
    max_hours : float, optional
        Stop at this simulated time, complete or not.
    node_changes : iterable of NodeChange
    deadline : float, optional
        Seconds that the solver may take in a round.

    Examples
    --------
    >>> from copter.problems.sia.generator import generate
    >>> from copter.solvers import make_solver
    >>> replay = Replay(generate(gpus=64, jobs_per_day=96, hours=1.0), make_solver("copter"))
    >>> for record in replay.run():
    ...     pass
    >>> replay.summary()["jobs_completed"]
    4
    """

    def __init__(
        self,
        scenario: Scenario,
        solver: Solver,
        *,
        policy: SiaPolicy | None = None,
        round_seconds: float = ROUND_SECONDS,
        hours: float | None = None,
        max_hours: float | None = None,
        node_changes: Iterable[NodeChange] = (),
        deadline: float | None = None,
    ) -> None:
        for name, value in (("round_seconds", round_seconds), ("hours", hours), ("max_hours", max_hours)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} = {value}: must be positive")
        self.solver = solver
        self.policy = SiaPolicy(scenario.cluster) if policy is None else policy
        self.round_seconds = float(round_seconds)
        self.max_hours = math.inf if max_hours is None else max_hours
        self.deadline = deadline
        until = math.inf if hours is None else hours * 3600.0
        self.jobs = sorted((job for job in scenario.jobs if job.time < until), key=lambda job: job.time)
        self.records: list[RoundRecord] = []
        self._changes = sorted(node_changes, key=lambda change: change.time)
        self._index = {job.name: k for k, job in enumerate(self.jobs)}
        if len(self._index) < len(self.jobs):
            raise ValueError("two jobs of the scenario have the same name")
        self._profiles = scenario.profiles
        profiles = _physics(self.jobs, scenario.profiles)
        n = len(self.jobs)
        self._submitted = np.array([job.time for job in self.jobs])
        self._distinct = list(dict.fromkeys(profiles))
        numbers = {profile: k for k, profile in enumerate(self._distinct)}
        self._profile = np.array([numbers[profile] for profile in profiles], np.int64)
        self._restart_seconds = np.array([profile.restart_seconds for profile in profiles])
        self._progress = np.zeros(n)
        self._level = np.zeros(n, np.int64)
        self._column = np.full(n, NONE)
        self._restart_left = np.zeros(n)
        self._started = np.full(n, np.nan)
        self._finished = np.full(n, np.nan)
        self._restarts = np.zeros(n, np.int64)
        self._gpu_seconds = np.zeros(n)
        self._active = np.empty(0, np.int64)
        self._next = 0
        self._gpu_time_given = 0.0
        self._gpu_time_there = 0.0

    # ---- the rounds ------------------------------------------------------------------------------

    def run(self) -> Iterator[RoundRecord]:
        """Simulate, giving the record of each round as it ends; hours without jobs are skipped.

        Yields
        ------
        RoundRecord
        """
        time = 0.0
        while self._active.size or self._next < len(self.jobs):
            if not self._active.size:
                time = max(time, self._boundary(self.jobs[self._next].time))
            if time >= self.max_hours * 3600.0:
                return
            record = self._round(time)
            self.records.append(record)
            yield record
            time += self.round_seconds

    def _boundary(self, time: float) -> float:
        """Start of the first round that sees a job submitted at ``time``."""
        return math.ceil(time / self.round_seconds) * self.round_seconds

    def _round(self, time: float) -> RoundRecord:
        arrived = self._arrivals(time)
        self._node_changes(time)
        before = self.policy.cluster.configurations
        decided = self.policy.round(self.solver, time, deadline=self.deadline)
        self._renumber(before)
        restarts = self._take_over(decided, time)
        used = self._check_capacity(time)
        capacity = self.policy.cluster.capacity
        total = sum(capacity.values())
        running = int(np.count_nonzero(self._column[self._active] >= 0))
        queue = self._active.size - running
        self._gpu_time_given += sum(used.values()) * self.round_seconds
        self._gpu_time_there += total * self.round_seconds
        completed = self._advance(time)
        solution, rounded, program = decided.solution, decided.rounded, self.policy.program
        return RoundRecord(
            round=len(self.records),
            time=time,
            arrived=arrived,
            completed=completed,
            restarts=restarts,
            queue=queue,
            running=running,
            utilisation=sum(used.values()) / max(total, 1),
            utilisation_by_type={type: used[type] / max(gpus, 1) for type, gpus in capacity.items()},
            t_edit=decided.edit_seconds,
            t_solve=decided.solve_seconds,
            t_shim=decided.shim_seconds,
            t_total=decided.edit_seconds + decided.solve_seconds + decided.shim_seconds,
            t_store=decided.store_seconds,
            t_certify=decided.certify_seconds,
            status=str(solution.status),
            gap=solution.gap,
            primal_residual=solution.primal_residual,
            integral_gap=math.nan if rounded is None else rounded.gap,
            objective=solution.objective,
            bound=solution.bound,
            integral_objective=math.nan if rounded is None else rounded.objective,
            n_variables=program.n_variables,
            n_rows=program.n_rows,
            nnz=program.nnz,
            iterations=solution.iterations,
            churn=solution.churn,
            warm_started=solution.warm_started,
            missed=rounded is None,
        )

    def _arrivals(self, time: float) -> int:
        """Let in the jobs submitted by now; returns how many."""
        last = int(np.searchsorted(self._submitted, time, side="right"))
        return self._admit(last - self._next)

    def _admit(self, count: int) -> int:
        """Let in the next jobs of the list; returns how many there were."""
        new = np.arange(self._next, min(self._next + count, len(self.jobs)))
        for k in new.tolist():
            job, submitted = self.jobs[k], float(self._submitted[k])
            profile, kind = self._profiles[job.application], job.kind
            self.policy.submit(
                Job(job.name, profile, submitted, kind, job.gpus, job.preemptible, job.reserved)
            )
        self._active = np.concatenate((self._active, new))
        self._next += new.size
        return new.size

    def _node_changes(self, time: float) -> None:
        while self._changes and self._changes[0].time <= time:
            change = self._changes.pop(0)
            self.policy.set_nodes(change.type, change.nodes)

    def _renumber(self, before: Configurations) -> None:
        """Follow the configurations when nodes came or went; a job whose configuration is gone has none."""
        now = self.policy.cluster.configurations
        if now is before:
            return
        holds = self._active[self._column[self._active] >= 0]
        self._column[holds] = now.find_codes(before.codes[self._column[holds]])

    def _take_over(self, decided: SiaRound, time: float) -> int:
        """Write the new configurations down; returns the number of starts and restarts."""
        configurations = self.policy.cluster.configurations
        restarts = 0
        for name, configuration in decided.changes.items():
            k = self._index[str(name)]
            if configuration is None:
                self._column[k] = NONE
                continue
            self._column[k] = configurations.index(configuration)
            self._restart_left[k] = self._restart_seconds[k]
            restarts += 1
            if math.isnan(self._started[k]):
                self._started[k] = time
            else:
                self._restarts[k] += 1
        return restarts

    def _check_capacity(self, time: float) -> dict[str, int]:
        configurations = self.policy.cluster.configurations
        held = self._column[self._active]
        held = held[held >= 0]
        used = np.bincount(
            configurations.type_index[held], configurations.gpus[held], len(configurations.types)
        )
        by_type = {name: int(gpus) for name, gpus in zip(configurations.types, used, strict=True)}
        for name, gpus in self.policy.cluster.capacity.items():
            if by_type[name] > gpus:
                raise CapacityError(
                    f"at {time:g} s {by_type[name]} GPUs of type {name!r} were given, of {gpus}"
                )
        return by_type

    def _advance(self, time: float) -> int:
        """Run all jobs to the end of the round; returns how many completed."""
        configurations = self.policy.cluster.configurations
        runs = self._active[self._column[self._active] >= 0]
        waited = np.minimum(self._restart_left[runs], self.round_seconds)
        self._restart_left[runs] -= waited
        seconds = self.round_seconds - waited
        width = len(configurations)
        key = self._profile[runs] * width + self._column[runs]
        order = np.argsort(key, kind="stable")
        groups, first = np.unique(key[order], return_index=True)
        ends = np.append(first[1:], order.size)
        spent = seconds.copy()
        done: list[NDArray[np.int64]] = []
        for group, begin, end in zip(groups.tolist(), first.tolist(), ends.tolist(), strict=True):
            profile, members = self._distinct[group // width], order[begin:end]
            ids = runs[members]
            progress, used = profile.advance(
                configurations, group % width, self._progress[ids], seconds[members]
            )
            self._progress[ids], spent[members] = progress, used
            self._level[ids] = profile.level(progress)
            done.append(members[progress >= profile.work])
        self._gpu_seconds[runs] += configurations.gpus[self._column[runs]] * (waited + spent)
        finished = np.concatenate(done) if done else np.empty(0, np.int64)
        self._finished[runs[finished]] = time + (waited + spent)[finished]
        self._dismiss(runs[finished])
        going = runs[np.isnan(self._finished[runs])]
        self.policy.update_levels([self.jobs[k].name for k in going.tolist()], self._level[going])
        return finished.size

    def _dismiss(self, gone: NDArray[np.int64]) -> None:
        """Take jobs out of the cluster."""
        for k in gone.tolist():
            self.policy.complete(self.jobs[k].name)
        self._column[gone] = NONE
        self._active = np.setdiff1d(self._active, gone, assume_unique=True)

    # ---- results ---------------------------------------------------------------------------------

    @property
    def completed(self) -> int:
        """Number of jobs complete so far."""
        return int(np.count_nonzero(~np.isnan(self._finished)))

    def job_results(self) -> list[JobRecord]:
        """What became of each job, in order of submission.

        Returns
        -------
        list of JobRecord
        """
        jct = self._finished - self._submitted
        columns: Sequence[NDArray[Any]] = (
            self._submitted,
            self._started,
            self._finished,
            jct,
            self._restarts,
            self._gpu_seconds,
        )
        rows = zip(self.jobs, *(column.tolist() for column in columns), strict=True)
        return [JobRecord(job.name, job.application, job.category, job.kind, *row) for job, *row in rows]

    def summary(self) -> dict[str, float | int]:
        """Figures of the whole run so far; NaN where nothing completed or no round was simulated.

        The makespan is the time from the first submission to the last completion.  Restarts do not count
        first starts.  Utilisation is GPU time given to jobs over GPU time there was, from the first round to
        the last.  ``max_gap`` is the largest certified gap of a fractional answer, ``max_integral_gap`` of
        an allocation; rounds without an answer, in which jobs kept what they had, are counted apart.

        Returns
        -------
        dict of str to number
        """
        answered = [record for record in self.records if not record.missed]
        finished = ~np.isnan(self._finished)
        jct = (self._finished - self._submitted)[finished] / 3600.0
        total = np.array([record.t_total for record in self.records])
        some = bool(finished.any())
        nan = math.nan
        makespan = float(np.nanmax(self._finished) - self._submitted[0]) / 3600.0 if some else nan
        return {
            "average_jct_hours": float(jct.mean()) if some else nan,
            "p99_jct_hours": float(np.quantile(jct, 0.99)) if some else nan,
            "makespan_hours": makespan,
            "jobs_completed": int(finished.sum()),
            "jobs_submitted": self._next,
            "restarts_per_job": float(self._restarts[: self._next].mean()) if self._next else nan,
            "utilisation": self._gpu_time_given / self._gpu_time_there if self._gpu_time_there else nan,
            "rounds": len(self.records),
            "policy_p50_s": float(np.quantile(total, 0.5)) if total.size else nan,
            "policy_p99_s": float(np.quantile(total, 0.99)) if total.size else nan,
            "policy_max_s": float(total.max()) if total.size else nan,
            "rounds_missed": len(self.records) - len(answered),
            "max_gap": max((record.gap for record in answered), default=nan),
            "max_integral_gap": max((record.integral_gap for record in answered), default=nan),
            "max_queue": max((record.queue for record in self.records), default=0),
        }


def _physics(jobs: Sequence[Any], profiles: dict[str, Profile]) -> list[Profile]:
    """Profile by which each job runs: its application's, at a fixed batch size if it is not adaptive."""
    fixed: dict[str, Profile] = {}
    chosen = []
    for job in jobs:
        if job.application not in profiles:
            raise ValueError(f"job {job.name!r}: application {job.application!r} has no profile")
        if job.kind == "adaptive":
            chosen.append(profiles[job.application])
            continue
        if job.application not in fixed:
            fixed[job.application] = profiles[job.application].at_fixed_batch()
        chosen.append(fixed[job.application])
    return chosen
