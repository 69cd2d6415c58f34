"""Shockwave's market as a domain of :class:`copter.Rounds`: an answer is an order of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from copter.clock import Clock, current, running
from copter.errors import CopterError
from copter.problems.shockwave.generator import generate
from copter.problems.shockwave.interface import MarketJob, RoundState, pack
from copter.problems.shockwave.scheduler import MarketRound, Planner, Relaxed, Settings, make_relaxation
from copter.solvers.base import Solver

_GPUS, _JOBS = 8, 10
"""Of :func:`example`."""


class MarketError(CopterError, ValueError):
    """A state of the cluster that cannot come after the last one; the message says why."""


class MarketDomain:
    """The rounds of a planner.

    `planner`: as it is.
    """

    program = None

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self._now = RoundState(-1, 0.0, 120.0, _GPUS, ())

    def apply(self, event: RoundState) -> None:
        """Take the state of the cluster at the start of a round."""
        if not isinstance(event, RoundState):
            raise MarketError(f"event {event!r}: the event of a round is its RoundState")
        if not (event.index > self._now.index and event.time >= self._now.time):
            last = f"the last was round {self._now.index} at {self._now.time:g} s"
            raise MarketError(f"round {event.index} at {event.time:g} s: {last}")
        if event.gpus < 1 or not event.seconds > 0:
            raise MarketError(f"round {event.index}: {event.gpus} GPUs for {event.seconds} s")
        names = [state.name for state in event.jobs]
        if len(set(names)) < len(names):
            raise MarketError(f"round {event.index}: a job is there twice")
        for state in event.jobs:
            if not (state.run_seconds >= 0 and state.waited_seconds >= 0 and state.contention >= 1):
                raise MarketError(f"round {event.index}: job {state.name!r} has impossible figures")
        self._now = event

    def solve(self, solver: Solver, deadline: float | None) -> Relaxed | None:  # noqa: ARG002 - it keeps one
        """Solve the relaxation of a new plan, if there has to be one."""
        with running(Clock(deadline, parent=current())):
            return self.planner.relax(self._now) if self._now.jobs else None

    def round(self, solution: Relaxed | None, deadline: float | None) -> MarketRound:
        """Return the order by a plan of whole rounds."""
        return self.planner.decide(self._now, solution, deadline)

    def fallback(self, deadline: float | None) -> MarketRound:  # noqa: ARG002 - takes a moment
        """Return the order by the last plan."""
        return self.planner.keep(self._now)

    def accept(self, answer: MarketRound) -> None:
        """Make the plan the last one."""
        self.planner.accept(self._now, answer)

    def figures(self, answer: MarketRound) -> dict[str, float]:
        """Return what a report shows."""
        by_name = {state.name: state for state in self._now.jobs}
        runs = pack([by_name[name] for name in answer.order if name in by_name], self._now.gpus)
        used = sum(by_name[name].gpus for name in runs)
        return {"jobs": len(by_name), "running": len(runs), "gpus": used, "planned": answer.solve is not None}

    # ---- for `copter check` ----------------------------------------------------------------------

    def violations(self, answer: MarketRound) -> Iterator[str]:
        """Yield an order that is not of the jobs, and rounds of the plan that are overdrawn."""
        names = [state.name for state in self._now.jobs]
        if sorted(answer.order) != sorted(names):
            yield f"the order {answer.order} is not of the jobs {names}"
        if answer.solve is not None:
            gpus = [state.gpus for state in self._now.jobs]
            for k, column in enumerate(answer.solve.plan.runs.T.tolist()):
                used = sum(g for g, runs in zip(gpus, column, strict=True) if runs)
                if used > self._now.gpus:
                    yield f"round {k} of the plan uses {used} GPUs of {self._now.gpus}"

    def events(self, rng: np.random.Generator) -> Iterator[RoundState]:
        """Draw the state of the next round: jobs run or wait, some end, others come."""
        last = self._now
        time, index = last.time + last.seconds, last.index + 1
        jobs = []
        for state in last.jobs:
            runs = bool(rng.random() < 0.6)
            ran = state.run_seconds + (last.seconds if runs else 0.0)
            if ran < state.job.seconds and rng.random() < 0.97:
                waited = state.waited_seconds + (0.0 if runs else last.seconds)
                jobs.append(replace(state, run_seconds=ran, waited_seconds=waited, running=runs))
        for k in range(int(rng.integers(0, 3)) if len(jobs) < _JOBS else 0):
            (job,) = generate(1, seed=int(rng.integers(1 << 30)), arrival_seconds=0.0)
            if job.gpus <= _GPUS:
                jobs.append(
                    MarketJob(replace(job, name=f"job {index}-{k}", arrival=time), 0.0, 0.0, 1.0, False)
                )
        yield RoundState(index, time, last.seconds, last.gpus, tuple(jobs))


def example() -> MarketDomain:
    """Return a small market: `copter check copter.problems.shockwave.domain:example`."""
    return MarketDomain(Planner(Settings(rounds=12, shim_seconds=0.2), make_relaxation("copter")))
