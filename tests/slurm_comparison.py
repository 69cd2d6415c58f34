"""The same jobs by Slurm's backfill and by `copter schedule`, on a real Slurm of this machine.

    python tests/slurm_comparison.py --seed 2 --longer 4 --json bench/results/live/schedule-2.json

The jobs are those of `live_comparison.py`, or ``--longer`` times as long and as far apart. A job sleeps for
as long as its steps take by the measured profile of its application, ten times as fast. By backfill it has,
once, the GPUs and the batch size of its user, and a time limit of twice what it takes on the slowest GPUs.
By copter it is flexible, has the best batch size for its GPUs, reports the times of its steps, and
continues from its checkpoint.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from live_comparison import NOISE, TYPES, ComparedJob, Result, draw, profile_of, seconds_on

from copter.cli.console import save_json, say
from copter.problems.cluster.cluster import Configuration
from support.slurm_cluster import SlurmCluster, why_not
from support.slurm_jobs import Schedulers, run

SHAPES = ((1, 1), (1, 2), (1, 4), (2, 8))
"""Nodes and GPUs that a job can have."""
RESTART_SECONDS = 8
JOB = """\
#!{python}
# A job that sleeps through its steps, reports them, and goes on after a stop where it was.
import json, os, signal, sys, time
sys.path.insert(0, {root!r})
from copter.slurm.reporting import write_report
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
folder, name = {folder!r}, os.environ["SLURM_JOB_NAME"]
job = json.load(open(f"{{folder}}/{{name}}.json"))
node, nodes = os.environ["SLURMD_NODENAME"], int(os.environ["SLURM_JOB_NUM_NODES"])
gpus = nodes * len(os.environ["SLURM_JOB_GPUS"].split(","))
rate, batch, seconds = job["rates"][f"{{node.rpartition('-')[0]}} {{nodes}} {{gpus}}"]
path = f"{{folder}}/{{name}}.done"
done = float(open(path).read()) if os.path.exists(path) else 0.0
first = begin = last = time.time()

def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(path + ".part", "w") as file:
        file.write(str(done))
    os.replace(path + ".part", path)
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
while done < job["work"]:
    time.sleep(min(0.1, max((job["work"] - done) / rate, 0.001)))
    now = time.time()
    done, last = done + rate * (now - last), now
    if job["reports"] and now - begin > 1.0:
        write_report(
            progress=min(done, job["work"]), running_seconds=now - first, local_batch=batch, processes=gpus,
            step_seconds=seconds, steps=max(int((now - begin) / seconds), 1), squared_norm=1.0,
            variance={noise} / job["initial"], folder=folder,
        )
        begin = now
open(f"{{folder}}/{{name}}.end", "w").write(str(time.time()))
"""


def rates(job: ComparedJob, *, fixed: bool) -> dict[str, tuple[float, int, float]]:
    """Return progress per second, local batch and seconds of a step for each type and shape."""
    found = {}
    for type in TYPES:
        profile = profile_of(job.application, job.work, [type])
        known = profile.at_fixed_batch(job.batch_size) if fixed else profile
        for nodes, gpus in SHAPES:
            shape = Configuration(nodes, gpus, type)
            rate = float(known.curve(shape)[0])
            if rate > 0.0:
                batch = profile.best_batch(shape, 0).local_batch
                seconds = profile.models[type].parameters.step_seconds(nodes, gpus, batch)
                found[f"{type} {nodes} {gpus}"] = rate, int(batch), float(seconds)
    return found


def by(folder: Path, jobs: Sequence[ComparedJob], options: Callable[[ComparedJob], list[str]]) -> Result:
    """Run jobs whose options of sbatch a function gives."""
    script = folder / "job.py"
    root = str(Path(__file__).parents[1])
    script.write_text(JOB.format(python=sys.executable, root=root, folder=str(folder), noise=NOISE))
    script.chmod(0o755)
    begin = time.time()
    for job in jobs:
        time.sleep(max(begin + job.time - time.time(), 0.0))
        common = [f"--job-name={job.name}", "--mem=100", f"--chdir={folder}", f"--output={folder}/%x.out"]
        run("sbatch", *common, "--open-mode=append", *options(job), str(script))
    ends = {job.name: folder / f"{job.name}.end" for job in jobs}
    while not all(path.exists() for path in ends.values()):
        time.sleep(0.5)
    jct = {job.name: float(ends[job.name].read_text()) - begin - job.time for job in jobs}
    return Result(jct, max(jct[job.name] + job.time for job in jobs))


def described(folder: Path, jobs: Sequence[ComparedJob], *, fixed: bool) -> Path:
    """Write what jobs read; return their folder."""
    folder.mkdir()
    for job in jobs:
        initial = profile_of(job.application, job.work, list(TYPES)).limits.initial
        fields = {"work": job.work, "rates": rates(job, fixed=fixed), "reports": not fixed}
        (folder / f"{job.name}.json").write_text(json.dumps(fields | {"initial": initial}))
    return folder


def of_user(job: ComparedJob) -> list[str]:
    """Return the options with which a user submits a job to Slurm's backfill."""
    minutes = max(1, math.ceil(2.0 * seconds_on(job, next(iter(TYPES))) / 60.0))
    return [f"--gres=gpu:{job.gpus}", f"--time={minutes}"]


def flexible(job: ComparedJob) -> list[str]:
    """Return the options with which a job is submitted for copter."""
    limits = profile_of(job.application, job.work, list(TYPES)).limits
    most = min(profile_of(job.application, job.work, [type]).models[type].max_local_batch for type in TYPES)
    fields = {"gpus": "1..8", "kind": "adaptive", "work": job.work, "batch_size": limits.initial}
    fields |= {"max_batch_size": limits.largest, "max_local_batch": most, "restart_seconds": RESTART_SECONDS}
    words = " ".join(f"{name}={value}" for name, value in fields.items())
    return ["--hold", "--gres=gpu:1", f"--comment=copter: {words}"]


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--span", type=float, default=120.0, help="seconds in which they are submitted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--longer", type=float, default=1.0, help="factor on the work and the times of all jobs"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if why_not():
        sys.exit(why_not())
    jobs = [
        replace(job, work=given.longer * job.work, time=given.longer * job.time)
        for job in draw(given.jobs, given.span, "trace", given.seed)
    ]
    folder = Path(tempfile.mkdtemp(prefix="copter-"))
    with SlurmCluster(folder / "slurm", TYPES):
        theirs = by(described(folder / "queue", jobs, fixed=True), jobs, of_user)
        schedulers = Schedulers(folder)
        schedulers.start("--round-seconds=5", "--every=0.5", "--soon-seconds=1")
        try:
            ours = by(described(folder / "copter", jobs, fixed=False), jobs, flexible)
        finally:
            schedulers.kill()
    found: dict[str, Any] = {
        **{"cluster": "schedule", "sizes": "trace", "seed": given.seed},
        **{"span": given.span, "longer": given.longer},
        "jobs": [asdict(job) for job in jobs],
        "queue": {"average_jct": theirs.mean, "makespan": theirs.makespan, "jct": theirs.jct},
        "copter": {"average_jct": ours.mean, "makespan": ours.makespan, "jct": ours.jct},
        "jct_ratio": ours.mean / theirs.mean,
        "makespan_ratio": ours.makespan / theirs.makespan,
    }
    say(f"average JCT {theirs.mean:.1f} s by backfill, {ours.mean:.1f} s by copter: {found['jct_ratio']:.2f}")
    say(f"makespan {theirs.makespan:.1f} and {ours.makespan:.1f} s: {found['makespan_ratio']:.2f}")
    say(f"the logs: {folder}")
    if given.json is not None:
        save_json(found, given.json)


if __name__ == "__main__":
    main()
