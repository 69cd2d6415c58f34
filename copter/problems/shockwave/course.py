"""Shockwave's plans for benchmarks: every solver makes an integral plan for the same windows.

The rounds of `_busy_rounds` do not depend on any plan.  Every solver gets the window of a round (predictions,
weights, segments; made in `store_seconds`) and returns an integral plan.

- `copter`: the relaxation as a program of the core, edited from window to window and solved with a warm
  start, then the plan shim.  `edit_seconds` is the time of the window and the edits.
- `water-filling`: the same relaxation by a special method for this program, exactly and from scratch, then
  the same shim.  `edit_seconds` is the time of the window.
- `cvxpy`: the same relaxation by Clarabel, then the same shim.  `edit_seconds` is the time in which cvxpy
  makes Clarabel's problem, `solve_seconds` the time that Clarabel reports.
- `highs-milp`: the plan itself by branch and bound (:mod:`copter.problems.shockwave.exact`).  `edit_seconds`
  is the time of making the model, `rounding_seconds` that of filling idle GPUs.

The deadline is for the whole round.  Branch and bound may use all of it; the shim's local improvement may use
the time that the relaxation left.  Objectives are costs (the paper's objectives with the sign changed), so
bounds are lower bounds.  Gaps are relative to the magnitude of the objective's terms, which may cancel;
HiGHS' own gap is relative to the objective.

A :func:`snapshot` has any number of the generator's jobs.  Each has random progress, and has waited up to a
few times its run time so far, so that finish time fairness varies around 1 as in the middle of a replay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from copter.bench.course import Course, Figure, Play, method_round
from copter.bench.settings import Record
from copter.bench.welfare import by_clarabel
from copter.problems.shockwave import CVXPY, EXACT
from copter.problems.shockwave.exact import PROVEN, ExactPlan, solve_milp
from copter.problems.shockwave.generator import generate
from copter.problems.shockwave.interface import MarketJob, RoundState, pack
from copter.problems.shockwave.plan import PlanProblem, PlanShim
from copter.problems.shockwave.policy import ROUND_SECONDS
from copter.problems.shockwave.relaxation import Relaxation, RelaxationSolver, answer
from copter.problems.shockwave.scheduler import Settings, make_plan, make_relaxation, plan_problem, urgency
from copter.problems.shockwave.window import ROUNDS, Window, build_window

if TYPE_CHECKING:
    from copter.bench.result_files import SolverResult
    from copter.bench.settings import SolverSettings

_CLOSED = 1e-8
"""Largest gap at which branch and bound counts as proven; it stops at 1e-6 in the units of its model."""


_NEW_SHARE = 0.2


@dataclass(frozen=True)
class PlanCourse(Course):
    """Windows of a cluster with a constant number of jobs."""

    jobs: int
    gpus: int
    rounds: int = 5
    seed: int = 0
    settings: Settings = Settings(rounds=ROUNDS)

    figures: ClassVar[Sequence[Figure]] = (
        Figure("best_gap", "gap to the best bound", "median", ".1e"),
        Figure("best_gap", "gap to the best bound", "max", ".1e"),
        Figure("shortfall", "below the best plan", "max", ".1e"),
        Figure("idle", "GPU time idle", "mean", ".2%"),
        Figure("proven", "proven", "mean", ".0%"),
    )

    def small(self) -> PlanCourse:
        """Return two rounds with few jobs."""
        return replace(self, jobs=min(self.jobs, 24), gpus=min(self.gpus, 8), rounds=2)

    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds with one of :data:`~copter.problems.shockwave.SOLVERS`."""
        if settings.name == EXACT:
            return Play(self._exact(settings), {"mip_rel_gap": settings.mip_gap})
        if settings.name == CVXPY:
            return Play(self._relaxed(settings, clarabel_relaxation), {})
        solve = make_relaxation(settings.name, settings.tolerance, settings.threads)
        return Play(
            self._relaxed(settings, solve), {"gap": settings.tolerance} if settings.name == "copter" else {}
        )

    def _windows(self) -> Iterator[tuple[int, RoundState, Window, float]]:
        own = self.settings
        rounds = islice(_busy_rounds(self.jobs, self.gpus, seed=self.seed), self.rounds)
        for number, now in enumerate(rounds):
            begin = perf_counter()
            window = build_window(
                now, rounds=own.rounds, power=own.power, lam=own.lam, predictor=own.predictor
            )
            yield number, now, window, perf_counter() - begin

    def _relaxed(self, settings: SolverSettings, solve: RelaxationSolver) -> Iterator[Record]:
        for number, now, window, store_seconds in self._windows():
            relaxation = solve(window)
            left = math.inf if settings.time_limit is None else settings.time_limit - relaxation.seconds
            begin = perf_counter()
            limit = max(0.0, min(self.settings.shim_seconds, left))
            plan = make_plan(window, now, relaxation, limit, exact=self.settings.exact)
            rounding_seconds = perf_counter() - begin
            gap = _gap(relaxation.bound, relaxation.objective, relaxation.size)
            yield method_round(
                settings.name,
                number,
                # cvxpy's model is made from the window; making the window does not count as cvxpy's work
                edit_seconds=relaxation.model_seconds + (0.0 if settings.name == CVXPY else store_seconds),
                solve_seconds=relaxation.seconds - relaxation.model_seconds,
                rounding_seconds=rounding_seconds,
                store_seconds=store_seconds,
                n_variables=len(window.segment_rounds) + 1,
                n_rows=len(window) + 2,
                nnz=2 * len(window.segment_rounds) + len(window) + 1,
                status="optimal" if gap <= settings.tolerance else "iteration_limit",
                gap=gap,
                objective=-relaxation.objective,
                bound=-min(plan.bound, relaxation.bound),
                answer_objective=-plan.objective,
                answer_gap=plan.gap,
                proven=float(plan.gap <= PROVEN),
                iterations=relaxation.iterations,
                warm_started=relaxation.warm_started,
                size=relaxation.size,
                idle=_idle(plan.runs, window),
            )

    def _exact(self, settings: SolverSettings) -> Iterator[Record]:
        for number, now, window, store_seconds in self._windows():
            begin = perf_counter()
            problem = plan_problem(window)
            tables = perf_counter() - begin
            exact = solve_milp(
                problem, mip_gap=settings.mip_gap, time_limit=settings.time_limit, threads=settings.threads
            )
            begin = perf_counter()
            own = _completed(problem, exact, window, now)
            rounding_seconds = perf_counter() - begin
            yield method_round(
                settings.name,
                number,
                edit_seconds=tables + exact.effort.build_seconds,
                solve_seconds=exact.effort.seconds,
                rounding_seconds=rounding_seconds,
                store_seconds=store_seconds,
                n_variables=exact.effort.columns,
                n_rows=exact.effort.rows,
                nnz=exact.effort.nnz,
                status=str(exact.found.status),
                gap=exact.found.gap,
                bound=-exact.bound,
                iterations=exact.found.nodes,
                **own,
            )

    def compare(self, measured: Sequence[SolverResult]) -> None:
        """Add each record's gap to the best bound of its round, and the distance from the best plan."""
        records = [record for one in measured for record in one.records]
        for number in {record["round"] for record in records}:
            of_round = [record for record in records if record["round"] == number]
            bound = _largest(record["bound"] for record in of_round)
            best = -_largest(-record["answer_objective"] for record in of_round)
            for record in of_round:
                cost = record["answer_objective"]
                record["best_gap"] = _gap(-bound, -cost, record["size"])
                record["shortfall"] = _gap(-best, -cost, record["size"])


def clarabel_relaxation(window: Window) -> Relaxation:
    """Solve the relaxation by cvxpy and Clarabel, without a warm start."""
    begin = perf_counter()
    rounds, mu, work, jobs, model_seconds = by_clarabel(window)
    return replace(answer(window, rounds, mu, work, jobs, begin), model_seconds=model_seconds)


def _largest(values: Iterable[float]) -> float:
    return max(filter(math.isfinite, values), default=math.nan)


def _gap(bound: float, objective: float, size: float) -> float:
    """Return how far a bound exceeds an objective, relative to `size`; NaN if either is not finite."""
    if not (math.isfinite(bound) and math.isfinite(objective)):
        return math.nan
    return max(bound - objective, 0.0) / (max(size, abs(objective), abs(bound)) or 1.0)


def _idle(runs: np.ndarray, window: Window) -> float:
    """Return the share of the window's GPU time that is idle."""
    return 1.0 - float((window.gpus @ runs).sum()) / (window.capacity * window.rounds)


def _completed(problem: PlanProblem, exact: ExactPlan, window: Window, now: RoundState) -> Mapping[str, Any]:
    """Return the figures of branch and bound's plan, with idle GPUs filled if that is better."""
    if exact.runs is None:
        return {"idle": math.nan, "size": math.nan, "feasible": False}
    counts = np.minimum(exact.runs.sum(axis=1), problem.most)
    running = np.array([state.running for state in now.jobs], bool)
    filled = PlanShim(0.0).plan(problem, counts.astype(float), urgency=urgency(window), running=running)
    objective, runs = problem.objective(counts), exact.runs
    if filled.objective > objective:
        objective, runs = filled.objective, filled.runs
    size = problem.size(np.minimum(runs.sum(axis=1), problem.rounds))
    return {
        "answer_objective": -objective,
        "answer_gap": (gap := _gap(exact.bound, objective, size)),
        "proven": float(gap <= _CLOSED),
        "size": size,
        "idle": _idle(runs, window),
        "feasible": bool((problem.gpus @ runs <= problem.capacity).all()),
    }


def snapshot(jobs: int, gpus: int, *, seed: int = 0, round_seconds: float = ROUND_SECONDS) -> RoundState:
    """Return a state with `jobs` active jobs on `gpus` GPUs; about one job in five has not run yet."""
    rng = np.random.default_rng(seed)
    contention = max(jobs / gpus, 1.0)
    states = []
    for job in generate(jobs, seed=seed, arrival_seconds=0.0):
        share = 0.0 if rng.random() < _NEW_SHARE else float(rng.random()) * 0.99
        run = share * job.seconds
        waited = float(rng.random()) * (contention - 1.0) * (run + round_seconds)
        states.append(MarketJob(job, run, waited, contention, bool(run > 0 and rng.random() < 0.5)))
    return RoundState(0, 0.0, round_seconds, gpus, tuple(states))


def _busy_rounds(
    jobs: int, gpus: int, *, seed: int = 0, round_seconds: float = ROUND_SECONDS
) -> Iterator[RoundState]:
    """Yield the rounds of a cluster with a constant number of jobs, beginning with a :func:`snapshot`.

    The allocation does not depend on any plan, so all solvers get the same rounds: as many jobs run as fit,
    in order of their waiting times.  A job that completes is replaced by a new job.  Restarts take no time.
    """
    now = snapshot(jobs, gpus, seed=seed, round_seconds=round_seconds)
    index, fresh = 0, jobs
    while True:
        yield now
        index += 1
        time = index * round_seconds
        runs = set(pack(sorted(now.jobs, key=lambda state: -state.waited_seconds), gpus))
        states = [_after(state, state.name in runs, round_seconds) for state in now.jobs]
        stay = [state for state in states if state.run_seconds < state.job.seconds]
        gone = len(states) - len(stay)
        # Use another seed in each round, because a seed always gives the same jobs.
        for job in generate(gone, seed=seed + 7919 * index, arrival_seconds=0.0):
            named = replace(job, name=f"job-{fresh}", arrival=time)
            stay.append(MarketJob(named, 0.0, 0.0, max(jobs / gpus, 1.0), False))
            fresh += 1
        now = RoundState(index, time, round_seconds, gpus, tuple(stay))


def _after(state: MarketJob, runs: bool, seconds: float) -> MarketJob:
    ran = min(seconds, state.job.seconds - state.run_seconds) if runs else 0.0
    return MarketJob(
        state.job, state.run_seconds + ran, state.waited_seconds + seconds - ran, state.contention, runs
    )
