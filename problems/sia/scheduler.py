"""Sia as a policy of the cluster simulator: what happened since the last round becomes events of `SiaPolicy`.

Only what changed is told: jobs that came and left, levels that were reached, profiles that were refitted,
nodes that came or went, and jobs that have something else than the last answer gave them, because the placer
evicted them or a node failed.

With a time-share window the cost of leaving a job without GPUs follows the service that it had (thesis
section 3.5.6); see :class:`TimeShare`.

Source: Sia, thesis sections 3.3 and 3.5.6.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.prices import Prices, read_prices
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind
from copter.problems.sia.ahead import Forecast, Plan
from copter.problems.sia.interface import SiaJob, SiaRound
from copter.problems.sia.policy import SiaPolicy
from copter.solvers.base import Solver
from copter.solvers.registry import make_solver

ROUND_SECONDS = 60.0
TimeShareRule: TypeAlias = Literal["first", "added", "printed"]

BONUS = 2.0
"""More than any other job gains by GPUs: configurations of a job cost between 0 and 1 at p < 0."""


class Sia:
    """The Sia scheduler.

    Parameters
    ----------
    p, lam : float
        Fairness knob, and cost of leaving a job without GPUs.
    scale_up_limit : float, optional
        A job's GPUs grow at most by this factor a round; None for any configuration.
    solver : str or Solver
        Name of one of `copter solvers`, or a fresh solver.
    tolerance : float
        Relative, of the fractional answer; for a solver given by name.
    deadline : float, optional
        Seconds that the solver may take in a round.
    timeshare_seconds : float, optional
        For so long every new job is served first; None for the same cost of leaving any job without GPUs.
    timeshare_rule : {"first", "added", "printed"}
        How, see :class:`TimeShare`.
    prices : Prices or path, optional
        Of a GPU-hour, or a file of them, see :mod:`copter.problems.cluster.prices`: jobs with a deadline
        wait for cheap hours (:mod:`.ahead`).
    forecast : {"past", "known", "present"}
        Prices to come are forecast from those of the days before, known, or taken to stay.
    policy : SiaPolicy, optional
        The program to go by, in place of one with the first three settings; must be fresh, on the cluster
        of the simulation.

    Attributes
    ----------
    last : SiaRound or None
        What the last round decided.
    figures : dict of str to number
        The figures of the last round's program.
    """

    name = "sia"
    kind: Kind = "adaptive"

    def __init__(
        self,
        *,
        p: float = -0.5,
        lam: float = 1.1,
        scale_up_limit: float | None = 2.0,
        solver: str | Solver = "copter",
        tolerance: float = 1e-5,
        deadline: float | None = None,
        round_seconds: float = ROUND_SECONDS,
        timeshare_seconds: float | None = None,
        timeshare_rule: TimeShareRule = "first",
        prices: Prices | str | Path | None = None,
        forecast: Forecast = "past",
        policy: SiaPolicy | None = None,
    ) -> None:
        self.round_seconds: float | None = float(round_seconds)
        self.last: SiaRound | None = None
        self.figures: dict[str, float] = {}
        self._make = partial(SiaPolicy, p=p, lam=lam, scale_up_limit=scale_up_limit)
        self._deadline = deadline
        self._solver = make_solver(solver, tolerance=tolerance) if isinstance(solver, str) else solver
        self._policy = policy
        self._timeshare = None
        if timeshare_seconds is not None:
            self._timeshare = TimeShare(timeshare_seconds, lam, timeshare_rule)
        self._plan = None
        if prices is not None:
            self._plan = Plan(prices if isinstance(prices, Prices) else read_prices(prices), forecast)
        self._profiles: dict[str, Profile] = {}
        self._levels: dict[str, int] = {}
        self._known: dict[str, tuple[Configuration | None, int, float]] = {}

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Configuration of every job that is to have GPUs.

        Raises
        ------
        InfeasibleRoundError
            Jobs that must have GPUs do not fit.
        """
        if self._policy is None:
            self._policy = self._make(now.cluster)
        policy = self._policy
        for job in now.left:
            if job.name in self._profiles:
                policy.complete(job.name)
                for table in (self._profiles, self._levels, self._known):
                    table.pop(job.name, None)
        self._nodes(policy, now)
        self._arrivals(policy, now)
        self._changes(policy, now)
        if self._timeshare is not None:
            there = [name in self._profiles for name in now.jobs]
            policy.update_penalties(list(compress(now.jobs, there)), self._timeshare.penalties(now)[there])
        self.last = policy.round(self._solver, now.time, deadline=self._deadline)
        for name in self.last.changes:  # whether that is what it has, its cluster says next time
            self._known.pop(str(name), None)
        self.figures = _figures(self.last, policy)
        allocation = {}
        for name, configuration in self.last.allocation.items():
            if configuration is not None:
                allocation[str(name)] = configuration
        return allocation

    def admits(self, job: Job, cluster: Cluster) -> bool:
        """Whether a configuration of Sia's set has the GPUs of a rigid job (thesis section 3.3.3)."""
        columns, _ = job.profile.row(cluster.configurations, 0)
        return job.gpus is None or bool((cluster.configurations.gpus[columns] == job.gpus).any())

    # ---- what happened ---------------------------------------------------------------------------

    def _nodes(self, policy: SiaPolicy, now: ClusterState) -> None:
        for type, known in zip(now.cluster.types, policy.cluster.types, strict=True):
            if type.nodes != known.nodes:
                policy.set_nodes(type.name, type.nodes)

    def _arrivals(self, policy: SiaPolicy, now: ClusterState) -> None:
        new = now.arrived
        if self._plan is not None:
            new = tuple(job for job in new if job.submission.deadline is None) + tuple(self._plan.update(now))
        for job in new:
            policy.submit(_as_job(job, self._view(job), self._planned(job)))
            self._profiles[job.name], self._levels[job.name] = job.seen, 0
            self._known[job.name] = (None, 0, job.restart_until)

    def _planned(self, job: Job) -> Configuration | None:
        """What a job that waited is to have at most; None for any other job."""
        return None if self._plan is None else self._plan.started.get(job.name)

    def _view(self, job: Job) -> Profile:
        """The job as it is seen, on the type where it was planned."""
        planned = self._planned(job)
        return job.seen if planned is None else job.seen.on_types(planned.type)

    def _changes(self, policy: SiaPolicy, now: ClusterState) -> None:
        """Levels, profiles, and what jobs really hold, where the policy knows something else."""
        reached: dict[str, int] = {}
        for name, job in now.jobs.items():
            if name not in self._profiles:  # it waits
                continue
            if job.seen is not self._profiles[name]:
                self._profiles[name] = job.seen
                policy.update_profile(name, self._view(job))
            level = min(job.level, job.seen.n_levels - 1)
            if level != self._levels[name]:
                self._levels[name] = reached[name] = level
            truth = (job.allocation, job.restarts, job.restart_until)
            if truth != self._known.get(name):
                self._known[name] = truth
                policy.report(name, *truth)
        if reached:
            policy.update_levels(list(reached), np.array(list(reached.values())))


def _as_job(job: Job, profile: Profile, planned: Configuration | None) -> SiaJob:
    """The job for the policy; its profile is that of its kind already."""
    submission = job.submission
    least, most = (submission.min_gpus, submission.max_gpus) if job.gpus is None else (job.gpus, job.gpus)
    if planned is not None:
        most = planned.gpus
    return SiaJob(
        job.name,
        profile,
        job.submitted,
        preemptible=submission.preemptible,
        reserved=submission.reserved,
        min_gpus=least,
        max_gpus=most,
    )


def _figures(decided: SiaRound, policy: SiaPolicy) -> dict[str, float]:
    """What is recorded of a round."""
    solution, rounded = decided.solution, decided.rounded
    return {
        "solve_seconds": decided.solve_seconds,
        "gap": solution.gap,
        "integral_gap": float("nan") if rounded is None else rounded.gap,
        "variables": policy.program.n_variables,
        "nonzeros": policy.program.nnz,
        "iterations": solution.iterations,
        "churn": solution.churn,
        "integral_churn": decided.churn,
        "missed": rounded is None,
    }


class TimeShare:
    """A cost of leaving jobs without GPUs that lets every new job run for a while: the time-share penalty.

    With S_i the seconds that job i has run so far, s_i those of the last tau seconds, and tau the window,

        first      lambda_n(i)  =  lambda + BONUS            while S_i < tau, lambda from then on
        added      lambda_n(i)  =  lambda + (tau - s_i) / tau
        printed    lambda_n(i)  =  (tau - s_i) / tau          0 for tau seconds after s_i = tau

    By the first, in a burst new jobs are served at once, for tau seconds without a break, at the expense of
    old ones.  What is printed (a symbol delta is explained there and not used) has no penalty above 1, the
    cost of the worst configuration: a job that was served is thrown out whether somebody waits or not, GPUs
    idle, and jobs restart all the time.  The second shares GPUs for ever, which costs more in restarts than
    it saves in waiting.  All were measured: see ``docs/sia.md``.

    Source: Sia, thesis section 3.5.6.

    Parameters
    ----------
    window_seconds : float
        tau.
    lam : float
        lambda.
    rule : {"first", "added", "printed"}
    """

    def __init__(self, window_seconds: float, lam: float, rule: TimeShareRule = "first") -> None:
        if not 0 < window_seconds < math.inf:
            raise ValueError(f"timeshare_seconds = {window_seconds}: must be positive and finite")
        if rule not in get_args(TimeShareRule):
            raise ValueError(
                f"timeshare_rule = {rule!r}: must be one of {', '.join(get_args(TimeShareRule))}"
            )
        self.window_seconds, self.lam, self.rule = window_seconds, lam, rule
        self._past: dict[str, deque[tuple[float, float]]] = {}
        self._quiet_until: dict[str, float] = {}

    def penalties(self, now: ClusterState) -> NDArray[np.float64]:
        """Costs of leaving jobs without GPUs.

        Returns
        -------
        (n,) array
            In the order of `now.jobs`.
        """
        if self.rule == "first":
            ran = np.array([job.run_seconds for job in now.jobs.values()])
            return np.where(ran < self.window_seconds, self.lam + BONUS, self.lam)
        for job in now.left:
            self._past.pop(job.name, None)
            self._quiet_until.pop(job.name, None)
        missing = 1.0 - np.array([self._served(job, now.time) for job in now.jobs.values()])
        if self.rule == "added":
            return self.lam + missing
        for name, short in zip(now.jobs, missing.tolist(), strict=True):
            if short <= 1e-9:
                self._quiet_until[name] = now.time + self.window_seconds
        quiet = [now.time < self._quiet_until.get(name, -math.inf) for name in now.jobs]
        return np.where(quiet, 0.0, missing)

    def _served(self, job: Job, time: float) -> float:
        """Share of the window in which a job ran; before it was first seen it did not."""
        past = self._past.setdefault(job.name, deque())
        past.append((time, job.run_seconds))
        begin = time - self.window_seconds
        while len(past) > 1 and past[1][0] <= begin:
            past.popleft()
        (first, before), (second, after) = past[0], past[min(1, len(past) - 1)]
        if first < begin < second:  # between two rounds
            before += (after - before) * (begin - first) / (second - first)
        return min((job.run_seconds - before) / self.window_seconds, 1.0)


class LpStar(Sia):
    """LP*: Sia's relaxation solved anew each round by a solver of linear programs, then the same shim.

    The thesis (section 4.5.1) takes a commercial solver; here it is HiGHS.

    Parameters
    ----------
    **settings
        Settings of :class:`Sia`.
    """

    name = "lp-star"

    def __init__(self, *, solver: str | Solver = "highs-hot", **settings: Any) -> None:
        super().__init__(solver=solver, **settings)
