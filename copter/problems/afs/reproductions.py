"""Simulations for tables and figures of the AFS paper, which `reproductions.toml` names.

The paper has its figures as plots without numbers, and ranges in the text; these ranges are given next to
copter's values.

Figure 8 (section 5.3) measures the benefit of fast resizes for one job among others that arrive in a burst.
The monitored job trains Video Prediction and starts before the burst.  In the first case, 19 short jobs
arrive 2 to 70 seconds apart; in the second, 68 jobs are present at once.  CoDDL lets a job run while GPUs are
prepared, and cancels outdated orders.  Without cancellation, an order waits for the previous one; without
both, every change is a full restart. Restarts take tens of seconds (Figure 1), here 20 to 60 s, random for
each model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.problems.afs.models import ModelCurve, stand_ins
from copter.problems.afs.traces import testbed, virtual_cluster
from copter.problems.cluster.presets import VIRTUAL_CLUSTERS
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.report.metrics import indices
from copter.problems.cluster.simulation.resize import CheckpointRestart, Coddl, Resize
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario

_HEAD = 3000
"""Largest number of first jobs of a trace; traces 2, 3, 5 and 10 have more."""
_RESTART_SECONDS = (20.0, 60.0)
_SYSTEMS = {
    "CoDDL": Coddl,
    "no cancellation": lambda: Coddl(cancellation=False),
    "full restarts": CheckpointRestart,
}
"""Resize models by name, starting with the full system."""
_MONITORED = "Video Prediction"
_SHORT_GPU_SECONDS, _LONG_GPU_SECONDS = (60.0, 600.0), 3600.0
_UNITS = {"average JCT": "h"}


@dataclass(frozen=True, eq=False)
class PlayedScenario:
    """A scenario, and the simulator that replayed it."""

    scenario: Scenario
    simulator: Simulator

    @property
    def jct(self) -> Floats:
        """Completion times in seconds, in order of submission."""
        return np.array([job.jct for job in self.simulator.job_results()])

    def regime(self) -> dict[str, float]:
        """Return means over time of queue length, cluster efficiency and blocking index (section 2.2)."""
        simulator = self.simulator
        # Figures are those at the time of an event, at which the pauses of 4 ms begin, so pauses do not
        # count.
        held = [replace(segment, restart_seconds=0.0) for segment in simulator.segments]
        over_time = indices(self.scenario, simulator.job_results(), simulator.records, held)
        seconds = np.array([record.seconds for record in simulator.records])
        return {
            "QL": float(np.average(over_time.queue_length, weights=seconds)),
            "CE": float(np.average(over_time.cluster_efficiency, weights=seconds)),
            "BI": float(np.average(over_time.blocking_index, weights=seconds)),
        }


def play(scenario: Scenario, policy: str, resize: Resize | None = None) -> PlayedScenario:
    """Replay a scenario under a policy, by its name in the registry."""
    return PlayedScenario(scenario, Simulator(scenario, make_policy(policy), resize=resize).play())


def simulated(effort: Effort, **settings: Any) -> list[PaperFigure]:
    """Return the figures of policies on traces; see `_sample`."""
    return grid(effort, _sample, _UNITS, **settings)


def _sample(effort: Effort, row: str, k: int, *, trace: int, policy: str, share: float) -> dict[str, float]:
    """Replay a share of the time and work of a virtual cluster's jobs with CoDDL, and return means."""
    seed = effort.seed + k
    effort.say(f"trace {trace} ({list(VIRTUAL_CLUSTERS)[trace - 1]}), {policy}, seed {seed}")
    scenario = virtual_cluster(testbed(), seed, effort.data, vc=str(trace), jobs=_HEAD)
    run = play(_quickly(scenario, share, seed), policy, Coddl())
    return {"average JCT": float(run.jct.mean()) / 3600.0, **run.regime()}


def _quickly(scenario: Scenario, share: float, seed: int) -> Scenario:
    """Return the jobs with a share of their submission times and iterations, and full restarts.

    `seed`: seed of the seconds of a restart, which each model has of its own.
    """
    rng = np.random.default_rng(seed)
    restarts: dict[str, float] = {}
    profiles: dict[str, Profile] = {}
    jobs = []
    for job in scenario.jobs:
        profile = scenario.profiles[job.application]
        assert isinstance(profile, CountProfile)
        seconds = restarts.setdefault(job.category, float(rng.uniform(*_RESTART_SECONDS)))
        work = float(profile.progress[-1]) * share
        profiles[job.application] = CountProfile(
            profile.name, seconds, work, profile.counts, profile.curves, profile.max_gpus
        )
        jobs.append(replace(job, time=job.time * share))
    return Scenario(scenario.cluster, jobs, profiles)


def bursts(effort: Effort) -> list[PaperFigure]:
    """Return the ratios of a job's completion times without parts of CoDDL's resizes to those with it."""
    ratio = {"row": "{burst} jobs arrive", "column": "{system}"}
    derived = [ratio | {"of": "{burst}, {system}", "over": "{burst}, CoDDL"}]
    axes = {"burst": ("few", "many"), "system": tuple(_SYSTEMS)}
    return grid(effort, _monitored, _UNITS, row="{burst}, {system}", axes=axes, derived=derived)


def _monitored(effort: Effort, row: str, k: int, *, burst: str, system: str) -> dict[str, float]:
    return {"average JCT": _monitored_hours(burst, system, effort.seed + k)}


def _monitored_hours(burst: str, system: str, seed: int) -> float:
    """Return the hours until the monitored job of a burst completes under AFS-P with one of the systems."""
    resize: Resize = _SYSTEMS[system]()
    return float(play(_burst_of(burst, seed), "afs-p", resize).jct[0]) / 3600.0


def _burst_of(kind: str, seed: int) -> Scenario:
    """Return the job "monitored" and others: "few" in sequence, or "many" at once."""
    rng = np.random.default_rng(seed)
    cluster = testbed()
    models = [curve.on(cluster.configurations.gpus) for curve in stand_ins()]
    restarts = dict(
        zip([curve.name for curve in models], rng.uniform(*_RESTART_SECONDS, len(models)), strict=True)
    )
    own = next(curve for curve in models if curve.name == _MONITORED)
    jobs: list[JobSubmission] = []
    profiles: dict[str, Profile] = {}

    def add(name: str, time: float, curve: ModelCurve, work: float) -> None:
        speed = {type: curve.speedup for type in cluster.names}
        profiles[name] = CountProfile(name, restarts[curve.name], work, curve.counts, speed)
        jobs.append(JobSubmission(name, time, curve.name, name, kind="strong-scaling"))

    add("monitored", 0.0, own, _LONG_GPU_SECONDS)
    gaps = np.exp(rng.uniform(np.log(2.0), np.log(70.0), 19))
    times = np.cumsum(gaps) if kind == "few" else np.zeros(67)
    for index, time in enumerate(times.tolist()):
        curve = models[int(rng.integers(len(models)))]
        low, high = np.log(_SHORT_GPU_SECONDS)
        add(f"job-{index}", time, curve, float(np.exp(rng.uniform(low, high))))
    return Scenario(cluster, jobs, profiles)
