"""Sia as a policy of the cluster simulator: changes since the last round become events of `SiaPolicy`.

The events are arrivals and ends of jobs, levels that jobs reached, new profiles, and changes of nodes.
Another event reports a job whose configuration differs from the last answer, because the placer evicted the
job or a node failed.

With a time-share window, the cost of leaving a job without GPUs depends on its running time so far (thesis
section 3.5.6); see `_TimeShare`.

Source: Sia, thesis sections 3.3 and 3.5.6.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.arrays import Floats
from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind
from copter.solvers.registry import make_solver, repeatable_solver
from copter.solvers.settings import share

if TYPE_CHECKING:
    from copter.explanation import ColumnReason, Explanation
    from copter.problems.sia.interface import SiaJob, SiaRound
    from copter.problems.sia.policy import SiaPolicy
    from copter.rounds.record import RoundRecord
    from copter.solvers.base import Solver

ROUND_SECONDS = 60.0
_OWN = "copter"
"""Name of the solver whose modules :meth:`Sia.warm_up` imports; until then a service can already answer."""

_SHOWN = 4
"""Number of configurations about which :meth:`Sia.why` has a sentence."""
_LEAST_LOSS = 1e-6
"""Loss of a configuration, relative to its cost, below which the configuration counts as equally good."""
_BONUS = 2.0
"""Bonus with which a job gains more from GPUs than any other job, as costs are from 0 to 1 for p < 0."""


class Sia:
    """The Sia scheduler.

    Parameters
    ----------
    p, lam : float
        Fairness exponent, and cost of leaving a job without GPUs.
    scale_up_limit : float, optional
        Largest factor by which a job's GPUs may grow in a round; None for any configuration.
    solver : str or Solver
        Name of a solver in `copter solvers`, or a new solver.
    tolerance : float
        Relative tolerance of the fractional solution; only for a solver given by name.
    time_limit : float, optional
        Time limit of the policy in a round, in seconds.
    timeshare_seconds : float, optional
        Running time for which a new job has priority.  With None, no job has priority: leaving any job
        without GPUs costs `lam`.
    policy : SiaPolicy, optional
        New policy on the cluster of the simulation.  By default it is made from `p`, `lam` and
        `scale_up_limit`.

    Attributes
    ----------
    last : RoundRecord or None
        Record of the last round; its answer is a :class:`copter.problems.sia.interface.SiaRound`.
    figures : dict of str to number
        Statistics of the last round's program.
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
        time_limit: float | None = None,
        round_seconds: float = ROUND_SECONDS,
        timeshare_seconds: float | None = None,
        policy: SiaPolicy | None = None,
    ) -> None:
        self.round_seconds: float | None = float(round_seconds)
        self.last: RoundRecord | None = None
        self.figures: dict[str, float] = {}
        self._settings: dict[str, Any] = {"p": p, "lam": lam, "scale_up_limit": scale_up_limit}
        self._time_limit = time_limit
        if solver == _OWN:
            self._tolerance = share(tolerance)
        elif isinstance(solver, str):
            self._solver = repeatable_solver(solver, tolerance=tolerance)
        else:
            self._solver = solver
        self._policy = policy
        self._timeshare = None if timeshare_seconds is None else _TimeShare(timeshare_seconds, lam)
        self._profiles: dict[str, Profile] = {}
        self._levels: dict[str, int] = {}
        self._known: dict[str, tuple[Configuration | None, int, float]] = {}

    @cached_property
    def _solver(self) -> Solver:
        """The solver; the solver "copter" is made when it is first needed."""
        return repeatable_solver(_OWN, tolerance=self._tolerance)

    def warm_up(self) -> None:
        """Import the modules of the program and of the solver, so that the first round is fast."""
        importlib.import_module("copter.problems.sia.policy")
        _ = self._solver

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the configuration of every job that gets GPUs.

        Raises
        ------
        InfeasibleRoundError
            If jobs that must have GPUs do not fit.
        """
        from copter.problems.sia.policy import SiaPolicy  # not before a round: see `warm_up`
        from copter.rounds.rounds import Rounds

        if self._policy is None:
            self._policy = SiaPolicy(now.cluster, **self._settings)
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
            policy.update_penalties(list(now.jobs), self._timeshare.penalties(now))
        self.last = Rounds(policy, self._solver, time_limit=self._time_limit).play(("at", now.time))
        decided: SiaRound = self.last.answer
        for name in decided.changes:  # in the next round, the cluster reports what these jobs really have
            self._known.pop(str(name), None)
        self.figures = self._figures(self.last, policy)
        allocation = {}
        for name, configuration in decided.allocation.items():
            if configuration is not None:
                allocation[str(name)] = configuration
        return allocation

    def admits(self, job: Job, cluster: Cluster) -> bool:
        """Return whether a configuration of Sia's set has the GPUs of a rigid job (thesis section 3.3.3)."""
        columns, _ = job.profile.row(cluster.configurations, 0)
        return job.gpus is None or bool((cluster.configurations.gpus[columns] == job.gpus).any())

    def why(self, job: str) -> list[str]:
        """Return sentences about a job's configurations in the last round's program.

        The sentences follow from the program's relaxation, and are true for every schedule
        (:mod:`copter.explanation`).
        """
        policy, solution = self._policy, None if self.last is None else self.last.solution
        if policy is None or solution is None or not solution.found or job not in policy.program.slot_of:
            return []
        if solution.clock != policy.program.store.clock:
            return []
        return list(_sentences(solution.explain(job), policy.configurations_of(job)))

    def _figures(self, played: RoundRecord, policy: SiaPolicy) -> dict[str, float]:
        """Return the statistics of a round."""
        from copter.proof.whole import integrality_loss

        solution, decided = played.solution, played.answer
        assert solution is not None  # every solver returns one, in time or not
        return {
            "solve_seconds": self._solver.seconds(solution, played.seconds.solve)[1],
            "gap": solution.gap,
            "answer_gap": math.nan if decided.rounded is None else decided.rounded.gap,
            "integrality_loss": (
                math.nan
                if decided.rounded is None
                else integrality_loss(decided.rounded.objective, solution.bound)
            ),
            "variables": policy.program.n_variables,
            "nonzeros": policy.program.nnz,
            "iterations": solution.iterations,
            "churn": solution.churn,
            "integral_churn": decided.churn,
            "missed": decided.rounded is None,
            **({} if solution.integer is None else {"proven": float(solution.integer.proven)}),
        }

    # ---- events ----------------------------------------------------------------------------------

    def _nodes(self, policy: SiaPolicy, now: ClusterState) -> None:
        for type, known in zip(now.cluster.types, policy.cluster.types, strict=True):
            if type.nodes != known.nodes:
                policy.set_nodes(type.name, type.nodes)

    def _arrivals(self, policy: SiaPolicy, now: ClusterState) -> None:
        for job in now.arrived:
            policy.submit(_as_job(job))
            self._profiles[job.name], self._levels[job.name] = job.seen, 0
            self._known[job.name] = (None, 0, job.restart_until)

    def _changes(self, policy: SiaPolicy, now: ClusterState) -> None:
        """Send levels, profiles and actual configurations to the policy where they differ from its state."""
        reached: dict[str, int] = {}
        for name, job in now.jobs.items():
            if job.seen is not self._profiles[name]:
                self._profiles[name] = job.seen
                policy.update_profile(name, job.seen)
            level = min(job.level, job.seen.n_levels - 1)
            if level != self._levels[name]:
                self._levels[name] = reached[name] = level
            truth = (job.allocation, job.restarts, job.restart_until)
            if truth != self._known.get(name):
                self._known[name] = truth
                policy.report(name, *truth)
        if reached:
            policy.update_levels(list(reached), np.array(list(reached.values())))


def _sentences(found: Explanation, configurations: Sequence[Configuration | None]) -> Iterator[str]:
    """Yield sentences about the configurations that are in an optimal schedule, or nearest to one.

    If the cluster is too small for all configurations, the sentences are about those with the fewest GPUs.
    """
    columns = [(why, one) for why, one in zip(found.columns, configurations, strict=True) if one is not None]
    shown = [(why, one) for why, one in columns if why.loss < math.inf]
    if shown:
        shown.sort(key=lambda each: each[0].loss)
    else:
        shown = sorted(((why, one) for why, one in columns if why.blocked), key=lambda each: each[1].gpus)
    if not shown:
        yield "No configuration is open to it in this round."
    for why, one in shown[:_SHOWN]:
        name = f"{one.gpus} {one.type} on {one.nodes} node{'s' if one.nodes > 1 else ''}"
        yield f"{name}: {'; '.join(_parts(why))}."


def _parts(why: ColumnReason) -> Iterator[str]:
    """Yield clauses about a configuration, from the certificate."""
    from copter.explanation import rounded_down, rounded_up  # not before a round: see `Sia.warm_up`

    if why.blocked:
        for id, (need, left) in why.blocked.items():
            most = f"none leaves more than {rounded_up(left)}"
            yield f"no schedule has it, because it needs {need:.6g} of {_shown(id)} and {most}"
        return
    if why.loss > _LEAST_LOSS * abs(why.cost):
        least = rounded_down(why.loss, 3)
        yield f"every schedule with it costs at least {least} more than the best fractional one"
    elif why.value > 0.0:
        yield f"the best fractional schedule has {why.value:.3g} of it"
    else:
        yield "the prices do not exclude that a schedule with it is as good as this one"
    for id, missing in why.lacking.items():
        yield f"{missing:.6g} more of {_shown(id)} is needed than others leave"
    if why.prices:
        price = ", ".join(f"{price:.3g} for {_shown(id)}" for id, price in why.prices.items())
        yield f"its own cost is {why.cost:.3g}, and its GPUs cost {price} at the round's prices"


def _shown(limit: Hashable) -> str:
    """Return a limit of the cluster as a text: a GPU type, or a type in parts of at least some GPUs."""
    return f"{limit[0]} in parts of {limit[1]} GPUs or more" if isinstance(limit, tuple) else str(limit)


def _as_job(job: Job) -> SiaJob:
    """Return a job for the policy, with its known profile, which is already adapted to its kind."""
    from copter.problems.sia.interface import SiaJob

    submission = job.submission
    least, most = (submission.min_gpus, submission.max_gpus) if job.gpus is None else (job.gpus, job.gpus)
    return SiaJob(
        job.name,
        job.seen,
        job.submitted,
        preemptible=submission.preemptible,
        reserved=submission.reserved,
        min_gpus=least,
        max_gpus=most,
    )


class _TimeShare:
    """Time-share penalty: costs of leaving jobs without GPUs that give every new job priority for a while.

    The cost is ``lam + _BONUS`` for a job that has run less than the window so far, and ``lam`` after that.
    In a burst, new jobs are served at once, for a window without interruption, at the expense of old jobs.
    In the formula that the thesis prints, no cost exceeds 1, which is the cost of the worst configuration;
    ``docs/reference/sia.md`` describes the consequences.

    Source: Sia, thesis section 3.5.6.

    `window_seconds`: running time after which a new job loses its priority. `lam`: cost of leaving any other
    job without GPUs.
    """

    def __init__(self, window_seconds: float, lam: float) -> None:
        if not 0 < window_seconds < math.inf:
            raise ValueError(f"timeshare_seconds = {window_seconds}: must be positive and finite")
        self.window_seconds, self.lam = window_seconds, lam

    def penalties(self, now: ClusterState) -> Floats:
        """Return the costs of leaving jobs without GPUs, in the order of `now.jobs`."""
        ran = np.array([job.run_seconds for job in now.jobs.values()])
        return np.where(ran < self.window_seconds, self.lam + _BONUS, self.lam)


class LpStar(Sia):
    """LP*: Sia's relaxation by an LP solver that keeps model and basis between rounds, then the same shim.

    The thesis (section 4.5.1) uses a commercial solver; here it is HiGHS.

    Parameters
    ----------
    strategy : "auto", "choose", "dual" or "primal"
        Kind of simplex, see :class:`copter.solvers.baselines.highs_hot.HighsHot`.
    tolerance : float
        Tolerance of the relaxation.
    **settings
        Settings of :class:`Sia`.
    """

    name = "lp-star"

    def __init__(self, *, strategy: str = "auto", tolerance: float = 1e-5, **settings: Any) -> None:
        solver = make_solver("highs-hot", strategy=strategy, tolerance=tolerance)
        super().__init__(solver=solver, **settings)
