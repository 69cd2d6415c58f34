"""Kills at random: the service, processes of jobs, agents, daemons and nodes, while many short jobs run.


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

from copter.live.client import ServiceError
from copter.live.events import Closed, Ended, Launched, Submitted
from copter.live.journal import JOURNAL, LiveJournal
from support.live_cases import sound
from support.play_again import play_again
from support.service_process import ServiceProcess

TYPES = {"a100": (1, 4), "t4": (2, 2)}
"""Nodes of each type, and GPUs on each of them."""
CLUSTER = """\
gpus = [
  {{ type = "a100", gpus_per_node = 4, nodes = 1, hosts = {a100} }},
  {{ type = "t4", gpus_per_node = 2, nodes = 2, hosts = {t4} }},
]
grace_seconds = 10.0
keep_jobs = 100000
"""
CHECKPOINT_SECONDS = 1.0
SLACK = 1.5
"""Seconds for a step, a write, and a machine that does other things: beside the promise."""
TRAINING_JOB = Path(__file__).parent / "support" / "training_job.py"


class Local:
    """Nodes of the local backend, which do not fail.

    Attributes
    ----------
    kinds : dict of str to int
        What is killed, and how often each by the other's measure.
    seconds : tuple of float
        Between two kills.
    """

    kinds = {"service": 1, "process": 3, "agent": 2}
    seconds = (0.3, 1.2)

    def __init__(self, folder):
        self.folder = folder
        self.hosts = {"a100": ["a100-0"], "t4": ["t4-0", "t4-1"]}
        self.options = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class OnRay(Local):
    """A real Ray: nodes are killed, with the raylet and all workers; the head has no GPUs."""

    kinds = {"service": 2, "process": 4, "agent": 3, "worker": 2, "node": 2}
    seconds = (1.0, 3.0)

    def __init__(self, folder):
        self.folder = folder
        self.hosts = {type: [f"{type}-{n}" for n in range(nodes)] for type, (nodes, _) in TYPES.items()}

    def __enter__(self):
        import ray
        from ray.cluster_utils import Cluster

        self._small = {"num_cpus": 8, "object_store_memory": 100_000_000}
        head = self._small | {"num_gpus": 0, "include_dashboard": False, "node_name": "head"}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = {host: self._add(host) for hosts in self.hosts.values() for host in hosts}
        self.options = {"address": self._cluster.address, "cpus_per_gpu": 0.01}
        ray.shutdown()
        return self

    def __exit__(self, *_):
        self._cluster.shutdown()

    def _add(self, host):
        number = 2 + sum(self.hosts.values(), []).index(host)
        gpus = TYPES[host.rpartition("-")[0]][1]
        return self._cluster.add_node(
            **self._small, num_gpus=gpus, node_name=host, node_ip_address=f"127.0.0.{number}"
        )

    def fail(self, kind, rng):
        """Let something of the backend's own fail; returns what mends it, and after how many seconds."""
        if kind == "worker":
            above = [one for pid in processes(self.folder, "agent") if (one := parent(pid)) is not None]
            if not above:
                return None
            os.kill(rng.choice(above), signal.SIGKILL)
            return (lambda: None), 0.0
        host = rng.choice(list(self._nodes))
        self._cluster.remove_node(self._nodes.pop(host), allow_graceful=False)

        def back():
            self._nodes[host] = self._add(host)

        return back, rng.uniform(0.0, 8.0)


BACKENDS = {"local": Local, "ray": OnRay}


def command_job(name, rng):
    seconds = rng.uniform(0.1, 3.0)
    words = f"echo $COPTER_RANK >> began; sleep {seconds:.2f}; echo >> ended"
    return {"name": name, "command": ["sh", "-c", words], "gpus": rng.choice([1, 1, 2]), "preemptible": True}


def training_job(name, rng, folder):
    return {
        "name": name,
        "command": [sys.executable, str(TRAINING_JOB), str(folder / "traces" / name), "0.005"],
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


def parent(pid):
    """The process above another one; None if that has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


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


class Killer:
    """Kills things at random, and mends what is of the backend's own a while later."""

    def __init__(self, folder, service, cluster, rng):
        self._folder, self._service, self._cluster, self._rng = folder, service, cluster, rng
        self._to_mend = {}
        self.killed = dict.fromkeys(cluster.kinds, 0)

    def kill(self):
        """Kill something that was not killed before and is there."""
        kinds = self._cluster.kinds
        (kind,) = self._rng.choices(list(kinds), list(kinds.values()))
        if kind == "service":
            self._service.kill()
            time.sleep(self._rng.uniform(0.0, 1.0))
            self._service.start()
        elif kind in ("process", "agent"):
            there = processes(self._folder, kind)
            if not there:
                return
            try:
                os.kill(self._rng.choice(there), signal.SIGKILL)
            except ProcessLookupError:
                return
        elif kind in self._to_mend:
            return
        else:
            failed = self._cluster.fail(kind, self._rng)
            if failed is None:
                return
            primal_repair, seconds = failed
            self._to_mend[kind] = (time.monotonic() + seconds, primal_repair)
        self.killed[kind] += 1

    def primal_repair(self, *, all=False):
        """Mend what it is time for, or all."""
        for kind, (when, primal_repair) in list(self._to_mend.items()):
            if all or time.monotonic() >= when:
                primal_repair()
                del self._to_mend[kind]


def play(folder, jobs, kills, seed, backend="local"):
    """Submit and kill; returns names that were acknowledged and how often each thing was killed."""
    rng = random.Random(seed)
    with BACKENDS[backend](folder) as there:
        cluster = folder / "cluster.toml"
        options = "".join(f"{name} = {json.dumps(value)}\n" for name, value in there.options.items())
        hosts = {type: json.dumps(names) for type, names in there.hosts.items()}
        cluster.write_text(CLUSTER.format(**hosts) + "[options]\n" + options)
        arguments = ("--round-seconds", "2", "--backend", backend)
        with ServiceProcess(folder, cluster, arguments) as service:
            return submit_and_kill(folder, service, there, jobs, kills, rng)


def submit_and_kill(folder, service, cluster, jobs, kills, rng):
    todo, acknowledged = [], []
    for number in range(jobs):
        name = f"job-{number}"
        todo.append(training_job(name, rng, folder) if number % 2 else command_job(name, rng))
        if number % 2:
            (folder / "traces" / name).mkdir(parents=True)

    def submit():
        for job in todo:
            with service.client(patience=60.0) as client:
                try:
                    client.submit(job | {"retries": 1000})
                except ServiceError as error:
                    assert error.status == 0, error  # the response was lost
                    if job["name"] not in {one["name"] for one in client.jobs(ended=True)}:
                        client.submit(job | {"retries": 1000})
            acknowledged.append(job["name"])
            time.sleep(0.2)

    submitting = threading.Thread(target=submit)
    submitting.start()
    killer = Killer(folder, service, cluster, rng)
    while sum(killer.killed.values()) < kills:
        time.sleep(rng.uniform(*cluster.seconds))
        killer.primal_repair()
        killer.kill()
        assert submitting.is_alive() or len(acknowledged) == jobs, "jobs were not handed in"
    killer.primal_repair(all=True)
    submitting.join()
    assert len(acknowledged) == jobs
    deadline = time.monotonic() + 1800.0
    with service.client(patience=60.0) as client:
        while left := client.jobs():
            assert time.monotonic() < deadline, [job["name"] for job in left]
            time.sleep(1.0)
    return acknowledged, killer.killed


def check(folder, acknowledged):
    """Raise if anything was lost, or done twice; returns figures."""
    journal = LiveJournal(folder / JOURNAL, read_only=True)
    assert sound(journal)
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
    parser.add_argument("--backend", choices=list(BACKENDS), default="local")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    acknowledged, killed = play(folder, arguments.jobs, arguments.kills, arguments.seed, arguments.backend)
    figures = {"backend": arguments.backend, "seconds": round(time.monotonic() - began, 1), "killed": killed}
    print(json.dumps(figures | check(folder, acknowledged)))


if __name__ == "__main__":
    main()
