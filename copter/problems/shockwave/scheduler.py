"""Shockwave's plans: made for T rounds, and followed until something changes (section 6, appendix G).

A new plan is made when jobs arrive or leave, after eight rounds (the authors' constant) and, in the reactive
mode, when a job begins a regime (section 7: the reactive mode is the default; the lazy mode keeps the plan).
Between plans, the rounds are executed as planned.

Program (11) does not determine in which rounds a job runs.  Jobs that need not run in all rounds are ordered
by weight divided by remaining run time.  This is Smith's rule for a small weighted sum of completion times:
of two equally late jobs, the shorter one frees its GPUs earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.clock import time_left
from copter.errors import CopterError
from copter.problems.shockwave.exact import prove
from copter.problems.shockwave.forecast import POWER, Forecast, forecast
from copter.problems.shockwave.generator import generate
from copter.problems.shockwave.interface import MarketJob, RoundState, pack
from copter.problems.shockwave.plan import SCATTER, Plan, PlanProblem, PlanShim
from copter.problems.shockwave.program import RelaxationProgram
from copter.problems.shockwave.relaxation import Relaxation, RelaxationSolver
from copter.problems.shockwave.waterfill import solve_waterfilling
from copter.problems.shockwave.window import LAMBDA, Window, window_of_forecast
from copter.rounds.record import Move
from copter.rounds.rounds import Rounds
from copter.solution import Solution
from copter.solvers.base import Solver
from copter.solvers.proximal.solver import ProximalPoint

_SECOND = 1.0
_GPUS, _JOBS, _SECONDS = 8, 10, 120.0
"""In random events: GPUs, approximate number of jobs, and seconds of a round."""
_SOLVE_EVERY = 8
"""Largest number of rounds between two plans."""
_HORIZON = 120
"""T of the policy; windows of benchmarks have the paper's 20 rounds (:data:`.window.ROUNDS`)."""
_ENDING = 100.0
"""Power of ending jobs as in the authors' code; the paper does not mention it."""
_CRITICAL = 0.1
"""Jobs with more remaining run time than 1 - _CRITICAL of the makespan bound H come first in a plan."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of the planner.

    Attributes
    ----------
    rounds : int
        Number of rounds of a plan, T.
    power : float
        Exponent of finish time fairness in a job's weight, k.
    lam : float
        Weight of the makespan, lambda.
    predictor : str
        Rule of the predictions, one of :data:`copter.problems.shockwave.PREDICTORS`.
    solve_every : int
        Largest number of rounds between two plans.
    scatter : float
        Penalty on scattered rounds of a job, in units of its urgency: see :mod:`.plan`.
    reactive : bool
        Whether a new plan is made when a job begins a regime.
    ending : float
        Exponent that replaces k for a late job with less than a round of run time left.
    shim_seconds : float
        Time limit in seconds of the shim's local improvement.  Plans are reproducible if the limit is not
        reached: for hundreds of jobs, the improvement takes tenths of a second.
    exact : bool
        Whether to try to prove plans optimal, for at most another `shim_seconds`.
    """

    rounds: int = _HORIZON
    power: float = POWER
    lam: float = LAMBDA
    predictor: str = "restatement"
    solve_every: int = _SOLVE_EVERY
    scatter: float = SCATTER
    reactive: bool = True
    ending: float = _ENDING
    shim_seconds: float = 60.0
    exact: bool = False


@dataclass(frozen=True)
class Solve:
    """A plan with its round, number of jobs and relaxation."""

    index: int
    jobs: int
    relaxation: Relaxation
    plan: Plan


@dataclass(frozen=True)
class Relaxed:
    """The relaxation of a new plan, with the state that the planner has if it accepts the plan.

    `told`: sum and number of all predictions so far of each job's run time.
    """

    window: Window
    relaxation: Relaxation
    told: dict[str, tuple[float, float]]

    @property
    def solution(self) -> Solution | None:
        """Solution of copter's program; None if another method solved the relaxation."""
        return self.relaxation.solution


@dataclass(frozen=True)
class MarketRound:
    """Answer of a round.

    `order`: jobs in the order in which they get GPUs. `solve`, `relaxed`: the new plan and its relaxation;
    None if the last plan is followed. `moves`: jobs that start, with the target "GPUs", and jobs that stop,
    with the source "GPUs"; amounts are numbers of GPUs.
    """

    order: tuple[str, ...]
    solve: Solve | None
    relaxed: Relaxed | None
    moves: tuple[Move, ...]

    @property
    def binding(self) -> dict[str, float]:
        """Price of a GPU for the round if it is positive and there is a new plan."""
        price = 0.0 if self.solve is None else self.solve.relaxation.capacity_price
        return {"GPUs": price} if price > 0 else {}

    @property
    def objective(self) -> float:
        """Objective of the plan, maximised; NaN without a new plan."""
        return math.nan if self.solve is None else self.solve.plan.objective

    @property
    def bound(self) -> float:
        """Certified bound on the objective; NaN without a new plan."""
        return math.nan if self.solve is None else self.solve.plan.bound

    @property
    def gap(self) -> float:
        """Certified gap of the plan; NaN without a new plan."""
        return math.nan if self.solve is None else self.solve.plan.gap


def make_relaxation(name: str, tolerance: float = 1e-5, threads: int | None = None) -> RelaxationSolver:
    """Return a new solver of the relaxation by its name: a function from windows to relaxations.

    `name`: one of :data:`~copter.problems.shockwave.RELAXATIONS`: ``copter`` keeps a program of the core and
    solves it with warm starts, ``water-filling`` is a special method for this program. `tolerance`: certified
    gap at which ``copter`` stops. `threads`: threads of ``copter``.
    """
    makers: dict[str, Callable[[], RelaxationSolver]] = {
        "copter": lambda: RelaxationProgram(tolerance, threads),
        "water-filling": lambda: solve_waterfilling,
    }
    if name not in makers:
        raise ValueError(f"relaxation = {name!r}: must be one of {', '.join(makers)}")
    return makers[name]()


def plan_problem(window: Window) -> PlanProblem:
    """Return the tables of a window for the shim: values of 0 to T whole rounds for each job."""
    counts = np.arange(window.rounds + 1, dtype=float)
    utility = np.stack([window.utility(np.full(len(window), n)) for n in counts], axis=1)
    value = window.scale * window.weights[:, None] * np.log(utility)
    remaining = np.maximum(window.remaining[:, None] - window.round_seconds * counts, 0.0)
    return PlanProblem(value, remaining, window.gpus, window.capacity, window.makespan_weight)


def make_plan(
    window: Window,
    now: RoundState,
    relaxation: Relaxation,
    shim_seconds: float,
    last: Ints | None = None,
    scatter: float = SCATTER,
    exact: bool = False,
) -> Plan:
    """Return an integral plan from the relaxation of a window.

    `now`: state from which the window was made. `shim_seconds`: time limit of improvements. `last`: remaining
    rounds of each job in the last plan. `scatter`: penalty on scattered rounds. `exact`: whether to search
    for the best plan and a proof (:mod:`.exact`), for at most another `shim_seconds`.
    """
    shim, problem = PlanShim(shim_seconds, scatter), plan_problem(window)
    prices = relaxation.capacity_price, relaxation.work_price, relaxation.job_prices
    order: dict[str, Any] = {
        "prices": prices,
        "urgency": urgency(window),
        "running": np.array([state.running for state in now.jobs], bool),
        "critical": _CRITICAL,
    }
    plan = shim.plan(problem, relaxation.rounds, bound=relaxation.bound, last=last, **order)
    if not exact:
        return plan
    return prove(problem, plan, prices, partial(shim.arrange, problem, **order), shim_seconds)


def urgency(window: Window) -> Floats:
    """Return the urgency of jobs by Smith's rule: weight divided by remaining run time."""
    return window.weights / np.maximum(window.remaining, 1.0)


class MarketError(CopterError, ValueError):
    """An invalid state of the cluster, with the reason."""


class Planner:
    """Planner that makes plans and follows them: a domain of :class:`copter.Rounds`.

    An event is the state of the cluster at the start of a round. An answer is the order in which jobs get
    GPUs.

    `solver`: function from a window to its relaxation; default: water-filling. `solves`: the plans made so
    far.
    """

    program = None

    def __init__(
        self, settings: Settings | None = None, solver: RelaxationSolver = solve_waterfilling
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.solver = solver
        self.solves: list[Solve] = []
        self.now = RoundState(-1, 0.0, 1.0, 1, ())
        self._names: tuple[str, ...] = ()
        self._regimes: tuple[int, ...] = ()
        self._runs: Flags = np.zeros((0, 0), bool)
        self._remaining: dict[str, float] = {}
        self._made = 0
        self._told: dict[str, tuple[float, float]] = {}

    def order(self, now: RoundState, *, time_limit: float | None = None) -> list[str]:
        """Play a round (:class:`copter.Rounds`), and return the jobs in the order in which they get GPUs.

        Jobs of the plan come first, then all other jobs. `time_limit`: seconds of the round; a late round
        follows the last plan.
        """
        answer: MarketRound = Rounds(self, ProximalPoint(), time_limit=time_limit).play(now).answer
        return list(answer.order)

    def apply(self, event: RoundState) -> None:
        """Set the state of the cluster at the start of a round."""
        if not isinstance(event, RoundState):
            raise MarketError(f"event = {event!r}: must be a RoundState")
        if not (event.index > self.now.index and event.time >= self.now.time):
            last = f"the last was round {self.now.index} at {self.now.time:g} s"
            raise MarketError(f"round {event.index} at {event.time:g} s: {last}")
        if event.gpus < 1 or not event.seconds > 0:
            raise MarketError(f"round {event.index}: {event.gpus} GPUs for {event.seconds} s")
        names = [state.name for state in event.jobs]
        if len(set(names)) < len(names):
            raise MarketError(f"round {event.index}: job names must be unique")
        for state in event.jobs:
            if not (state.run_seconds >= 0 and state.waited_seconds >= 0 and state.contention >= 1):
                raise MarketError(
                    f"round {event.index}: job {state.name!r}: must have seconds >= 0, contention >= 1"
                )
        self.now = event

    def solve(self, solver: Solver) -> Relaxed | None:  # noqa: ARG002 - the planner has its own
        """Solve the relaxation of a new plan, and return it; None if no new plan is due.  Change nothing."""
        now = self.now
        if not now.jobs or not self._due(now):
            return None
        settings = self.settings
        seen = forecast(now.jobs, settings.predictor)
        told, fairness = self._fairness(now, seen)
        window = window_of_forecast(
            now,
            replace(seen, fairness=fairness),
            rounds=settings.rounds,
            power=settings.power,
            lam=settings.lam,
            ending=settings.ending,
        )
        return Relaxed(window, self.solver(window), told)

    def round(self, solution: Relaxed | None) -> MarketRound:
        """Return the order of a round, by a new plan from a relaxation or by the last plan; change nothing.

        The plan is improved until the round's deadline, for at most `shim_seconds`.
        """
        relaxed, now = solution, self.now
        if relaxed is None:
            return self.fallback()
        settings, window = self.settings, relaxed.window
        seconds = min(settings.shim_seconds, time_left())
        plan = make_plan(
            window, now, relaxed.relaxation, seconds, self._left(now), settings.scatter, settings.exact
        )
        remaining = dict(zip(window.names, window.remaining.tolist(), strict=True))
        order = _order(now, dict(zip(window.names, plan.runs[:, 0], strict=True)), remaining)
        # Plans are kept, but without their solutions, which contain the state of the program.
        solve = Solve(now.index, len(window), replace(relaxed.relaxation, solution=None), plan)
        return MarketRound(order, solve, relaxed, _moves(now, order))

    def accept(self, done: MarketRound) -> None:
        """Replace the last plan by the plan of an accepted round, if it has one."""
        if done.solve is None or done.relaxed is None:
            return
        window = done.relaxed.window
        self.solves.append(done.solve)
        self._names, self._runs, self._made = window.names, done.solve.plan.runs, self.now.index
        self._regimes = _begun(self.now)
        self._remaining = dict(zip(window.names, window.remaining.tolist(), strict=True))
        self._told = done.relaxed.told

    def fallback(self) -> MarketRound:
        """Return the order of a round by the last plan; jobs that do not run in it come last."""
        now, at = self.now, self.now.index - self._made
        known = 0 <= at < self._runs.shape[1]
        runs = dict(zip(self._names, self._runs[:, at], strict=True)) if known else {}
        order = _order(now, runs, self._remaining)
        return MarketRound(order, None, None, _moves(now, order))

    def figures(self, answer: MarketRound) -> dict[str, float]:
        """Return the figures of a round for reports."""
        by_name = {state.name: state for state in self.now.jobs}
        runs = pack([by_name[name] for name in answer.order if name in by_name], self.now.gpus)
        used = sum(by_name[name].gpus for name in runs)
        return {"jobs": len(by_name), "running": len(runs), "gpus": used, "planned": answer.solve is not None}

    def violations(self, answer: MarketRound) -> Iterator[str]:
        """Yield a sentence if the order lacks jobs, and one for each round of the plan with too many GPUs."""
        names = [state.name for state in self.now.jobs]
        if sorted(answer.order) != sorted(names):
            yield f"order {answer.order}: must have the jobs {names}"
        if answer.solve is not None:
            gpus = [state.gpus for state in self.now.jobs]
            for k, column in enumerate(answer.solve.plan.runs.T.tolist()):
                used = sum(g for g, runs in zip(gpus, column, strict=True) if runs)
                if used > self.now.gpus:
                    yield f"round {k} of the plan uses {used} GPUs: must be at most {self.now.gpus}"

    def events(self, rng: np.random.Generator) -> Iterator[RoundState]:
        """Yield the random state of the next round: jobs run or wait, some end, others arrive."""
        last = self.now
        time, index = last.time + _SECONDS, last.index + 1
        jobs = []
        for state in last.jobs:
            runs = bool(rng.random() < 0.6)
            ran = state.run_seconds + (_SECONDS if runs else 0.0)
            if ran < state.job.seconds and rng.random() < 0.97:
                waited = state.waited_seconds + (0.0 if runs else _SECONDS)
                jobs.append(replace(state, run_seconds=ran, waited_seconds=waited, running=runs))
        for k in range(int(rng.integers(0, 3)) if len(jobs) < _JOBS else 0):
            (job,) = generate(1, seed=int(rng.integers(1 << 30)), arrival_seconds=0.0)
            if job.gpus <= _GPUS:
                jobs.append(
                    MarketJob(replace(job, name=f"job {index}-{k}", arrival=time), 0.0, 0.0, 1.0, False)
                )
        yield RoundState(index, time, _SECONDS, _GPUS, tuple(jobs))

    def _due(self, now: RoundState) -> bool:
        """Return whether a new plan is due."""
        age = now.index - self._made
        if age >= min(self.settings.solve_every, self._runs.shape[1]):
            return True
        if tuple(state.name for state in now.jobs) != self._names:
            return True
        return self.settings.reactive and _begun(now) != self._regimes

    def _left(self, now: RoundState) -> Ints | None:
        """Return the remaining rounds of each job in the last plan."""
        if not self.solves:
            return None
        counts = self._runs[:, now.index - self._made :].sum(axis=1)
        left = dict(zip(self._names, counts.tolist(), strict=True))
        return np.array([left.get(state.name, 0) for state in now.jobs], np.int64)

    def _fairness(self, now: RoundState, seen: Forecast) -> tuple[dict[str, tuple[float, float]], Floats]:
        """Return sums and counts of the predictions so far, and equation (9) with their mean as P.

        A single wrong prediction should not change a job's fair completion time, which was promised to the
        user.  The authors' code averages the finish time at a fair share for the same reason.
        """
        sums = np.array([self._told.get(state.name, (0.0, 0)) for state in now.jobs])
        sums += np.column_stack((seen.total_seconds, np.ones(len(sums))))
        told = {
            state.name: (total, count) for state, (total, count) in zip(now.jobs, sums.tolist(), strict=True)
        }
        run = np.array([state.run_seconds for state in now.jobs])
        age = run + np.array([state.waited_seconds for state in now.jobs])
        contention = np.array([state.contention for state in now.jobs])
        owed = sums[:, 0] / sums[:, 1]
        left = seen.remaining_seconds * contention
        return told, (age + left) / np.maximum(np.maximum(owed, run) * contention, _SECOND)


def _order(now: RoundState, runs: Mapping[str, Any], remaining: Mapping[str, float]) -> tuple[str, ...]:
    """Return the jobs in the order in which they get GPUs: jobs of the plan, then all other jobs.

    Because of restarts and wrong predictions, jobs may last longer than planned.  GPUs that are idle in the
    plan go to the jobs with the longest remaining run times, as in the authors' code.
    """
    planned = [state.name for state in now.jobs if runs.get(state.name, False)]
    others = [state.name for state in now.jobs if not runs.get(state.name, False)]
    others.sort(key=lambda name: remaining.get(name, 0.0), reverse=True)
    return (*planned, *others)


def _moves(now: RoundState, order: Sequence[str]) -> tuple[Move, ...]:
    """Return the jobs that start or stop if GPUs are given in this order."""
    by_name = {state.name: state for state in now.jobs}
    runs = set(pack([by_name[name] for name in order], now.gpus))
    moves = []
    for state in now.jobs:
        if state.running != (state.name in runs):
            source, target = ("GPUs", None) if state.running else (None, "GPUs")
            moves.append(Move(state.name, source, target, float(state.gpus)))
    return tuple(moves)


def _begun(now: RoundState) -> tuple[int, ...]:
    """Return the number of regimes of each job that have begun."""
    return tuple(len(state.seen) for state in now.jobs)
