"""`make live`: six jobs really train, under the Sia policy, on twelve slots of this machine.

    python -m copter.live.demo [--folder runs/demo-live]

Slots simulate GPUs: four A100 and eight T4.  Steps are paced to the speeds that were measured for cifar10 on
these types, times :data:`SPEED` (see :mod:`.training.pacing`).  Gradients, checkpoints, resizes and reports
are real.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from copter.cli.console import progress, say
from copter.live.cli import print_jobs
from copter.live.process import ServiceProcess

SPEED = 20.0
_CLUSTER = f"""\
gpus = [
  {{ type = "a100", gpus_per_node = 4, nodes = 1 }},
  {{ type = "t4", gpus_per_node = 4, nodes = 2 }},
]
pace = {{ speed = {SPEED} }}
"""
_WORK = (5000, 2500, 4000, 2000, 3000, 1500)
"""Number of steps of each job, at the initial batch size."""
_SECONDS_APART = 2.0
_PATIENCE = 170.0


def job(name: str, work: float) -> dict[str, Any]:
    """Return the fields of a job that trains."""
    return {
        "name": name,
        "command": [sys.executable, "-m", "copter.live.examples.digits"],
        "kind": "adaptive",
        "application": "cifar10",
        "work": work,
        "batch_size": 128,
        "max_batch_size": 4096,
        "max_local_batch": 1024,
        "checkpoint_seconds": 5.0,
        "restart_seconds": 2.0,
        "report_seconds": 1.0,
    }


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description="Six elastic jobs on this machine.")
    parser.add_argument("--folder", type=Path, default=Path("runs/demo-live"))
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cluster = folder / "cluster.toml"
    cluster.write_text(_CLUSTER)
    with ServiceProcess(folder, cluster, ("--policy", "sia", "--round-seconds", "4")) as service:
        say(f"page: {service.page}")
        with service.client() as client, progress("{task.fields[doing]}") as bar:
            line = bar.add_task("jobs", total=len(_WORK), doing="")
            names = [f"digits-{number}" for number in range(1, len(_WORK) + 1)]
            begin, submitted = time.monotonic(), 0
            while True:
                waited = time.monotonic() - begin
                while submitted < len(_WORK) and waited >= _SECONDS_APART * submitted:
                    client.submit(job(names[submitted], _WORK[submitted]))
                    submitted += 1
                there = client.jobs()
                held = sum(one["gpus"] for one in there)
                over = submitted - len(there)
                bar.update(line, completed=over, doing=f"{held} slots in use")
                if over == len(_WORK):
                    break
                if waited > _PATIENCE:
                    raise TimeoutError(
                        f"{len(there)} jobs have not ended after {_PATIENCE:g} s: see {service.log}"
                    )
                time.sleep(0.5)
            jobs, now = client.jobs(over=True), client.cluster()["time"]
    print_jobs(jobs, now)
    say(f"The record: {folder}")
    if any(one["status"] != "completed" for one in jobs):
        sys.exit(1)


if __name__ == "__main__":
    main()
