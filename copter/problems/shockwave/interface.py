"""State of a round for the planner: jobs with regimes, and GPUs of one type."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from copter.arrays import Floats
from copter.problems.shockwave.predictor import observe
from copter.problems.shockwave.traces import RegimeJob


@dataclass(frozen=True)
class MarketJob:
    """A job in the queue or running at the start of a round, for the planner.

    The simulator's :class:`~copter.problems.cluster.simulation.jobs.Job` has no regimes; a MarketJob of any
    trace has at least one.  Plans can also be made without a simulator, for random snapshots.

    `run_seconds`: run time so far with progress, without restarts. `waited_seconds`: time since arrival
    without progress. `contention`: number of jobs divided by the number of GPUs, averaged over the rounds
    since the job's arrival, at least 1 ("N_avg" in the paper). `running`: whether the job ran in the last
    round.
    """

    job: RegimeJob
    run_seconds: float
    waited_seconds: float
    contention: float
    running: bool

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.job.name

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.job.gpus

    @cached_property
    def epochs(self) -> float:
        """Completed epochs, including the completed part of the present one."""
        return float(np.interp(self.run_seconds, self.job.seconds_by_regime, self.job.epochs_by_regime))

    @cached_property
    def seen(self) -> Floats:
        """Epochs so far in each regime that has begun, the ongoing regime last."""
        return observe(self.job, self.epochs)


@dataclass(frozen=True)
class RoundState:
    """State of the cluster at the start of a round.

    `index`: rounds before this one. `time`: seconds. `seconds`: length of a round. `jobs`: in order of
    arrival.
    """

    index: int
    time: float
    seconds: float
    gpus: int
    jobs: tuple[MarketJob, ...]


def pack(candidates: Collection[MarketJob], gpus: int) -> list[str]:
    """Return the names of the jobs that fit, in order; a job that does not fit is skipped."""
    taken, left = [], gpus
    for state in candidates:
        if state.gpus <= left:
            taken.append(state.name)
            left -= state.gpus
    return taken
