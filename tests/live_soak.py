"""Many jobs: what a round costs at 1,000 jobs on 512 slots, and what 10,000 jobs leave behind.

    python tests/live_soak.py rounds --jobs 1000 --rounds 100
    python tests/live_soak.py jobs --jobs 10000

The first has the service and a backend in memory in one process: jobs report in every round, some end and
others come.  The second is `copter serve` with real processes that end at once, handed in over HTTP; it says
how memory, folder and journal grow.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from copter.live.files import ClusterFile
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.training.plan import StepTimes
from support.live_cases import ELASTIC, RIGID, Turned, make_service, named, report
from support.memory_backend import MemoryBackend
from support.service_process import ServiceProcess

ROUND_SECONDS = 60.0
CLUSTER = """\
gpus = [
  { type = "a100", gpus_per_node = 8, nodes = 2 },
  { type = "t4", gpus_per_node = 4, nodes = 4 },
]
keep_jobs = 500
"""


def rounds(jobs, count, seed):
    """Seconds of rounds, from asking to the answer in the journal; and of ticks."""
    rng, clock, backend = random.Random(seed), Turned(), MemoryBackend()
    cluster = ClusterFile(
        gpus=(
            {"type": "a100", "gpus_per_node": 8, "nodes": 16},
            {"type": "rtx", "gpus_per_node": 8, "nodes": 16},
            {"type": "t4", "gpus_per_node": 4, "nodes": 64},
        )
    )
    folder = Path(tempfile.mkdtemp())
    service = make_service(folder, backend, clock, cluster)
    made = 0

    def submit():
        nonlocal made
        made += 1
        rigid = rng.random() < 0.2
        file = (
            named(RIGID, f"job-{made}", gpus=rng.choice([1, 2, 4]))
            if rigid
            else named(ELASTIC, f"job-{made}", work=1e6)
        )
        service.admission.submit(file)

    async def play():
        ticks = []
        for _ in range(jobs):
            submit()
        for _ in range(count):
            clock.time += ROUND_SECONDS
            await service.rounds.ask()
            for _ in range(2):
                began = time.perf_counter()
                await service.launcher.tick()
                ticks.append(time.perf_counter() - began)
            for job in list(service.record.state.running()):
                if job.file.elastic:
                    local = job.run.batch.local_batch
                    times = (StepTimes(local, 30, float(np.log(0.02 + 0.001 * local))),)
                    done = report(job.progress + 50.0, running_seconds=50.0, times=times)
                    service.admission.report(job.name, job.run.number, done)
                if rng.random() < 0.02:
                    backend.end(
                        f"{job.name}.{job.run.number}", rng.choice(["completed", "completed", "failed"])
                    )
            while len(service.record.state.jobs) < jobs:
                submit()
        return ticks

    ticks = asyncio.run(play())
    rounds = [event for _, event in service.record.journal.events(kind="Decided")][3:]
    taken = np.array([one.seconds for one in rounds])
    policy = np.array([one.policy_seconds for one in rounds])
    service.close()
    return {
        "jobs": jobs,
        "slots": 512,
        "rounds": len(taken),
        "round_ms": quantiles(taken),
        "policy_ms": quantiles(policy),
        "tick_ms": quantiles(np.array(ticks)),
    }


def quantiles(seconds):
    """Median, 99th percentile and largest, in milliseconds."""
    return {
        name: round(1e3 * float(np.quantile(seconds, q)), 1)
        for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def many(jobs, policy, folder):
    """Hand in jobs that end at once; what the service holds after each tenth of them."""
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    grown = []
    began = time.monotonic()
    with ServiceProcess(folder, cluster, ("--policy", policy, "--round-seconds", "1")) as service:
        process = psutil.Process(service.pid)
        with service.client(patience=30.0) as client:
            handed = 0
            while handed < jobs:
                there = client.cluster()["jobs"]
                for _ in range(min(100, jobs - handed, max(400 - there, 0))):
                    client.submit({"name": f"job-{handed}", "command": ["true"], "gpus": 1})
                    handed += 1
                if handed >= (len(grown) + 1) * jobs / 10:
                    grown.append(size(process, folder, handed))
                time.sleep(0.1)
            while client.cluster()["jobs"]:
                time.sleep(0.5)
            over = client.cluster()["over"]
            grown.append(size(process, folder, handed))
    assert over == {"completed": jobs, "failed": 0, "cancelled": 0}, over
    journal = LiveJournal(folder / JOURNAL, read_only=True)
    rounds = [event.seconds for _, event in journal.events(kind="Decided")]
    journal.close()
    return {
        "jobs": jobs,
        "seconds": round(time.monotonic() - began, 1),
        "grown": grown,
        "journal_bytes_per_job": round((folder / JOURNAL).stat().st_size / jobs),
        "round_ms": quantiles(np.array(rounds)),
    }


def size(process, folder, handed):
    """What the service holds."""
    kept = sum(1 for _ in folder.glob("jobs/*"))
    return {
        "jobs": handed,
        "memory_mb": round(process.memory_info().rss / 1e6, 1),
        "files": process.num_fds(),
        "threads": process.num_threads(),
        "folders": kept,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["rounds", "jobs"])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--policy", default="sia")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.what == "rounds":
        print(json.dumps(rounds(arguments.jobs, arguments.rounds, arguments.seed)))
    else:
        print(json.dumps(many(arguments.jobs, arguments.policy, Path(tempfile.mkdtemp()))))


if __name__ == "__main__":
    main()
