"""Commands that bring Slurm's jobs into the state that the policy decided.

Two schedulers may do the same action without harm.  An action follows from Slurm's present state and the
decision alone, and Slurm refuses an update of a job that has been started in the meantime.  If the scheduler
is killed between two commands, the next pass does the remaining actions.  To make this possible, a job that
copter takes back is marked before it is held, and a released job is marked after its release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from copter.slurm.commands import call
from copter.slurm.decide import Standing, World, standing
from copter.slurm.declared import is_flexible
from copter.slurm.read import Mark, SlurmJob, Snapshot

_LEAST_RUN = 3.0
"""Least time between the start of a job and its next move, as a multiple of the time of its restart.

With it, a job makes progress even if two schedulers that do not know of each other decide differently.
"""


_REVOKED_SECONDS = 5
"""Seconds until a requeued job may start.

Slurm waits for two minutes unless a time is set.  A node refuses a job whose credential is not newer than the
end of the job's last run there, and the job fails.  So this must exceed the difference of machine clocks.
"""


LATE_SECONDS = 60.0
"""Seconds after which a released job that Slurm has not started is held again."""
_MARKED_SECONDS = 2.0
"""Seconds after the release of a job by which its scheduler has also marked it."""


@dataclass(frozen=True)
class Action:
    """Commands for one job, in the order of their calls; `text` describes their effect."""

    job: SlurmJob
    text: str
    commands: tuple[tuple[str, ...], ...]

    def run(self) -> None:
        """Call the commands; raise SlurmError at the first command that Slurm refuses."""
        for command in self.commands:
            call("scontrol", *command)


def actions(seen: Snapshot, world: World, released: Mapping[str, float]) -> Iterator[Action]:
    """Yield the actions that lead from a snapshot to the targets of a world.

    `released`: for each released job that Slurm has not started, the seconds for which it has waited.
    """
    free = Counter({node.host: 0 if node.down else node.gpus for node in seen.nodes})
    free.subtract(seen.used)
    down = {node.host for node in seen.nodes if node.down}
    queued = list[SlurmJob]()
    for job in seen.jobs:
        now = standing(job, seen.time)
        if now is Standing.STARTING and job.mark is not Mark.NONE:
            waited = released.get(job.key, 0.0)
            if waited > LATE_SECONDS or (waited > _MARKED_SECONDS and down & set(job.pinned)):
                yield _take_back(job)
                continue
            for host in job.pinned:
                free[host] -= job.gpus // len(job.pinned)
        elif now is Standing.RUNNING:
            yield from _running(job, seen, world, down)
        elif now is Standing.QUEUED:
            queued.append(job)
    for job in queued:
        if not job.gpus:
            yield Action(job, "needs no GPU and is released", _release(job))
            continue
        hosts = _shaped(job, world.target(job.key), free)
        if hosts and all(free[host] >= gpus for host, gpus in hosts):
            free.subtract(dict(hosts))
            yield _start(job, hosts)


def _running(job: SlurmJob, seen: Snapshot, world: World, down: set[str]) -> Iterator[Action]:
    """Yield the actions for a job that has its nodes."""
    if job.held and job.mark is Mark.PLACED:  # it was started while copter took it back
        yield Action(job, "is running", _release(job))
        return
    if job.mark is Mark.NONE and not job.held:
        yield Action(job, "is running", (_mark(job, Mark.STARTED),))
        return  # a move would race with the same action of another scheduler
    if job.key not in world.jobs or not is_flexible(job) or not job.requeues or job.held:
        return
    if seen.time < job.began + _LEAST_RUN * world.jobs[job.key].file.restart_seconds:
        return
    target = world.target(job.key)
    if set(target) == {pair for pair in job.hosts if pair[1]}:
        return
    if not target and down & {host for host, _ in job.hosts}:  # Slurm lets the job end on these nodes
        return
    has = _shown(job.hosts)
    text = f"gives up {has} for {_shown(target)}" if target else f"gives up {has}"
    yield Action(job, text, (_mark(job, Mark.PLACED), ("requeuehold", job.key)))


def _start(job: SlurmJob, hosts: tuple[tuple[str, int], ...]) -> Action:
    """Return the action that starts a queued job on nodes."""
    change = [f"JobId={job.key}", f"AdminComment={job.marked(Mark.PLACED)}"]
    names, each, shown = ",".join(host for host, _ in hosts), hosts[0][1], _shown(hosts)
    if job.restricted:
        change.append(f"NumNodes={len(hosts)}")
        shown = f"{_gpus(each * len(hosts))} of nodes that it permits"
    elif job.mark is Mark.PLACED or not job.pinned:  # else the user has chosen the nodes
        change += [f"NodeList={names}", f"NumNodes={len(hosts)}"]
    if is_flexible(job):
        change += _size(job, len(hosts), each)
    if job.restarts:
        change.append(f"StartTime=now+{_REVOKED_SECONDS}")
    return Action(job, f"is released for {shown}", (("update", *change), *_release(job)))


def _size(job: SlurmJob, nodes: int, each: int) -> list[str]:
    """Return the changes that give a job GPUs on each of its nodes, a task for each `per_task` GPUs."""
    type = f":{job.gpu_type}" if job.gpu_type else ""  # Slurm refuses a type for a request without one
    if job.per_node:
        request = [f"TresPerNode=gres:gpu{type}:{each}"]
    elif job.per_job:
        request = [f"TresPerJob=gres:gpu{type}:{each * nodes}"]
    else:
        request = []
    tasks, cpus = nodes * each // max(job.per_task, 1), job.cpus_per_task
    per_node = max(tasks // nodes, 1) * cpus
    return [*request, f"NumTasks={tasks}", f"NumCPUs={tasks * cpus}", f"MinCPUsNode={per_node}"]


def _shaped(
    job: SlurmJob, target: tuple[tuple[str, int], ...], free: Counter[str]
) -> tuple[tuple[str, int], ...]:
    """Return the nodes for a job, with the same number of GPUs on each, as Slurm requires; empty if none fit.

    A rigid job keeps the number of nodes that its user requested.
    """
    if not target:
        return ()
    if is_flexible(job):
        return target if len({gpus for _, gpus in target}) == 1 else ()
    each = job.gpus // job.node_count
    if each * job.node_count != job.gpus:
        return ()
    if len(target) == job.node_count and all(gpus == each for _, gpus in target):
        return target
    first = [host for host, _ in target]
    hosts = [*first, *sorted((host for host in free if host not in first), key=lambda host: free[host])]
    fits = [(host, each) for host in hosts if free[host] >= each][: job.node_count]
    return tuple(fits) if len(fits) == job.node_count else ()


def _take_back(job: SlurmJob) -> Action:
    """Return the action that holds a released job again, because Slurm does not start it."""
    return Action(
        job, f"is not started ({job.reason}) and waits again", (_mark(job, Mark.PLACED), ("uhold", job.key))
    )


def _release(job: SlurmJob) -> tuple[tuple[str, ...], ...]:
    return (("release", job.key), _mark(job, Mark.STARTED))


def _mark(job: SlurmJob, mark: Mark) -> tuple[str, ...]:
    return ("update", f"JobId={job.key}", f"AdminComment={job.marked(mark)}")


def _shown(hosts: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{_gpus(gpus)} of {host}" for host, gpus in hosts)


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count != 1 else ''}"
