"""A hostile hour: malicious jobs, kills, a full disk, a clock that jumps and a policy that hangs.

Every fifth job is malicious (`support.hostile_jobs`).  Where a cgroup can be made, runs have cgroups, and
there is one more malicious kind.  The service is killed, its disk is full, its clock jumps and its policy
hangs (`support.troubled_service`).  Every honest job must complete once, and no GPU may be given away while a
process uses it.

`make test-cluster` plays a short version.  The variable COPTER_HOSTILE_JOBS is the number of jobs; with 200
jobs there are the 20 kills of the whole hour.
"""

import http.client
import json
import os
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from copter.live.client import ServiceError
from copter.live.events import Closed, Ended, Launched, Submitted
from copter.live.files import ClusterFile, read_toml
from copter.live.journal import JOURNAL, LiveJournal
from support import hostile_jobs, troubled_service
from support.cgroups import new_cgroup
from support.live_cases import sound
from support.play_again import play_again
from support.service_process import ServiceProcess

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

JOBS = int(os.environ.get("COPTER_HOSTILE_JOBS", "40"))
KILLS = JOBS // 10
SEED = int(os.environ.get("COPTER_HOSTILE_SEED", "1"))
PACE_SECONDS = 0.75
"""Mean time between two submissions."""
HEALTH_SECONDS = 10.0
"""Largest time in which the service must answer /health; much less on a machine that does nothing else."""
PATIENCE = 180.0
"""Seconds within which what is awaited must happen."""
CLUSTER = """\
gpus = [
  { type = "a100", gpus_per_node = 4, nodes = 2 },
  { type = "t4", gpus_per_node = 4, nodes = 2 },
]
grace_seconds = 2.0
lease_seconds = 60.0
decision_seconds = 6.0
keep_jobs = 100000
log_bytes = 20_000_000
"""
MOST_LOG_BYTES = 300_000_000
"""Largest log: what is written between two checks, in addition to the limit."""
SCRIPT, SERVICE = Path(hostile_jobs.__file__), Path(troubled_service.__file__)


def honest_job(rng):
    """A job that does a number of steps and, if it is elastic, reports them."""
    steps = rng.randrange(8, 24)
    job = {"steps": steps, "preemptible": True}
    if rng.random() < 0.25:
        elastic = {"kind": "strong-scaling", "work": float(steps), "batch_size": 16, "max_gpus": 1}
        return job | elastic | {"report_seconds": 1.0, "silence_seconds": 120.0}
    return job | {"gpus": rng.choice([1, 1, 2]), "preemptible": rng.random() < 0.5}


def malicious_job(kind, rng):
    """A job of a malicious kind; one that reports must be elastic, because only these have a token."""
    elastic = {"kind": "adaptive", "work": 1e6, "batch_size": 16, "max_batch_size": 64, "max_gpus": 1}
    return {"retries": 1} | (elastic if kind == "reports" else {"gpus": rng.choice([1, 1, 2])})


def jobs_of(seed, count, kinds):
    """The jobs in the order of their submission: name, kind and fields."""
    rng, made = random.Random(seed), []
    for number in range(count):
        if number % 5 == 4:
            kind = kinds[number // 5 % len(kinds)]
            made.append((f"evil-{number}", kind, malicious_job(kind, rng)))
        else:
            made.append((f"good-{number}", "honest", honest_job(rng)))
    return made


@dataclass
class Answers:
    """How the service answered /health: the longest time, and each failure."""

    longest: float = 0.0
    count: int = 0
    wrong: list[str] = field(default_factory=list)


class Hour:
    """A service, its honest and malicious users, and what happens to its machine."""

    def __init__(self, folder, seed, count, cgroup=None):
        self.folder, self.rng = folder, random.Random(seed)
        self.kinds = [kind for kind in hostile_jobs.KINDS if cgroup or kind not in hostile_jobs.NEED_CGROUPS]
        self.jobs = jobs_of(seed, count, self.kinds)
        for name in ("traces", "devices", "trouble"):
            (folder / name).mkdir(parents=True)
        cluster = folder / "cluster.toml"
        cluster.write_text(CLUSTER + (f'[options]\ncgroup = "{cgroup}"\n' if cgroup else ""))
        read_toml(cluster, ClusterFile)
        arguments = ("--round-seconds", "1", "--soon-seconds", "0.2")
        self.service = ServiceProcess(folder / "live", cluster, arguments)
        trouble = str(folder / "trouble")
        self.service._command[1:3] = [str(SERVICE), trouble]
        self.answers = Answers()
        self.happened = dict.fromkeys(("kills", "full", "forward", "back", "hang"), 0)
        self._starts, self._up, self._over = 0, False, threading.Event()
        self._errors = []
        self._handed_in = threading.Event()

    # ---- users ------------------------------------------------------------------------------------

    def _command(self, name, kind, fields):
        number = str(fields.get("steps", self.rng.randrange(10**6)))
        trace, devices = str(self.folder / "traces" / name), str(self.folder / "devices")
        return [sys.executable, "-S", str(SCRIPT), kind, number, devices, trace, self.service.url]

    def submit(self):
        """Hand in all jobs, again and again while the service does not accept them."""
        with self.service.client(patience=PATIENCE) as client:
            for name, kind, fields in self.jobs:
                job = {key: value for key, value in fields.items() if key != "steps"}
                job |= {"name": name, "command": self._command(name, kind, fields)}
                lost = False
                while not self._over.is_set():
                    try:
                        client.submit(job)
                        break
                    except ServiceError as error:
                        if error.status == 409 and lost:  # its first answer was lost
                            break
                        assert error.status in (0, 503), error
                        lost = lost or error.status == 0
                        time.sleep(0.2)
                if self._over.wait(PACE_SECONDS):
                    return
        self._handed_in.set()

    def tend(self):
        """Read the logs of malicious jobs, and cancel them after a while."""
        seen, evil = {}, {name for name, kind, _ in self.jobs if kind != "honest"}
        while not self._over.wait(0.3):
            try:
                with self.service.client() as client:
                    there = {job["name"]: job for job in client.jobs()}
                    for name in evil & there.keys():
                        if there[name]["status"] in ("starting", "running"):
                            seen.setdefault(name, time.monotonic() + self.rng.uniform(4.0, 8.0))
                        self._read(client, name)
                        late = time.monotonic() - seen.get(name, float("inf"))
                        if late > (0.0 if self.lines(name, "evil") else 60.0):
                            client.cancel(name)
            except ServiceError as error:
                assert error.status in (0, 404, 409, 503), error

    def _read(self, client, name):
        try:
            next(client.parts(name, tail=10), "")
        except ServiceError as error:
            assert error.status in (0, 404, 409), error

    def ask_for_health(self):
        """Ask the service how it is; each answer must come soon while the service is up."""
        while not self._over.wait(0.2):
            starts, began = self._starts, time.monotonic()
            while self._up and self._starts == starts and not self._answered():
                if time.monotonic() - began > PATIENCE:
                    self.answers.wrong.append("no answer")
                    return
                time.sleep(0.05)
            if self._up and self._starts == starts:
                self.answers.longest = max(self.answers.longest, time.monotonic() - began)
                self.answers.count += 1

    def _answered(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=PATIENCE)
        try:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            body = json.loads(answer.read())
            if answer.status not in (200, 503):
                self.answers.wrong.append(f"{answer.status} {body}")
            return True
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # ---- the machine ------------------------------------------------------------------------------

    def start(self):
        self.service.start()
        self._starts, self._up = self._starts + 1, True

    def kill(self, ahead=None):
        """Kill the service, and start it again, with a clock that is ahead if that is given."""
        self._up = False
        self.service.kill()
        self.happened["kills"] += 1
        if ahead is not None:
            (self.folder / "trouble" / troubled_service.CLOCK).write_text(str(ahead))
            self.happened["forward" if ahead else "back"] += 1
        time.sleep(self.rng.uniform(0.0, 1.0))
        self.start()

    def fill_disk(self):
        path = self.folder / "trouble" / troubled_service.FULL
        path.touch()
        time.sleep(3.0)
        path.unlink()
        self.happened["full"] += 1

    def hang(self):
        """Let the next decision hang, and wait until there is one."""
        (self.folder / "trouble" / troubled_service.HANG).touch()
        self.until((self.folder / "trouble" / troubled_service.HUNG).exists)
        time.sleep(7.0)
        self.happened["hang"] += 1

    def disturb(self, kills):
        """Let everything happen at random moments, until all jobs have been handed in."""
        first, second = sorted(self.rng.sample(range(kills), 2))
        acts = [self.kill] * kills
        acts[first], acts[second] = (lambda: self.kill(3600.0)), (lambda: self.kill(0.0))
        acts.insert(self.rng.randrange(kills), self.fill_disk)
        acts.insert(self.rng.randrange(kills), self.hang)
        pause = len(self.jobs) * PACE_SECONDS / (len(acts) + 1)
        for act in acts:
            time.sleep(self.rng.uniform(0.5, 1.0) * pause)
            act()

    # ---- the hour ---------------------------------------------------------------------------------

    def _noting(self, act):
        """Act as a user, and note an error for the thread of the test."""
        try:
            act()
        except BaseException as error:
            self._errors.append(error)
            raise

    def until(self, reached):
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert not self._errors, self._errors
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.1)

    def status(self):
        with self.service.client() as client:
            return [(job["name"], job["status"], job["reason"]) for job in client.jobs()]

    def _all_over(self):
        with self.service.client(patience=PATIENCE) as client:
            if client.jobs():
                return False
            runs = [run for job in client.jobs(ended=True) for run in client.job(job["name"])["all_runs"]]
            return all(run["ended"] is not None for run in runs)

    def play(self, kills):
        """Play the hour until every job has ended; the service is then ended."""
        users = (self.submit, self.tend, self.ask_for_health)
        threads = [threading.Thread(target=self._noting, args=(one,)) for one in users]
        try:
            self.start()
            for thread in threads:
                thread.start()
            self.disturb(kills)
            self.until(self._handed_in.is_set)
            self.until(self._all_over)
            self.until(lambda: not self.left())
        finally:
            self._over.set()
            for thread in threads:
                if thread.is_alive():
                    thread.join()
            left = self.left()
            self._up = False
            self.service.end()
            for pid in left:
                os.kill(pid, 9)

    def left(self):
        """The processes of jobs that live: their command lines have the folder of the traces."""
        mark, found = os.fsencode(self.folder / "traces"), []
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if mark in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
            except OSError:  # it has ended
                continue
        return found

    # ---- judgement --------------------------------------------------------------------------------

    def lines(self, name, ending):
        path = self.folder / "traces" / f"{name}.{ending}"
        return path.read_text().splitlines() if path.exists() else []

    def _logs(self):
        """The logs of the jobs that write without end."""
        names = [name for name, kind, _ in self.jobs if kind in ("logs", "honest")]
        return [path for name in names for path in self.service.folder.glob(f"jobs/{name}/runs/*/log-0.txt")]

    def judge(self):
        """Raise if a job was lost, ran twice, or shared a GPU; return how often each kind acted."""
        acted = dict.fromkeys(self.kinds, 0)
        conflicts = [path.read_text() for path in (self.folder / "traces").glob("*.conflict")]
        assert not conflicts
        journal = LiveJournal(self.service.folder / JOURNAL, read_only=True)
        assert sound(journal)
        events = [event for _, event in journal.events()]
        journal.close()
        handed_in = [event.job for event in events if isinstance(event, Submitted)]
        endings = {event.job: event for event in events if isinstance(event, Closed)}
        assert sorted(handed_in) == sorted(name for name, _, _ in self.jobs)
        assert len(endings) == sum(isinstance(event, Closed) for event in events) == len(self.jobs)
        running = {}
        for event in events:
            if isinstance(event, Launched):
                assert event.job not in running, f"{event.job} runs twice"
                running[event.job] = event.number
            elif isinstance(event, Ended):
                assert running.pop(event.job) == event.number
        assert not running
        for name, kind, fields in self.jobs:
            if kind == "honest":
                assert endings[name].ending == "completed", (name, endings[name])
                assert len(self.lines(name, "done")) == 1, (name, self.lines(name, "done"))
                steps = [int(line.split()[0]) for line in self.lines(name, "steps")]
                assert steps == list(range(fields["steps"])), (name, steps)
            else:
                acted[kind] += bool(self.lines(name, "evil"))
        assert max(path.stat().st_size for path in self._logs()) < MOST_LOG_BYTES
        times = [event.time for event in events]
        assert times == sorted(times)
        assert play_again(self.service.folder)[1] == []
        return acted


def test_every_honest_job_completes_once_in_a_hostile_hour(tmp_path):
    with new_cgroup() as made:
        cgroup = None if isinstance(made, str) else made
        hour = Hour(tmp_path, SEED, JOBS, cgroup=cgroup)
        hour.play(KILLS)
        left = [path for path in cgroup.iterdir() if path.is_dir()] if cgroup else []
    acted = hour.judge()
    print(json.dumps({"seed": SEED, "happened": hour.happened, "acted": acted, "health": vars(hour.answers)}))
    evil = sum(kind != "honest" for _, kind, _ in hour.jobs)
    assert hour.happened == {"kills": KILLS, "full": 1, "forward": 1, "back": 1, "hang": 1}
    assert not left, "no cgroup is left when the last run has ended"
    assert sum(acted.values()) >= 0.9 * evil and min(acted.values()) > 0, acted
    assert not hour.answers.wrong and hour.answers.longest < HEALTH_SECONDS, hour.answers
