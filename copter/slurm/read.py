"""Jobs and nodes of Slurm, as `squeue` and `scontrol` report them.

Jobs are read from ``squeue --json`` (Slurm 21.08 and later), because users may write any text in names and
comments.  In later versions, some numbers are in objects and states are in lists; both forms are read.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from copter.slurm.commands import SlurmError, call

_OVER = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED")
    + ("REVOKED", "TIMEOUT")
)
_WORKING = frozenset(("ALLOCATED", "IDLE", "MIXED"))
_STOPPED = frozenset(
    ("DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVALID_REG", "MAINT", "NOT_RESPONDING", "RESERVED")
    + ("REBOOT", "REBOOT_ISSUED")
)
"""Flags of a node that gets no new jobs."""
_MARK = re.compile(r" ?\[copter: (\w+)\]")
_RANGES = re.compile(r"\[([^\]]*)\]")
_MOST_TASKS = 1000
"""Largest number of pending tasks that are read of an array."""


class Mark(Enum):
    """Mark of copter in the `AdminComment` of a job.

    A job that is held and marked `STARTED` was held by a user after copter had released it.
    """

    NONE = ""
    PLACED = "placed"
    """Copter has chosen the nodes or the size of the job, and the job is held or about to be held."""
    STARTED = "started"
    """The job was released."""


@dataclass(frozen=True)
class SlurmJob:
    """A job, or a task of an array.

    Attributes
    ----------
    key : str
        Number of the job, or ``NUMBER_TASK`` for a task of an array; `scontrol` accepts both.
    state : str
        State of the job in Slurm; ``COMPLETING`` while its processes end, even if it was requeued.
    reason : str
        Slurm's reason why the job is pending.
    held : bool
        True if the priority of the job is 0: Slurm does not start it, or would not start it again.
    folder : str
        Working directory of the job.
    admin_comment : str
        `AdminComment` of the job without the mark.
    per_node, per_task, per_job : int
        Requested GPUs, by the form of the request; 0 for the other two forms.
    gpu_type : str
        Requested type of GPU; empty for any type.
    hosts : tuple of (str, int)
        Nodes of the job, with the GPUs that it has on each of them.
    pinned : tuple of str
        Nodes on which the job must run.
    restricted : bool
        True if the job excludes nodes or needs features of nodes, so that Slurm chooses its nodes.
    node_count, tasks, cpus_per_task : int
        Requested nodes, tasks, and processors for each task.
    submitted, eligible, began : float
        Times in seconds since the epoch; 0 if unknown.
    limit : float or None
        Time limit in seconds; None without a limit.
    requeues : bool
        True if the job may be requeued.
    """

    key: str
    name: str
    user: str
    account: str
    partition: str
    state: str
    reason: str
    held: bool
    comment: str
    folder: str
    admin_comment: str
    mark: Mark
    per_node: int
    per_task: int
    per_job: int
    gpu_type: str
    hosts: tuple[tuple[str, int], ...]
    pinned: tuple[str, ...]
    restricted: bool
    node_count: int
    tasks: int
    cpus_per_task: int
    submitted: float
    eligible: float
    began: float
    limit: float | None
    dependency: str
    nice: int
    restarts: int
    requeues: bool

    @property
    def gpus(self) -> int:
        """Total number of requested GPUs."""
        return self.per_job or self.per_node * self.node_count or self.per_task * self.tasks

    def marked(self, mark: Mark) -> str:
        """Return the `AdminComment` of the job with another mark."""
        return f"{self.admin_comment} [copter: {mark.value}]".lstrip()


@dataclass(frozen=True)
class SlurmNode:
    """A node with GPUs; `down` is the reason why it gets no new jobs, empty if it may get jobs."""

    host: str
    type: str
    gpus: int
    down: str


@dataclass(frozen=True)
class Snapshot:
    """A partition at a time, in seconds since the epoch.

    Attributes
    ----------
    jobs : tuple of SlurmJob
        Jobs of the partition that have not ended, in the order of their submission.
    nodes : tuple of SlurmNode
    others : mapping of str to int
        Number of GPUs that jobs of other partitions have on each host.
    """

    time: float
    jobs: tuple[SlurmJob, ...]
    nodes: tuple[SlurmNode, ...]
    others: Mapping[str, int]

    @property
    def used(self) -> Counter[str]:
        """Number of GPUs that jobs have on each host."""
        used = Counter(self.others)
        for job in self.jobs:
            for host, gpus in job.hosts:
                used[host] += gpus
        return used


def read(partition: str) -> Snapshot:
    """Return the present jobs and nodes of a partition.

    Raises
    ------
    SlurmError
        If Slurm does not answer, or the partition has no node with GPUs.
    """
    nodes = tuple(nodes_in(call("scontrol", "show", "nodes", "--oneliner"), partition))
    if not nodes:
        raise SlurmError(f"partition {partition!r}: there is no such partition, or it has no node with GPUs")
    jobs, others = [], Counter[str]()
    for job in jobs_in(json.loads(call("squeue", "--json"))):
        if job.partition == partition:
            jobs.append(job)
        else:
            others.update(dict(job.hosts))
    jobs.sort(key=lambda job: job.submitted)
    return Snapshot(time.time(), tuple(jobs), nodes, others)


def nodes_in(text: str, partition: str) -> Iterator[SlurmNode]:
    """Yield the nodes of a partition that have GPUs, from the lines of ``scontrol show nodes``."""
    for line in text.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.partition(" Reason=")[0].split())
        type, gpus = _gpus(fields.get("Gres", ""))
        if not gpus or partition not in fields.get("Partitions", "").split(","):
            continue
        state = fields["State"].rstrip("*~#!%$@^-").split("+")
        marks = {"NOT_RESPONDING"} if "*" in fields["State"] else set()
        works = state[0] in _WORKING and not _STOPPED & ({*state[1:]} | marks)
        why = line.partition(" Reason=")[2].partition(" [")[0].strip()
        down = "" if works else f"{fields['State'].lower()}{f': {why}' if why else ''}"
        yield SlurmNode(fields["NodeName"], type, gpus, down)


def jobs_in(said: Mapping[str, Any]) -> Iterator[SlurmJob]:
    """Yield the jobs in the answer of ``squeue --json`` that have not ended, and each task of an array."""
    for fields in said["jobs"]:
        states = _words(fields["job_state"])
        state = "COMPLETING" if "COMPLETING" in states else states[0]
        if state in _OVER:
            continue
        for key in _keys(fields):
            yield _job(fields, key, state)


def _job(fields: Mapping[str, Any], key: str, state: str) -> SlurmJob:
    mark = _MARK.search(fields["admin_comment"])
    requests = [_gpus(fields[name]) for name in ("tres_per_node", "tres_per_task", "tres_per_job")]
    minutes = _number(fields["time_limit"])
    found = SlurmJob(
        key=key,
        name=fields["name"],
        user=fields["user_name"],
        account=fields["account"],
        partition=fields["partition"],
        state=state,
        reason=fields["state_reason"],
        held=not _number(fields["priority"]),
        comment=fields["comment"],
        folder=fields["current_working_directory"],
        admin_comment=_MARK.sub("", fields["admin_comment"]),
        mark=Mark.NONE if mark is None else Mark(mark[1]),
        per_node=requests[0][1],
        per_task=requests[1][1],
        per_job=requests[2][1],
        gpu_type=next((type for type, _ in requests if type), ""),
        hosts=(),
        pinned=tuple(expanded(fields["required_nodes"])),
        restricted=bool(fields["excluded_nodes"] or fields["features"]),
        node_count=int(_number(fields["node_count"]) or 1),
        tasks=int(_number(fields["tasks"]) or 1),
        cpus_per_task=int(_number(fields["cpus_per_task"]) or 1),
        submitted=_number(fields["submit_time"]) or 0.0,
        eligible=_number(fields["eligible_time"]) or 0.0,
        began=_number(fields["start_time"]) or 0.0,
        limit=None if minutes is None else 60.0 * minutes,
        dependency=fields["dependency"],
        nice=int(_number(fields["nice"]) or 0),
        restarts=int(_number(fields["restart_cnt"]) or 0),
        requeues=bool(fields["requeue"]),
    )
    return found if state == "PENDING" else replace(found, hosts=_hosts(fields, found))


def _hosts(fields: Mapping[str, Any], job: SlurmJob) -> tuple[tuple[str, int], ...]:
    """Return the nodes of a job with the GPUs that it has on each of them.

    After a restart of a node, Slurm may not know these numbers; then they follow from the request of the job.
    """
    hosts = list(expanded(fields["nodes"]))
    counts = [_gpus(one)[1] for one in fields["gres_detail"]]
    if not counts and job.state == "RUNNING":
        counts = [job.gpus // len(hosts)] * len(hosts)
    return tuple(zip(hosts, counts, strict=False))


def _keys(fields: Mapping[str, Any]) -> list[str]:
    """Return the key of a job, or those of the pending tasks of an array."""
    array, task = _number(fields["array_job_id"]), _number(fields["array_task_id"])
    tasks = fields["array_task_string"].partition("%")[0]
    if not array:
        return [str(fields["job_id"])]
    if task is not None:
        return [f"{array:.0f}_{task:.0f}"]
    found = list[str]()
    for part in tasks.split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        found += (
            f"{array:.0f}_{one}"
            for one in range(int(first), int(last or first) + 1, int(step or 1))
            if len(found) < _MOST_TASKS
        )
    return found[:_MOST_TASKS]


def expanded(hosts: str) -> Iterator[str]:
    """Yield the names in a list of hosts such as ``a[1-3,7],b2``."""
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", hosts):
        ranges = _RANGES.search(part)
        if ranges is None:
            yield part
            continue
        before, after = part[: ranges.start()], part[ranges.end() :]
        for one in ranges[1].split(","):
            first, _, last = one.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield from expanded(f"{before}{number:0{len(first)}d}{after}")


def _gpus(request: str) -> tuple[str, int]:
    """Return the type and the number of the GPUs in a list of resources such as ``gres:gpu:a100:2``."""
    type, count = "", 0
    for one in re.sub(r"\([^)]*\)", "", request or "").split(","):
        words = one.replace("/", ":").replace("=", ":").removeprefix("gres:").split(":")
        if words[0] != "gpu":
            continue
        number = words[-1] if len(words) > 1 and words[-1].isdecimal() else ""
        count += int(number or 1)
        type = ":".join(words[1 : len(words) - bool(number)]) or type
    return type, count


def _number(value: Any) -> float | None:
    """Return a number of Slurm's JSON; None if it is not set or infinite."""
    if isinstance(value, Mapping):
        return None if value.get("infinite") or not value.get("set", True) else float(value["number"])
    return None if value is None else float(value)


def _words(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
