"""Shockwave's market as a domain of :class:`copter.Rounds`: an answer is an order of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from copter.problems.shockwave.generator import generate
from copter.problems.shockwave.interface import MarketJob, RoundState
from copter.problems.shockwave.scheduler import (
    MarketDomain,
    MarketRound,
    Planner,
    Settings,
    make_relaxation,
)

_GPUS, _JOBS, _SECONDS = 8, 10, 120.0
"""GPUs, approximate number of jobs, and seconds of a round in :func:`example`."""


class ExampleMarket(MarketDomain):
    """The market with random events, and a check that recounts each answer job by job."""

    def violations(self, answer: MarketRound) -> Iterator[str]:
        """Yield an order that does not have the round's jobs, and rounds of the plan with too many GPUs."""
        names = [state.name for state in self._now.jobs]
        if sorted(answer.order) != sorted(names):
            yield f"order {answer.order}: must have the jobs {names}"
        if answer.solve is not None:
            gpus = [state.gpus for state in self._now.jobs]
            for k, column in enumerate(answer.solve.plan.runs.T.tolist()):
                used = sum(g for g, runs in zip(gpus, column, strict=True) if runs)
                if used > self._now.gpus:
                    yield f"round {k} of the plan uses {used} GPUs: must be at most {self._now.gpus}"

    def events(self, rng: np.random.Generator) -> Iterator[RoundState]:
        """Yield the random state of the next round: jobs run or wait, some end, others arrive."""
        last = self._now
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


def example() -> ExampleMarket:
    """Return an example with a small market: `copter check copter.problems.shockwave.example:example`."""
    return ExampleMarket(Planner(Settings(rounds=12, shim_seconds=0.2), make_relaxation("copter")))
