"""Shockwave as a policy of the simulator of clusters: any rigid jobs, on any cluster.

The market knows jobs with regimes and one kind of GPU.  A job with a
:class:`copter.problems.shockwave.workloads.RegimeProfile` is what it says; any other rigid job is one regime
of 100 epochs at its speed of now, restated when that changes: it is static, as far as anybody knows.  Where a
cluster has several types of GPU the market sees all of them as one, and a job at its mean speed over them;
the jobs of a round then go to the types on which they complete first, in the order of the plan, as far as
there is room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind
from copter.problems.policies.mechanism import RigidRound, look
from copter.problems.shockwave.interface import MarketJob, RoundState
from copter.problems.shockwave.scheduler import Planner, Settings, make_relaxation
from copter.problems.shockwave.traces import Mode, Regime, RegimeJob
from copter.problems.shockwave.workloads import RegimeProfile

ROUND_SECONDS = 120.0
"""Section 7."""
_STATIC_EPOCHS = 100
"""Epochs of a job that is no trace's: the grain of its predicted progress, which is continuous anyway."""


class Shockwave:
    """The policy.

    Parameters
    ----------
    solver : str
        The solver of the relaxation, see :func:`.scheduler.make_relaxation`.
    **settings
        Fields of :class:`.scheduler.Settings`.

    Attributes
    ----------
    planner : Planner
        Its plans are in ``planner.solves``.
    figures : dict of str to float
        Whether a plan was made this round, and if so its gap.
    """

    name = "shockwave"
    kind: Kind = "rigid"

    def __init__(
        self, *, solver: str = "water-filling", round_seconds: float = ROUND_SECONDS, **settings: Any
    ) -> None:
        self.round_seconds: float | None = round_seconds
        self.planner = Planner(Settings(**settings), make_relaxation(solver))
        self.figures: dict[str, float] = {}
        self._stated: dict[str, RegimeJob] = {}

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the jobs of a round, and what they get."""
        here = look(now)
        if not here.jobs:
            return {}
        state = RoundState(now.index, now.time, now.seconds, now.cluster.gpus, self._states(here))
        made = len(self.planner.solves)
        order = self.planner.order(state)
        self.figures = {"planned": float(len(self.planner.solves) > made)}
        if self.figures["planned"]:
            self.figures["gap"] = self.planner.solves[-1].plan.gap
        at = {name: k for k, name in enumerate(here.names)}
        return here.allocation(here.pack((at[name], here.preferences(at[name])) for name in order))

    def _states(self, here: RigidRound) -> tuple[MarketJob, ...]:
        """Return the jobs as the market sees them."""
        left = here.mean_seconds_left
        states, stated = [], {}
        for k, one in enumerate(here.jobs):
            job = self._job(one, float(left[k]))
            stated[one.name] = job
            epochs = one.progress / one.work * job.epochs
            run = float(np.interp(epochs, job.epochs_by_regime, job.seconds_by_regime))
            waited = max(one.age - run, 0.0)
            states.append(MarketJob(job, run, waited, max(one.contention, 1.0), one.allocation is not None))
        self._stated = stated
        return tuple(states)

    def _job(self, one: Job, left: float) -> RegimeJob:
        """What is known of a job: its regimes, or one that lasts as long as it would at the speed of now."""
        if isinstance(one.seen, RegimeProfile):
            return one.seen.job
        share = 1.0 - one.progress / one.work
        seconds = left / share / _STATIC_EPOCHS
        known = self._stated.get(one.name)
        if known is None or abs(known.regimes[0].epoch_seconds - seconds) > 1e-9 * seconds:
            assert one.gpus is not None
            regime = Regime(1, _STATIC_EPOCHS, seconds)
            return RegimeJob(one.name, one.submitted, one.gpus, Mode.STATIC, (regime,))
        return known
