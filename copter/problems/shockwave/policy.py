"""Shockwave as a policy of the simulator of clusters, for rigid jobs on any cluster.

The planner requires jobs with regimes and one type of GPU.  A job with a
:class:`copter.problems.shockwave.workloads.RegimeProfile` has the regimes of its profile.  Any other rigid
job has one regime of 100 epochs at its present speed, and another one when the speed changes.  If a cluster
has several types of GPU, the planner treats them as one type, and each job has its mean speed over the types.
The jobs of a round, in the order of the plan, then get the free type on which they complete first.
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
"""Seconds of a round (section 7)."""
_STATIC_EPOCHS = 100
"""Epochs of a job without regimes; its predicted progress is continuous in any case."""


class Shockwave:
    """Shockwave's planner as a policy.

    Parameters
    ----------
    solver : str
        Solver of the relaxation: see :func:`.scheduler.make_relaxation`.
    **settings
        Fields of :class:`.scheduler.Settings`.

    Attributes
    ----------
    planner : Planner
        Planner of the rounds, with its plans in ``planner.solves``.
    figures : dict of str to float
        Figures of the last round: whether a plan was made (1 or 0), and the gap of a new plan.
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
        """Return the configurations of the jobs that run in a round."""
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
        """Return the jobs in the form that the planner requires."""
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
        """Return a job's regimes; without any, one regime at its present speed."""
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
