"""Errors of estimated starts: forecasts from the present of a simulation, compared with what then happened.

    python tests/live_forecasts.py --json bench/results/live/forecasts.json

Jobs of one virtual cluster of Microsoft's trace (Philly) over three days are played under each policy.  Every
few hours the policy is played ahead from the present, without the jobs that arrive later, as the service does
(:mod:`copter.live.forecast`).  The estimated starts of the waiting jobs are compared with their starts in the
whole simulation, in which later jobs do arrive.

The trace has no run times that users declared.  So policy and forecast know the true ones, or those of users
who declare none: one hour, the default of ``seconds``.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from copter.cli.console import save_json, say
from copter.live.files import JobFile
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.policy import ClusterState, Estimator
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.ahead import Ahead
from copter.problems.cluster.simulation.present import Present
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.philly import FILE, TracedJob, philly_jobs
from copter.problems.cluster.workload import JobSubmission, Scenario
from support.real_data import DATA

Known: TypeAlias = Literal["true", "default"]
POLICIES = ("fcfs", "backfill", "queue")
TENANT, FIRST_DAY, DAYS = "6c71a0", 49, 3
"""Virtual cluster and days since the begin of the trace: its busiest three days with many jobs."""
NODES, GPUS = 12, 8
ROUND_SECONDS = 300.0
FIRST_HOUR, EVERY_HOURS = 6.0, 2.0
"""Hour of the first present, and hours from each to the next."""
DEFAULT_SECONDS = float(JobFile.model_fields["seconds"].default)


@dataclass(frozen=True)
class Compared:
    """A waiting job: time of the present, estimated start (NaN: none), and start in the simulation."""

    present: float
    estimated: float
    started: float


class Declared(Estimator):
    """What a policy knows of jobs that declare the default: they need it from their start on."""

    def observe(self, now: ClusterState) -> None:
        """Set the speed at which each job ends when it is expected to."""
        for job in now.jobs.values():
            if job.allocation is not None or job.seen is job.profile:
                speed = (job.work - job.progress) / left(job)
                job.seen = rigid(job.work, job.gpus or 1, speed)


def left(job: Job) -> float:
    """Seconds that a job is expected to need: what is left of the declared ones, or as many as it has run."""
    ran = job.run_seconds
    return DEFAULT_SECONDS - ran if ran < DEFAULT_SECONDS else ran


def rigid(work: float, gpus: int, speed: float = 1.0) -> CountProfile:
    """Return the profile of a rigid job."""
    return CountProfile("rigid", 0.0, work, [gpus], {"gpu": [speed]})


def scenario_of(trace: list[TracedJob]) -> Scenario:
    """Return the jobs of the virtual cluster in the days."""
    begin, end = 86_400.0 * FIRST_DAY, 86_400.0 * (FIRST_DAY + DAYS)
    jobs, profiles = [], dict[str, Profile]()
    for number, one in enumerate(trace):
        if one.tenant == TENANT and begin <= one.time < end and one.gpus <= NODES * GPUS and one.seconds > 0:
            name = f"job-{number}"
            jobs.append(JobSubmission(name, one.time - begin, "", name, "rigid", one.gpus, preemptible=False))
            profiles[name] = rigid(one.seconds, one.gpus)
    return Scenario(Cluster([GpuType("gpu", GPUS, NODES)]), jobs, profiles)


def ahead_of(simulator: Simulator, policy: str, known: Known) -> Ahead:
    """Return the policy, played ahead from the present of a simulation."""
    present, scenario = simulator.present(), simulator.scenario
    there = {job.name: job for job in scenario.jobs}
    profiles, states = dict[str, Profile](), {}
    for name, state in present.jobs.items():
        job = simulator.jobs[name]
        profiles[name], states[name] = scenario.profiles[name], state
        if known == "default":
            profiles[name] = rigid(job.run_seconds + left(job), job.gpus or 1)
    made = make_policy(policy, round_seconds=ROUND_SECONDS)
    jobs = [there[name] for name in present.jobs]
    ahead = Ahead(
        Scenario(simulator.cluster.copy(), jobs, profiles),
        made,
        Present(present.time, states),
        placer=placer_for(made),
    )
    ahead.play_starts()
    return ahead


def compare(scenario: Scenario, policy: str, known: Known) -> list[Compared]:
    """Play a policy, forecast every few hours, and return what is known of the jobs that waited."""
    made = make_policy(policy, round_seconds=ROUND_SECONDS)
    estimator = Declared() if known == "default" else None
    simulator = Simulator(scenario, made, placer=placer_for(made), estimator=estimator)
    estimates: list[tuple[float, str, float]] = []
    following = FIRST_HOUR * 3600.0
    for record in simulator.run():
        now = record.time + record.seconds
        if following <= now < 86_400.0 * DAYS:
            following += EVERY_HOURS * 3600.0
            waiting = [name for name, job in simulator.jobs.items() if job.allocation is None]
            starts = ahead_of(simulator, policy, known).starts if waiting else {}
            estimates += [(now, name, starts.get(name, math.nan)) for name in waiting]
    started = {job.name: job.started for job in simulator.job_results()}
    return [Compared(now, estimated, started[name]) for now, name, estimated in estimates]


def figures(compared: list[Compared]) -> dict[str, float]:
    """Return the errors of the estimates; relative ones are of the wait that was left."""
    known = [one for one in compared if not math.isnan(one.estimated)]
    errors = np.array([one.estimated - one.started for one in known])
    waits = np.array([one.started - one.present for one in known])
    relative = np.abs(errors) / np.maximum(waits, ROUND_SECONDS)
    return {
        "presents": len({one.present for one in compared}),
        "jobs": len(known),
        "without": len(compared) - len(known),
        "wait_p50": float(np.quantile(waits, 0.5)),
        "wait_p90": float(np.quantile(waits, 0.9)),
        "error_p50": float(np.quantile(np.abs(errors), 0.5)),
        "error_p90": float(np.quantile(np.abs(errors), 0.9)),
        "relative_p50": float(np.quantile(relative, 0.5)),
        "relative_p90": float(np.quantile(relative, 0.9)),
        "too_early": float(np.mean(errors < -ROUND_SECONDS)),
        "too_late": float(np.mean(errors > ROUND_SECONDS)),
    }


def main() -> None:
    """Measure the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--data", type=Path, default=DATA / "cluster", help="folder of real traces")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    path = given.data / FILE
    if not path.exists():
        parser.exit(0, f"skipped: {path} does not exist\n")
    scenario = scenario_of(list(philly_jobs(path)))
    found: dict[str, Any] = {}
    for policy in given.policies.split(","):
        found[policy] = {}
        for known in get_args(Known):
            one = found[policy][known] = figures(compare(scenario, policy, known))
            shown = ", ".join(f"{key} {value:.3g}" for key, value in one.items())
            say(f"{policy}, {known} run times: {shown}")
    settings = {
        "jobs": len(scenario.jobs),
        "gpus": scenario.cluster.gpus,
        "days": DAYS,
        "round_seconds": ROUND_SECONDS,
        "every_hours": EVERY_HOURS,
    }
    if given.json is not None:
        save_json({"forecasts": found, **settings}, given.json)


if __name__ == "__main__":
    main()
