"""`copter run sia`: Sia, and first come, first served, on the jobs of a file or of the generator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from copter.problems.cluster.experiment import Setup
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.traces.tuned import TunedJobs
from copter.problems.cluster.workload import Scenario
from copter.problems.policies.first_come import FirstCome
from copter.problems.sia.scheduler import ROUND_SECONDS, Sia

if TYPE_CHECKING:
    from copter.problems.sia.cli import SiaRunOptions

POLICIES = (Sia.name, FirstCome.name)


@dataclass(frozen=True, kw_only=True)
class SiaSetup(Setup):
    """Both policies on the same jobs; GPUs are counted, not placed.

    For first come, first served, a job that is not rigid has the GPUs and the batch size of
    :class:`~copter.problems.cluster.traces.tuned.TunedJobs`, unless the workload file gives them.

    `options`: options of the command.
    """

    options: SiaRunOptions
    placement: str = "none"

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario with the jobs that are submitted in the first `hours` of the options."""
        found, hours = self.options.scenario(), self.options.hours
        jobs = [job for job in found.jobs if hours is None or job.time < hours * 3600.0]
        tuned = TunedJobs(found.cluster).tune(jobs, found.profiles, np.random.default_rng(seed))
        return replace(found, jobs=tuned)

    def policy(self, name: str) -> Policy:
        """Return a new policy."""
        one = self.options
        if name != Sia.name:
            return FirstCome(round_seconds=ROUND_SECONDS)
        return Sia(p=one.p, lam=one.lam, solver=one.solver_settings(one.solver).make())
