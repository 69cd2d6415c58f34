"""Runs as Slurm jobs: one job for each run, or one for each number of GPUs on a node if these differ.

A Slurm job is never changed: to resize a run, the service stops it and starts another run.  The backend finds
Slurm jobs by name, so it finds them again after it was killed or missed the answer of sbatch; it does not
touch other jobs.  In a job, one step starts an agent on every node.  The text that Slurm reads contains
nothing from the user: command and environment are in ``run.json``.

A Slurm job must have the same number of GPUs on all of its nodes.  Otherwise Slurm distributes the tasks, one
for each GPU, as it likes, whatever layout the job requests.  (Components of a heterogeneous job may differ,
but they wait for backfilling.)

Several threads may call `start`, because it changes nothing in the backend.

The backend requests the output of commands field by field.  Slurm's JSON changes with every version and
cannot be filtered.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from copter.live.backends import agent
from copter.live.backends.base import (
    CPUS,
    MEMORY,
    BackendError,
    Missing,
    Run,
    RunRefusedError,
    RunState,
    begun,
    claim,
    claim_to_kill,
    ended,
    environment_of,
    has_begun,
    isolated,
    merged,
    passed_on,
)
from copter.live.untrusted import UntrustedFileError, read_bytes, size_of, words

COMMAND_SECONDS = 10.0
"""Seconds to wait for the answer of a Slurm command."""
_LAST_LINE_BYTES = 4096
_WORKING = frozenset(
    ("allocated", "blocked", "completing", "idle", "mixed", "planned", "reserved")
    + ("powered_down", "powering_down", "powering_up")  # Slurm switches them on for a job
)
_NODE_MARKS = "*~#!%$@^-+"
_ENDED = {
    "BOOT_FAIL": "a node did not boot",
    "CANCELLED": "its Slurm job was cancelled",
    "COMPLETED": "its Slurm job ended, and no agent reported how",
    "DEADLINE": "its Slurm job was past its deadline",
    "FAILED": "its Slurm job failed, and no agent reported why",
    "NODE_FAIL": "a node failed",
    "OUT_OF_MEMORY": "it needed more memory than its Slurm job has",
    "PREEMPTED": "Slurm gave its nodes to another job",
    "REVOKED": "its Slurm job was revoked",
    "TIMEOUT": "its Slurm job was at its time limit",
}
_BY_SLURM = frozenset(("BOOT_FAIL", "CANCELLED", "NODE_FAIL", "PREEMPTED", "REVOKED"))
"""States of Slurm jobs that Slurm or an administrator ended, not their own processes."""
_NEVER = re.compile(
    r"AccountNotAllowed|BadConstraints|DependencyNeverSatisfied|InvalidAccount|InvalidQOS|JobHeld(Admin|User)"
    r"|MaxMemPerLimit|PartitionNodeLimit|PartitionTimeLimit|QOSNotAllowed|Job's .*"
    r"|JobHoldMaxRequeue|ReservationDeleted"
    r"|launch failed requeued held|job requeued in held state"
    r"|(Assoc|QOS)(Max\w*Per(Job|Node)\w*|Min\w+)"
)
"""Reasons for which a Slurm job will never start: limits of a single job, and holds.

Limits that several jobs share, such as QOSGrpGRES and QOSMaxGRESPerUser, are not included.
"""
_REFUSED = ("invalid account", "invalid partition", "invalid qos") + (
    "time limit",
    "--time",
    "group not permitted",
    "memory specification",
    "cpu count",
)
# An srun that gets SIGTERM waits for its step for Slurm's KillWait, while the job holds its GPUs.
_BATCH = """\
#!/bin/sh
trap 'kill -KILL 0' TERM
srun {options} /bin/sh -c {node} &
wait
"""
_NODE = """\
case "$SLURMD_NODENAME" in
{cases}
esac
export COPTER_DEVICES="$CUDA_VISIBLE_DEVICES"
exec {agent} "$node"
"""


@dataclass(frozen=True)
class _Job:
    """A Slurm job, from a line of squeue."""

    id: str
    state: str
    reason: str

    @property
    def over(self) -> bool:
        return self.state in _ENDED

    @property
    def never(self) -> bool:
        """True if the Slurm job waits for a condition that will never hold."""
        return self.state == "PENDING" and _NEVER.fullmatch(self.reason) is not None


_Jobs: TypeAlias = Mapping[tuple[int, str], Sequence[_Job]]
"""Slurm jobs by the number of their user, and their name."""


class SlurmBackend:
    """Backend that runs jobs as Slurm jobs.

    Parameters
    ----------
    cluster : str
        Id of the service's cluster, part of the names of its Slurm jobs.
    hosts : sequence of str
        Names of the cluster's nodes in Slurm.
    gres : mapping of str to str
        Slurm's name of each GPU type.  The default of a type is ``gpu:TYPE``; use ``gpu`` if Slurm knows no
        types.
    cpus_per_gpu : int
        Processors of a Slurm job for each of its GPUs, unless the job gives `cpus_per_gpu`.
    memory_per_gpu : int
        Megabytes of a Slurm job for each of its GPUs, unless the job gives `memory_gb_per_gpu`.  Where Slurm
        counts memory, a job without a figure would get all memory of a node.
    begin_seconds : float
        A Slurm job that is running, but in which no agent has begun after this time, counts as lost.
    checkpoint_seconds : int
        Time before the time limit at which a run gets the signal to write a checkpoint and end; at most half
        of the limit.
    options : mapping of str to str
        Default ``account``, ``partition``, ``qos`` and ``time`` of runs that do not give them.
    python : str
        Python interpreter on the nodes, version 3.9 or later.
    environment : sequence of str
        Names of variables of the service that jobs get in addition to :data:`.base.PASSED_ON`.
    """

    name = "slurm"
    picks_devices = True
    job_options: tuple[str, ...] = ("account", "partition", "qos", "time")
    limits: tuple[str, ...] = (MEMORY, CPUS)
    notice = ""

    def __init__(
        self,
        cluster: str,
        hosts: Sequence[str],
        *,
        gres: Mapping[str, str] | None = None,
        cpus_per_gpu: int = 1,
        memory_per_gpu: int = 4000,
        begin_seconds: float = 120.0,
        checkpoint_seconds: int = 60,
        options: Mapping[str, str] | None = None,
        python: str = sys.executable,
        environment: Sequence[str] = (),
    ) -> None:
        self._passed = (*passed_on(environment), "SLURM_CONF")
        self._cluster, self._hosts, self._gres = cluster, tuple(hosts), dict(gres or {})
        self._cpus, self._memory, self._before_limit = cpus_per_gpu, memory_per_gpu, checkpoint_seconds
        self._options, self._python = dict(options or {}), python
        self._begin_seconds = begin_seconds
        self._missing = Missing()
        self._unbegun: dict[tuple[str, int], float] = {}

    def down(self) -> Mapping[str, str]:
        """Return the nodes that take no jobs according to sinfo; a draining node continues its jobs."""
        lines = self._ask("sinfo", "--Node", "--all", "--noheader", "--format=%N|%T|%E").splitlines()
        nodes = {}
        for line in lines:
            host, state, reason = line.split("|", 2)
            nodes[host] = (state.rstrip(_NODE_MARKS), reason)
        down = {}
        for host in self._hosts:
            state, reason = nodes.get(host, ("", ""))
            if not state:
                down[host] = "Slurm has no node of this name"
            elif state not in _WORKING:
                down[host] = f"Slurm state {state}" + (f": {reason}" if reason not in ("", "none") else "")
        return down

    def start(self, run: Run) -> None:
        """Submit the Slurm jobs of a run.

        Raises
        ------
        RunRefusedError
            If Slurm refuses the account, partition, quality of service, time or limits of the run.
        BackendError
            If Slurm does not answer, or refuses the nodes.
        """
        again = (run.folder / "agent.py").exists()
        shutil.copyfile(agent.__file__, run.folder / "agent.py")
        for part in range(len(_parts(run))):
            if again and self._living(run, part):  # it was submitted before, and the answer was lost
                continue
            try:
                self._ask("sbatch", *self._submission(run, part), text=self._script(run, part))
            except BackendError as error:
                words = str(error).lower()
                if any(word in words for word in _REFUSED):
                    self.kill(run)  # parts that Slurm accepted
                    raise RunRefusedError(f"run {run.id}: {error}") from error
                if not self._living(run, part):
                    raise BackendError(f"run {run.id}: {error}") from error

    def stop(self, run: Run) -> None:
        """Send SIGURG to the steps, or cancel a Slurm job in which no agent has begun.

        Unless Slurm tracks processes by cgroups, it signals all of them.  A process would then get a second
        SIGTERM from its agent, which kills Python.  Only agents react to SIGURG.
        """
        for node in range(len(run.hosts)):
            claim(run.folder, node)
        jobs = self._living(run, *range(len(_parts(run))))
        if jobs and has_begun(run):
            self._cancel("--signal=URG", *jobs)
        elif jobs:
            self._cancel(*jobs)

    def kill(self, run: Run) -> None:
        """Send SIGKILL to the steps, and cancel the Slurm jobs.

        Without the signal, cancelling sends SIGTERM first, and SIGKILL only after KillWait.  Each call of
        scancel gets one step, because scancel does not handle several steps correctly.
        """
        for node in range(len(run.hosts)):
            claim_to_kill(run.folder, node)
        for job in self._living(run, *range(len(_parts(run)))):
            self._cancel("--signal=KILL", f"{job}.0")
            self._cancel(job)

    def states(self, runs: Sequence[Run]) -> Mapping[str, RunState]:
        """Return the states that follow from the folders or, where these are not sufficient, from squeue."""
        jobs = cache(self._jobs)
        return isolated(runs, lambda run: self._state(run, jobs), self.kill)

    def close(self) -> None:
        """Do nothing: the Slurm jobs continue."""

    def _state(self, run: Run, jobs: Callable[[], _Jobs]) -> RunState:
        known = [ended(run.folder, node) for node in range(len(run.hosts))]
        state = merged([each or RunState() for each in known])
        if None not in known:
            return state
        if state.outcome is None:
            left = [
                part for part, (_, nodes) in enumerate(_parts(run)) if any(known[n] is None for n in nodes)
            ]
            of_parts = {part: jobs().get(self._key(run, part), ()) for part in left}
            never = [job.reason for part in left for job in of_parts[part] if job.never]
            over = [part for part in left if all(job.over for job in of_parts[part])]
            if not over:
                self._missing.found(run)
            if never:
                state = RunState("failed", f"Slurm will never start it: {never[0]}")
            elif over and not self._missing.may_be_late(run):
                state = self._lost(run, over[0], of_parts[over[0]])
            elif self._never_begins(run, known, of_parts):
                why = f"no agent began within {self._begin_seconds:g} s of the start of its Slurm job"
                state = RunState("lost", why)
            else:
                return RunState(waiting=not has_begun(run))
        self.kill(run)  # end the remaining parts
        return state

    def _never_begins(
        self, run: Run, known: Sequence[RunState | None], jobs: Mapping[int, Sequence[_Job]]
    ) -> bool:
        """Return whether a Slurm job has been running for too long without an agent on one of its nodes.

        A claim that was made in order to kill the run does not count as an agent, because killing may take
        several attempts.
        """
        for part, (_, nodes) in enumerate(_parts(run)):
            running = any(job.state == "RUNNING" for job in jobs.get(part, ()))
            if not running or all(known[node] or begun(run.folder, node) for node in nodes):
                self._unbegun.pop((run.id, part), None)
                continue
            since = self._unbegun.setdefault((run.id, part), time.monotonic())
            if time.monotonic() - since > self._begin_seconds:
                return True
        return False

    def _lost(self, run: Run, part: int, jobs: Sequence[_Job]) -> RunState:
        """Return the state of a run with a Slurm job that ended without a report of an agent."""
        state = jobs[-1].state if jobs else self._accounted(*self._key(run, part))
        words = _ENDED.get(state, "Slurm has no record of its job any more")
        said = _last_line(run.folder / f"slurm-{part}.txt") if state in ("COMPLETED", "FAILED") else ""
        by_itself = has_begun(run) and state not in _BY_SLURM
        return RunState("lost", f"{words}: {said}" if said else words, by_itself=by_itself)

    def _accounted(self, user: int, name: str) -> str:
        """Return the state of a job from the accounting, if any, after slurmctld has dropped the job."""
        command = ("sacct", "--allocations", "--noheader", "--parsable2", "--format=State")
        try:
            said = self._ask(*command, "--starttime=now-30days", f"--uid={user}", f"--name={name}")
        except BackendError:  # a cluster without accounting
            return ""
        return said.splitlines()[-1].split()[0] if said.strip() else ""  # "CANCELLED by 1000"

    def _living(self, run: Run, *parts: int) -> list[str]:
        """Return the ids of the Slurm jobs of these parts of a run that have not ended."""
        jobs = self._jobs()
        return [job.id for part in parts for job in jobs.get(self._key(run, part), ()) if not job.over]

    def _jobs(self) -> _Jobs:
        """Return the Slurm jobs of this user by user and name; those of all users if this user is root.

        They include Slurm jobs that ended some minutes ago.  Each line begins with a random mark, because the
        name of another user's job may contain a line that looks like one of squeue.
        """
        mark = secrets.token_hex(8)
        jobs: dict[tuple[int, str], list[_Job]] = {}
        whose = () if os.geteuid() == 0 else ("--me",)
        command = ("squeue", *whose, "--all", "--states=all", "--noheader", "--sort=i")
        for line in self._ask(*command, f"--format={mark}|%i|%T|%U|%r|%j").split("\n"):
            if line.startswith(mark):
                _, id, state, user, reason, name = line.split("|", 5)
                jobs.setdefault((int(user), name), []).append(_Job(id, state, reason))
        return jobs

    def _name(self, run: Run, part: int) -> str:
        return f"copter-{self._cluster}-{run.id}" + (f"+{part}" if part else "")

    def _key(self, run: Run, part: int) -> tuple[int, str]:
        """Return user and name of the Slurm job of a part."""
        return os.geteuid(), self._name(run, part)

    def _submission(self, run: Run, part: int) -> list[str]:
        """Return the options of sbatch for a part of a run."""
        count, nodes = _parts(run)[part]
        asked = {name: run.options.get(name) or self._options.get(name) for name in self.job_options}
        return [
            "--parsable",
            f"--job-name={self._name(run, part)}",
            f"--chdir={run.folder}",
            f"--output=slurm-{part}.txt",
            "--open-mode=append",
            "--no-requeue",
            "--export=ALL",
            f"--signal=URG@{_notice(asked['time'], self._before_limit)}",
            f"--nodes={len(nodes)}",
            f"--nodelist={','.join(run.hosts[node] for node in nodes)}",
            "--ntasks-per-node=1",
            f"--gres={self._gres.get(run.type, f'gpu:{run.type}')}:{count}",
            f"--cpus-per-task={self._cpus_of(run) * count}",
            f"--mem={self._memory_of(run) * count}",
            *(f"--{name}={value}" for name, value in asked.items() if value),
        ]

    def _script(self, run: Run, part: int) -> str:
        """Return the script of a Slurm job: one step that starts an agent on every node."""
        count, nodes = _parts(run)[part]
        options = (f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--ntasks-per-node=1") + (
            f"--cpus-per-task={self._cpus_of(run) * count}",
            "--kill-on-bad-exit=0",  # processes that are stopped end with an exit code other than 0
            "--wait=0",
            "--mpi=none",
        )
        agents = (self._python, "-I", "-S", str(run.folder / "agent.py"), str(run.folder))
        cases = "\n".join(f"{shlex.quote(run.hosts[node])}) node={node} ;;" for node in nodes)
        node = _NODE.format(cases=cases, agent=shlex.join(agents))
        return _BATCH.format(options=shlex.join(options), node=shlex.quote(node))

    def _cpus_of(self, run: Run) -> int:
        """Return the processors for each GPU of a run."""
        return int(run.limits.get(CPUS, self._cpus))

    def _memory_of(self, run: Run) -> int:
        """Return the megabytes, Slurm's of 2**20 bytes, for each GPU of a run."""
        return math.ceil(run.limits[MEMORY] * 1e9 / 2**20) if MEMORY in run.limits else self._memory

    def _cancel(self, *arguments: str) -> None:
        """Call scancel; ignore its error about a job that has just ended."""
        done = self._call("scancel", *arguments)
        if "Unable to contact" in done.stderr:
            raise BackendError(f"scancel: {' '.join(done.stderr.split())}")

    def _ask(self, *command: str, text: str = "") -> str:
        """Return the output of a command that reads a text."""
        done = self._call(*command, text=text)
        if done.returncode:
            words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise BackendError(f"{command[0]}: {words}")
        return done.stdout

    def _call(self, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        # Other variables, such as SBATCH_PARTITION or those of the job in which the service runs, are left
        # out.
        try:
            return subprocess.run(
                command,
                input=text,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_SECONDS,
                env=environment_of(self._passed),
            )
        except subprocess.TimeoutExpired as error:
            raise BackendError(f"{command[0]} did not answer within {COMMAND_SECONDS:g} s") from error
        except OSError as error:
            raise BackendError(f"{command[0]} cannot be called: {error}") from error


def _parts(run: Run) -> list[tuple[int, list[int]]]:
    """Return the nodes of each Slurm job of a run, with the number of GPUs on each of them."""
    parts: dict[int, list[int]] = {}
    for node, count in enumerate(run.gpus):
        parts.setdefault(count, []).append(node)
    return list(parts.items())


def _notice(limit: str | None, wanted: int) -> int:
    """Return how many seconds before its limit a run gets the signal; at most half of a known limit."""
    seconds = None if limit is None else _seconds(limit)
    return wanted if seconds is None else max(1, min(wanted, seconds // 2))


def _seconds(limit: str) -> int | None:
    """Return the seconds of sbatch's time limit; None if it is unlimited or has another form.

    The forms are MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM and D-HH:MM:SS.
    """
    form = re.fullmatch(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})", limit.strip())
    if form is None:
        return None
    parts = [int(part) for part in form["parts"].split(":")]
    if form["days"] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = ((0, *parts, 0), (0, *parts), tuple(parts))[len(parts) - 1][:3]
    return ((int(form["days"] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds or None


def _last_line(path: Path) -> str:
    try:
        begin = max((size_of(path) or 0) - _LAST_LINE_BYTES, 0)
        text = read_bytes(path, _LAST_LINE_BYTES, begin=begin).decode(errors="replace")
    except (FileNotFoundError, UntrustedFileError):
        return ""
    lines = [words(line) for line in text.split("\n")]
    return next((line for line in reversed(lines) if line.strip()), "")
