"""The same jobs in order of arrival and by copter, on a real Ray.

    python tests/live_comparison.py ray --sizes trace --json ray.json

A job trains until it has made the progress that it was drawn with, and both sides run the same script.  In
order of arrival it gets, once, the GPUs that its user asks for, of whatever type is free, and trains with the
batch size of its user.  By copter it is handed in without a size.

Sizes are those of Microsoft's trace by the job's GPU time (``trace``) or those of a knowing user (``tuned``),
see :mod:`copter.problems.cluster.traces.tuned`; at most a node.  GPU times are as skewed as in the trace, but
for the months.  Steps are paced (:mod:`support.paced_digits`), all else is real.
"""

from __future__ import annotations

import argparse
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
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from copter.cli.console import save_json, say
from copter.live.backends.base import Run, ended
from copter.live.training.plan import Batch, TrainingPlan
from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.profiles.goodput import GoodputProfile
from copter.problems.cluster.traces.tuned import _REQUESTED, TunedJobs
from support.paced_digits import paced
from support.play_again import play_again
from support.service_process import ServiceProcess

SELF = Path(__file__).resolve()
"""Also what runs a job on a node."""
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
SCRIPT = ("--noise", "1.0", "--learning-rate", "0.02")
"""Arguments of the script."""
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


def draw(jobs: int, span: float, sizes: Sizes, seed: int) -> list[ComparedJob]:
    """Draw jobs that are handed in over a time.

    Parameters
    ----------
    span : float
        Seconds.
    """
    rng, users = np.random.default_rng(seed), np.random.default_rng((seed, 1))
    types = list(TYPES)
    most = min(gpus for _, gpus in TYPES.values())
    cluster = Cluster(GpuType(type, gpus, nodes) for type, (nodes, gpus) in TYPES.items())
    tuned = TunedJobs(cluster, most, whole=True)
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
            gpus, batch = choices[users.integers(len(choices))]
        else:
            table = _REQUESTED[size]
            weights = np.array(list(table.values()))
            gpus = min(int(users.choice(list(table), p=weights / weights.sum())), most)
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
                    "command": paced(job.application, SPEED, *SCRIPT),
                    "kind": "adaptive",
                    "application": job.application,
                    "work": job.work,
                    "batch_size": profile.limits.initial,
                    "max_batch_size": profile.limits.largest,
                    "max_local_batch": {type: profile.models[type].max_local_batch for type in TYPES},
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
    plan = TrainingPlan(
        url="",
        token="none",
        folder=str(folder / job.name / "checkpoints"),
        number=number,
        work=job.work,
        initial_batch=profile.limits.initial,
        batch=Batch(batch.local_batch, batch.accumulation, batch.learning_rate_factor),
        rule=profile.rule,
        checkpoint_seconds=10.0,
    )
    return Run(
        job=job.name,
        number=number,
        command=tuple(paced(job.application, SPEED, *SCRIPT)),
        directory=str(folder),
        folder=folder / job.name / str(number),
        type=type,
        hosts=(host,),
        gpus=(job.gpus,),
        environment=ENVIRONMENT,
        training=asdict(plan),
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
    *,
    in_order: bool = False,
) -> Result:
    """Run jobs by a queue of the cluster's own.

    Parameters
    ----------
    types : mapping of str to str
        Type of each host.
    submit : callable
        Puts a job into the queue; is given the file that :func:`on_host` reads.
    in_order : bool
        The queue gets a job when the one before has begun: first come first served.
    """
    folder.mkdir(parents=True)
    begin, left, before = time.time(), list(jobs), Path()
    finished: dict[str, float] = {}
    while len(finished) < len(jobs):
        while left and time.time() - begin >= left[0].time and (not in_order or before.exists()):
            job = left.pop(0)
            submit(job, describe(job, folder, types))
            before = folder / job.name / "1" / "begun-0.json"
        for job in jobs:
            run = folder / job.name / "1"
            state = None if job.name in finished else ended(run, 0)
            if state is not None:
                if state.outcome != "completed":
                    raise RuntimeError(f"{job.name}: {state.reason}")
                finished[job.name] = json.loads((run / "ended-0.json").read_text())["ended"] - begin
        time.sleep(0.1)
    jct = {job.name: finished[job.name] - job.time for job in jobs}
    return Result(jct, max(finished.values()) - jobs[0].time)


def to_ray(hosts: Mapping[str, str]) -> Callable[[ComparedJob, Path], None]:
    """Hand jobs to Ray as tasks.

    Parameters
    ----------
    hosts : mapping of str to str
        Name of the node at each address.
    """
    import ray

    def run(description: str) -> None:
        host = hosts[ray.util.get_node_ip_address()]
        command = [sys.executable, str(SELF), "on-host", description, "--host", host]
        subprocess.run(command, check=True)

    def submit(job: ComparedJob, description: Path) -> None:
        ray.remote(num_gpus=job.gpus, num_cpus=0, max_retries=0)(run).remote(str(description))

    return submit


TYPES = {"t4": (2, 4), "a100": (2, 4)}
"""Nodes of each type, the slowest first, and GPUs on each of them."""


def write_cluster(path: Path, hosts: Mapping[str, Sequence[str]], **options: Any) -> None:
    """Write the file of the cluster for the service."""
    lines = []
    for type, (nodes, gpus) in TYPES.items():
        names = json.dumps(list(hosts[type]))
        lines.append(f'  {{ type = "{type}", gpus_per_node = {gpus}, nodes = {nodes}, hosts = {names} }},')
    text = ["gpus = [", *lines, "]", "[options]"]
    path.write_text("\n".join([*text, *(f"{name} = {json.dumps(value)}" for name, value in options.items())]))


def compare_on_ray(folder: Path, jobs: Sequence[ComparedJob]) -> tuple[Result, Result]:
    """First come first served on Ray, then copter, on a Ray of this machine."""
    import ray
    from ray.cluster_utils import Cluster as RayCluster

    hosts = {type: [f"{type}-{n}" for n in range(nodes)] for type, (nodes, _) in TYPES.items()}
    names = [host for there in hosts.values() for host in there]
    sizes = [TYPES[host.rpartition("-")[0]][1] for host in names]
    more: dict[str, Any] = {"num_cpus": 8, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = RayCluster(
        initialize_head=True, head_node_args={**more, "num_gpus": sizes[0], "node_name": names[0]}
    )
    for number, (host, gpus) in enumerate(zip(names[1:], sizes[1:], strict=True), 2):
        cluster.add_node(**more, num_gpus=gpus, node_name=host, node_ip_address=f"127.0.0.{number}")
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        at = {node["NodeManagerAddress"]: node["NodeName"] for node in ray.nodes()}
        types = {host: type for type, there in hosts.items() for host in there}
        theirs = by_queue(folder / "queue", jobs, types, to_ray(at), in_order=True)
        ray.shutdown()
        write_cluster(folder / "ray.toml", hosts, address=cluster.address, cpus_per_gpu=0.01)
        return theirs, by_copter(folder / "copter", folder / "ray.toml", "ray", jobs)
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    """Run a comparison, or one of its jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["ray", "on-host"])
    parser.add_argument("description", nargs="?", type=Path, help="for on-host")
    parser.add_argument("--host", default="", help="for on-host")
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--span", type=float, default=120.0, help="seconds in which they are handed in")
    parser.add_argument("--sizes", choices=get_args(Sizes), default="trace")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.what == "on-host":
        on_host(given.description, given.host)
    jobs = draw(given.jobs, given.span, given.sizes, given.seed)
    folder = Path(tempfile.mkdtemp(prefix="copter-"))
    theirs, ours = compare_on_ray(folder, jobs)
    settings = {
        "cluster": given.what,
        "sizes": given.sizes,
        "seed": given.seed,
        "span": given.span,
        "speed": SPEED,
    }
    found = document(jobs, theirs, ours, **settings) | {"record": record(folder / "copter")}
    say(
        f"average JCT {theirs.mean:.1f} s by the queue, {ours.mean:.1f} s by copter: {found['jct_ratio']:.2f}"
    )
    say(f"makespan {theirs.makespan:.1f} and {ours.makespan:.1f} s: {found['makespan_ratio']:.2f}")
    say(f"the records: {folder}")
    if given.json is not None:
        save_json(found, given.json)


def record(folder: Path) -> dict[str, int]:
    """How many rounds of a service's record were asked again, and how many of them differ."""
    rounds, different = play_again(folder)
    return {"rounds": rounds, "different": len(different)}


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


if __name__ == "__main__":
    main()
