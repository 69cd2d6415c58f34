"""Kills at random: the service, processes of jobs, agents and nodes, while many short jobs run.

    python tests/live_faults.py --jobs 200 --kills 100 --seed 1

Half of the jobs are commands, half train and are resized.  At the end every job that was acknowledged is
over, once; none has run in two places at a time; the journal is sound and plays again; and what a job that
trains lost at a kill is no older than the checkpoints that it was promised.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from copter.live.events import Closed, Ended, Launched, Submitted
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.process import ServiceProcess
from copter.live.replay import play_again

CLUSTER = """\
gpus = [
  { type = "a100", gpus_per_node = 4, nodes = 1 },
  { type = "t4", gpus_per_node = 2, nodes = 2 },
]
grace_seconds = 10.0
keep_jobs = 100000
"""
CHECKPOINT_SECONDS = 1.0
SLACK = 1.5
"""Seconds for a step, a write, and a machine that does other things: beside the promise."""
HERE = Path(__file__).parent
KILLS = {"service": 1, "process": 3, "agent": 2, "node": 1}
"""What is killed, and how often each by the other's measure."""


def command_job(name, rng):
    seconds = rng.uniform(0.1, 3.0)
    words = f"echo $COPTER_RANK >> began; sleep {seconds:.2f}; echo >> ended"
    return {"name": name, "command": ["sh", "-c", words], "gpus": rng.choice([1, 1, 2]), "preemptible": True}


def training_job(name, rng, folder):
    return {
        "name": name,
        "command": [sys.executable, str(HERE / "training_job.py"), str(folder / "traces" / name), "0.005"],
        "kind": "adaptive",
        "work": rng.uniform(500, 5000),
        "batch_size": 24,
        "max_batch_size": 240,
        "max_local_batch": 120,
        "max_gpus": 4,
        "checkpoint_seconds": CHECKPOINT_SECONDS,
        "report_seconds": 0.5,
        "restart_seconds": 1.0,
        "environment": {"OPENBLAS_NUM_THREADS": "1"},
    }


def processes(folder, which):
    """Processes of jobs (``process``), or the agents above them."""
    agents = []
    for begun in folder.glob("jobs/*/runs/*/begun-*.json"):
        number = begun.stem.partition("-")[2]
        if (begun.parent / f"ended-{number}.json").exists():
            continue
        try:
            agents.append(json.loads(begun.read_text())["pid"])
        except (ValueError, KeyError):
            continue
    agents = [pid for pid in agents if os.path.exists(f"/proc/{pid}")]
    if which == "agent":
        return agents
    found = []
    for pid in agents:
        try:
            found += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            continue
    return found


def kill_one(kind, folder, service, rng):
    """Kill something; returns whether there was anything to kill."""
    if kind == "service":
        service.kill()
        time.sleep(rng.uniform(0.0, 1.0))
        service.start()
        return True
    if kind == "node":
        host = rng.choice(["a100-0", "t4-0", "t4-1"])
        (folder / "failed").mkdir(exist_ok=True)
        mark = folder / "failed" / host
        mark.touch()
        threading.Timer(rng.uniform(0.5, 3.0), lambda: mark.unlink(missing_ok=True)).start()
        return True
    there = processes(folder, kind)
    if there:
        try:
            os.kill(rng.choice(there), signal.SIGKILL)
        except ProcessLookupError:
            return False
    return bool(there)


def play(folder, jobs, kills, seed):
    """Submit and kill; returns names that were acknowledged and how often each thing was killed."""
    rng = random.Random(seed)
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    killed, acknowledged = dict.fromkeys(KILLS, 0), []
    with ServiceProcess(folder, cluster, ("--round-seconds", "2")) as service:
        todo = []
        for number in range(jobs):
            name = f"job-{number}"
            todo.append(training_job(name, rng, folder) if number % 2 else command_job(name, rng))
            if number % 2:
                (folder / "traces" / name).mkdir(parents=True)
        stop = threading.Event()

        def submit():
            for job in todo:
                client = service.client(patience=60.0)
                acknowledged.append(client.submit(job | {"retries": 1000}))
                client.close()
                if stop.wait(0.2):
                    return

        submitting = threading.Thread(target=submit)
        submitting.start()
        while sum(killed.values()) < kills:
            time.sleep(rng.uniform(0.3, 1.2))
            (kind,) = rng.choices(list(KILLS), list(KILLS.values()))
            killed[kind] += kill_one(kind, folder, service, rng)
        submitting.join()
        time.sleep(4.0)  # the last nodes are back
        with service.client(patience=60.0) as client:
            client.wait(acknowledged, timeout=900.0)
    return acknowledged, killed


def check(folder, acknowledged):
    """Raise if anything was lost, or done twice; returns figures."""
    journal = LiveJournal(folder / JOURNAL, read_only=True)
    assert journal.sound()
    events = [event for _, event in journal.events()]
    journal.close()
    submitted = [event.job for event in events if isinstance(event, Submitted)]
    closed = [event for event in events if isinstance(event, Closed)]
    assert len(set(submitted)) == len(submitted) and set(acknowledged) <= set(submitted)
    assert sorted(event.job for event in closed) == sorted(submitted)
    assert {event.ending for event in closed} == {"completed"}, [
        one for one in closed if one.ending != "completed"
    ]
    where = {}
    for event in events:
        if isinstance(event, Launched):
            assert event.job not in where, f"{event.job} runs twice"
            where[event.job] = event.number
        elif isinstance(event, Ended):
            assert where.pop(event.job) == event.number
    assert not where
    lost = [lost_seconds(folder / "traces" / job) for job in submitted if (folder / "traces" / job).is_dir()]
    lost = [one for job in lost for one in job]
    assert max(lost, default=0.0) <= CHECKPOINT_SECONDS + SLACK, max(lost)
    rounds, different = play_again(folder)
    assert different == []
    outcomes = [event.outcome for event in events if isinstance(event, Ended)]
    return {
        "jobs": len(submitted),
        "runs": len(outcomes),
        "outcomes": {one: outcomes.count(one) for one in sorted(set(outcomes))},
        "rounds": rounds,
        "most_seconds_lost": round(max(lost, default=0.0), 2),
        "journal_bytes": (folder / JOURNAL).stat().st_size,
    }


def lost_seconds(folder):
    """For each run that was followed by another: seconds of steps that the next one had to do again.

    Two runs never step at the same time, and no step is left out.
    """
    runs = {}
    for path in folder.glob("trace-*-0"):
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        if lines:
            runs[int(path.name.split("-")[1])] = [(line["step"], line["at"]) for line in lines]
    lost = []
    for earlier, later in zip(sorted(runs)[:-1], sorted(runs)[1:], strict=True):
        before, after = runs[earlier], runs[later]
        assert before[-1][1] <= after[0][1], f"{folder.name}: runs {earlier} and {later} at a time"
        first = after[0][0]
        assert first <= before[-1][0] + 1, f"{folder.name}: steps are left out"
        again = [at for step, at in before if step >= first]
        lost.append(again[-1] - again[0] if again else 0.0)
    return lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    acknowledged, killed = play(folder, arguments.jobs, arguments.kills, arguments.seed)
    figures = {"seconds": round(time.monotonic() - began, 1), "killed": killed}
    print(json.dumps(figures | check(folder, acknowledged)))


if __name__ == "__main__":
    main()
