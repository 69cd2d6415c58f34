"""The same jobs by a cluster's own queue and by copter: on a real Slurm, or on a real Ray.

    python -m copter.live.comparison slurm --sizes trace --json slurm.json

A job trains until it has made the progress that it was drawn with, and both sides run the same script.  By
the cluster's own queue it gets, once, the GPUs that its user asks for, of whatever type is free, and trains
with the batch size of its user: Slurm's backfill with time limits that are twice what the job takes on its
slowest GPUs, or first come first served on Ray.  By copter it is handed in without a size.

Sizes are those of Microsoft's trace by the job's GPU time (``trace``) or those of a knowing user (``tuned``),
see :mod:`copter.problems.cluster.traces.tuned`; at most a node.  GPU times are as skewed as in the trace, but
for the months.  Slots are paced (:mod:`.training.pacing`), all else is real.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from copter.live.backends.base import Run, ended
from copter.live.files import ClusterFile
from copter.live.process import ServiceProcess
from copter.live.training.plan import Batch, Pace, Plan
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.profiles.goodput import GoodputProfile
from copter.problems.cluster.traces.tuned import REQUESTED, TunedJobs

Sizes: TypeAlias = Literal["trace", "tuned"]
SPEED = 10.0
"""Times that slots are quicker than the GPUs that they stand for."""
ROUND_SECONDS = 5.0
NOISE = 2000.0
"""Gradient noise, over the initial batch of 128, with which sizes are tuned: what the example measures."""
CLASSES: Mapping[str, tuple[float, tuple[float, float], tuple[str, ...]]] = {
    "S": (0.5, (8.0, 30.0), ("bert", "deepspeech2")),
    "M": (0.3, (30.0, 150.0), ("bert", "deepspeech2")),
    "L": (0.15, (150.0, 600.0), ("yolov3",)),
    "XL": (0.05, (600.0, 1200.0), ("imagenet",)),
}
"""Of each class of jobs: its share, seconds on one GPU of the slowest type, and what it trains."""
SCRIPT = (sys.executable, "-m", "copter.live.examples.digits", "--noise", "1.0", "--learning-rate", "0.02")
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class ComparedJob:
    """A job of the comparison.

    Attributes
    ----------
    time : float
        Seconds from the first one until it is handed in.
    size : str
        Its class.
    work : float
        Steps at the initial batch size.
    gpus, batch_size : int
        What its user asks for.
    """

    name: str
    time: float
    size: str
    application: str
    work: float
    gpus: int
    batch_size: int


@dataclass(frozen=True)
class Result:
    """What became of the jobs.

    Attributes
    ----------
    jct : dict of str to float
        Seconds from the time that a job was handed in until it ended.
    makespan : float
        Seconds from the first job handed in until the last one ended.
    """

    jct: dict[str, float]
    makespan: float

    @property
    def mean(self) -> float:
        """Average JCT."""
        return sum(self.jct.values()) / len(self.jct)


def profile_of(application: str, work: float, types: Sequence[str]) -> GoodputProfile:
    """How a job runs on paced slots."""
    known = builtin_goodput_profiles()[application]
    models = {
        type: known.models[type]._replace(parameters=known.models[type].parameters.scaled(1.0 / SPEED))
        for type in types
    }
    return GoodputProfile(application, 0.0, [work], [NOISE], models, known.limits, rule=known.rule)


def draw(cluster: ClusterFile, jobs: int, span: float, sizes: Sizes, seed: int) -> list[ComparedJob]:
    """Draw jobs that are handed in over a time.

    Parameters
    ----------
    span : float
        Seconds.
    """
    rng = np.random.default_rng(seed)
    types = [one.type for one in cluster.gpus]
    most = min(one.gpus_per_node for one in cluster.gpus)
    tuned = TunedJobs(cluster.cluster(), most, whole=True)
    shares = [share for share, *_ in CLASSES.values()]
    times = np.sort(rng.uniform(0.0, span, jobs))
    drawn = []
    for number, when in enumerate(times - times[0]):
        size = list(CLASSES)[rng.choice(len(shares), p=shares)]
        _, (low, high), applications = CLASSES[size]
        application = applications[rng.integers(len(applications))]
        seconds = math.exp(rng.uniform(math.log(low), math.log(high)))
        rate = profile_of(application, 1.0, types).curve(Configuration(1, 1, types[0]))[0]
        profile = profile_of(application, seconds * float(rate), types)
        if sizes == "tuned":
            choices = tuned.choices(profile)
            gpus, batch = choices[rng.integers(len(choices))]
        else:
            table = REQUESTED[size]
            weights = np.array(list(table.values()))
            gpus = min(int(rng.choice(list(table), p=weights / weights.sum())), most)
            batch = min(profile.limits.initial * gpus, profile.limits.largest)
        drawn.append(
            ComparedJob(
                f"job-{number}",
                float(when),
                size,
                application,
                profile.work,
                gpus,
                batch or profile.limits.initial,
            )
        )
    return drawn


def seconds_on(job: ComparedJob, type: str) -> float:
    """How long a job takes as its user asks for it."""
    profile = profile_of(job.application, job.work, [type]).at_fixed_batch(job.batch_size)
    return float(profile.clock(Configuration(1, job.gpus, type))[-1])


def by_copter(
    folder: Path, cluster: Path, backend: str, jobs: Sequence[ComparedJob], policy: str = "sia"
) -> Result:
    """Run jobs by a service."""
    arguments = ("--backend", backend, "--policy", policy, "--round-seconds", str(ROUND_SECONDS))
    profiles = builtin_goodput_profiles()
    with ServiceProcess(folder, cluster, arguments) as service, service.client(patience=30.0) as client:
        begin = time.monotonic()
        for job in jobs:
            time.sleep(max(begin + job.time - time.monotonic(), 0.0))
            profile = profiles[job.application]
            client.submit(
                {
                    "name": job.name,
                    "command": list(SCRIPT),
                    "kind": "adaptive",
                    "application": job.application,
                    "work": job.work,
                    "batch_size": profile.limits.initial,
                    "max_batch_size": profile.limits.largest,
                    "max_local_batch": min(model.max_local_batch for model in profile.models.values()),
                    "environment": ENVIRONMENT,
                    "checkpoint_seconds": 10.0,
                    "report_seconds": 1.0,
                    "restart_seconds": 3.0,
                }
            )
        over = client.wait([job.name for job in jobs], timeout=3600.0)
    bad = [name for name, view in over.items() if view["status"] != "completed"]
    if bad:
        raise RuntimeError(f"{bad[0]}: {over[bad[0]]['status']}: {over[bad[0]]['reason']}")
    jct = {name: view["finished"] - view["submitted"] for name, view in over.items()}
    first = min(view["submitted"] for view in over.values())
    return Result(jct, max(view["finished"] for view in over.values()) - first)


def run_of(job: ComparedJob, folder: Path, type: str, host: str, number: int = 1) -> Run:
    """A job's only run, on the GPUs that its user asked for."""
    profile = profile_of(job.application, job.work, [type]).at_fixed_batch(job.batch_size)
    assert isinstance(profile, GoodputProfile)
    batch = profile.best_batch(Configuration(1, job.gpus, type), 0)
    plan = Plan(
        url="",
        token="none",
        folder=str(folder / job.name / "checkpoints"),
        number=number,
        work=job.work,
        initial_batch=profile.limits.initial,
        max_batch=profile.limits.largest,
        batch=Batch(batch.local_batch, batch.accumulation, batch.learning_rate_factor),
        rule=profile.rule,
        checkpoint_seconds=10.0,
        pace=Pace(tuple(builtin_goodput_profiles()[job.application].models[type].parameters), SPEED),
    )
    return Run(
        job=job.name,
        number=number,
        command=SCRIPT,
        directory=str(folder),
        folder=folder / job.name / str(number),
        type=type,
        hosts=(host,),
        gpus=(job.gpus,),
        environment=ENVIRONMENT,
        training=plan.as_dict(),
    )


def on_host(description: Path, host: str) -> None:
    """Become the agent of a job whose node was found: what a batch script executes.

    Parameters
    ----------
    description : Path
        File with the fields of the job, and the type of each host.
    """
    from copter.live.backends import agent

    said = json.loads(description.read_text())
    job = ComparedJob(**said["job"])
    run = run_of(job, description.parent, said["types"][host], host)
    run.write()
    os.execv(sys.executable, [sys.executable, "-I", "-S", agent.__file__, str(run.folder), "0"])


def describe(job: ComparedJob, folder: Path, types: Mapping[str, str]) -> Path:
    """Write what :func:`on_host` reads."""
    path = folder / f"{job.name}.json"
    path.write_text(json.dumps({"job": asdict(job), "types": dict(types)}))
    return path


def by_queue(
    folder: Path,
    jobs: Sequence[ComparedJob],
    types: Mapping[str, str],
    submit: Callable[[ComparedJob, Path], None],
) -> Result:
    """Run jobs by a queue of the cluster's own.

    Parameters
    ----------
    types : mapping of str to str
        Type of each host.
    submit : callable
        Puts a job into the queue; is given the file that :func:`on_host` reads.
    """
    folder.mkdir(parents=True)
    begin, handed, left = time.time(), dict[str, float](), list(jobs)
    waiting = {job.name for job in jobs}
    finished: dict[str, float] = {}
    while waiting:
        while left and time.time() - begin >= left[0].time:
            job = left.pop(0)
            handed[job.name] = time.time()
            submit(job, describe(job, folder, types))
        for name in sorted(waiting):
            run = folder / name / "1"
            state = ended(run, 0)
            if state is not None:
                if state.outcome != "completed":
                    raise RuntimeError(f"{name}: {state.reason}")
                finished[name] = json.loads((run / "ended-0.json").read_text())["ended"]
                waiting.discard(name)
        time.sleep(0.1)
    jct = {name: finished[name] - handed[name] for name in finished}
    return Result(jct, max(finished.values()) - min(handed.values()))


def slurm_submitter(types: Mapping[str, str]) -> Callable[[ComparedJob, Path], None]:
    """Hand jobs to Slurm as their users would."""
    slowest = list(dict.fromkeys(types.values()))[0]

    def submit(job: ComparedJob, description: Path) -> None:
        minutes = max(1, math.ceil(2.0 * seconds_on(job, slowest) / 60.0))
        script = f"#!/bin/sh\nexec {sys.executable} -m copter.live.comparison on-host {description}\n"
        subprocess.run(
            [
                *("sbatch", "--parsable", f"--job-name={job.name}", "--nodes=1", "--ntasks=1"),
                *(f"--gres=gpu:{job.gpus}", f"--time={minutes}", f"--output={description}.out", "--mem=100"),
            ],
            input=script,
            text=True,
            check=True,
            capture_output=True,
        )

    return submit


def document(jobs: Sequence[ComparedJob], theirs: Result, ours: Result, **settings: Any) -> dict[str, Any]:
    """Figures of a comparison."""
    return {
        **settings,
        "jobs": [asdict(job) for job in jobs],
        "queue": {"average_jct": theirs.mean, "makespan": theirs.makespan, "jct": theirs.jct},
        "copter": {"average_jct": ours.mean, "makespan": ours.makespan, "jct": ours.jct},
        "jct_ratio": ours.mean / theirs.mean,
        "makespan_ratio": ours.makespan / theirs.makespan,
    }


def temporary() -> Path:
    """A folder for one side of a comparison."""
    return Path(tempfile.mkdtemp(prefix="copter-comparison-"))
