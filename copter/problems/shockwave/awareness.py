"""Knowledge of policies about changes of batch size: none, present changes only, or all future changes.

Policies of rigid jobs use a job's present speed: they *react* to a change when it happens.  With these
estimators the same policies are *agnostic* or *proactive*, which measures the value of foresight for any of
them (Shockwave, section 2.2, figures 2 and 4).  The estimators affect the jobs of Shockwave's traces only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState, Estimator
from copter.problems.shockwave.traces import Mode, Regime
from copter.problems.shockwave.workloads import RegimeProfile


def _show(job: Job, profile: RegimeProfile, epoch_seconds: float) -> None:
    """Show policies the same speed for all epochs of a job."""
    first = profile.job.regimes[0]
    whole = Regime(first.batch_size, profile.job.epochs, epoch_seconds)
    seen = replace(profile.job, mode=Mode.STATIC, regimes=(whole,))
    job.seen = RegimeProfile(seen, profile.restart_seconds)


class Agnostic(Estimator):
    """An estimator that never learns of a change of speed: a job's first speed is used for all epochs."""

    def observe(self, now: ClusterState) -> None:
        """Show policies the first speed of jobs that arrive."""
        for job in now.arrived:
            profile = job.profile
            if isinstance(profile, RegimeProfile) and profile.n_levels > 1:
                _show(job, profile, profile.job.regimes[0].epoch_seconds)


class Proactive(Estimator):
    """An estimator that knows future regimes, so that policies know the correct remaining run time."""

    def observe(self, now: ClusterState) -> None:
        """Show policies the mean speed of each job over its remaining epochs."""
        for job in now.jobs.values():
            profile = job.profile
            if not isinstance(profile, RegimeProfile) or profile.n_levels == 1:
                continue
            known = profile.job
            ran = float(np.interp(job.progress, known.epochs_by_regime, known.seconds_by_regime))
            left = known.epochs - job.progress
            if left > 0:
                _show(job, profile, (known.seconds - ran) / left)


def make_knowledge(name: str) -> Estimator | None:
    """Return the estimator by its name; None for policies that use the present speed."""
    makers: dict[str, Callable[[], Estimator | None]] = {
        "agnostic": Agnostic,
        "reactive": lambda: None,
        "proactive": Proactive,
    }
    if name not in makers:
        raise ValueError(f"knowledge = {name!r}: must be one of {', '.join(makers)}")
    return makers[name]()
