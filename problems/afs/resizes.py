"""What cheap resizes are worth: one job among others that arrive in a burst, as in Figure 8.

The monitored job trains Video Prediction from before a burst on.  In the first case 19 short jobs arrive 2
to 70 seconds apart; in the second 68 jobs are there at once.  CoDDL lets a job run on while GPUs get ready
and cancels orders that are outdated; without cancellation an order waits for the one before; without either
every change is a full restart.

Source: AFS, section 5.3; restarts take tens of seconds (its Figure 1), drawn here from 20 to 60 s a model.
"""

from __future__ import annotations

import numpy as np

from copter.problems.afs.models import ModelCurve, stand_ins
from copter.problems.afs.study import play
from copter.problems.afs.traces import testbed
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.simulation.resize import CheckpointRestart, Coddl, Resize
from copter.problems.cluster.workload import JobSubmission, Scenario

BURSTS = ("few", "many")
SYSTEMS = {
    "CoDDL": Coddl,
    "no cancellation": lambda: Coddl(cancellation=False),
    "full restarts": CheckpointRestart,
}
"""Resize models by name, the full system first."""
MONITORED = "Video Prediction"
_SHORT_GPU_SECONDS, _LONG_GPU_SECONDS = (60.0, 600.0), 3600.0


def burst(kind: str, seed: int) -> Scenario:
    """The monitored job, and the others.

    Returns
    -------
    Scenario
        The job "monitored" comes first.
    """
    rng = np.random.default_rng(seed)
    cluster = testbed()
    models = [curve.on(cluster.configurations.gpus) for curve in stand_ins()]
    restarts = dict(zip([curve.name for curve in models], rng.uniform(20.0, 60.0, len(models)), strict=True))
    own = next(curve for curve in models if curve.name == MONITORED)
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


def monitored_hours(kind: str, system: str, seed: int) -> float:
    """Hours until the monitored job completes under AFS-P.

    Parameters
    ----------
    system : str
        One of :data:`SYSTEMS`.
    """
    resize: Resize = SYSTEMS[system]()
    return float(play(burst(kind, seed), "afs-p", resize=resize).jct[0]) / 3600.0
