"""What policies know of changes of batch size: nothing, what they see now, or all that is to come.

Policies of rigid jobs go by a job's speed of now: they *react* to a change when it is there.  With these
estimators the same policies are *agnostic* or *proactive*, so that what foresight is worth can be measured
for any of them (Shockwave, section 2.2, figures 2 and 4).  They tell of the jobs of Shockwave's traces; of
other jobs policies see what they saw.
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
    """Let policies see one speed for all epochs of a job."""
    first = profile.job.regimes[0]
    whole = Regime(first.batch_size, profile.job.epochs, epoch_seconds)
    seen = replace(profile.job, mode=Mode.STATIC, regimes=(whole,))
    job.seen = RegimeProfile(seen, profile.restart_seconds)


class Agnostic(Estimator):
    """An estimator that never learns of a change of speed: what a job did first, it will always do."""

    def observe(self, now: ClusterState) -> None:
        """Let policies see the first speed of jobs that arrive."""
        for job in now.arrived:
            profile = job.profile
            if isinstance(profile, RegimeProfile) and profile.n_levels > 1:
                _show(job, profile, profile.job.regimes[0].epoch_seconds)


class Proactive(Estimator):
    """An estimator that knows the regimes to come: the run time left is right, whatever the speed of now."""

    def observe(self, now: ClusterState) -> None:
        """Let policies see the mean speed of each job over the epochs that are left."""
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
    """Return the estimator by what it lets policies know; none for policies that see the speed of now."""
    makers: dict[str, Callable[[], Estimator | None]] = {
        "agnostic": Agnostic,
        "reactive": lambda: None,
        "proactive": Proactive,
    }
    if name not in makers:
        raise ValueError(f"knowledge = {name!r}: must be one of {', '.join(makers)}")
    return makers[name]()
