"""Reasons why a job of a partition waits: first Slurm's reason, then copter's reasons and the policy's."""

from __future__ import annotations

from collections.abc import Iterator

from copter.errors import CopterError
from copter.live.files import JobFileError
from copter.live.untrusted import MOST_SENTENCE, words
from copter.problems.cluster.policy import Explains
from copter.problems.cluster.rounds import can_run
from copter.slurm.act import actions
from copter.slurm.decide import Decider, Standing, standing
from copter.slurm.declared import declared
from copter.slurm.read import Mark, SlurmJob, Snapshot


def why(seen: Snapshot, key: str, decider: Decider) -> list[str]:
    """Return sentences about a job of a snapshot.

    The policy is asked once, as by a scheduler that has just started, and nothing is changed.

    Raises
    ------
    CopterError
        If the partition has no such job.
    """
    job = next((job for job in seen.jobs if job.key == key), None)
    if job is None:
        raise CopterError(f"job {key}: the partition has no such job, or it has ended")
    reason = "" if job.reason in ("", "None") else f", with the reason {job.reason}"
    now = standing(job, seen.time)
    sentences = [f"Slurm's state is {job.state}{reason}.", f"To copter: {now.value}.", *_more(job, now)]
    if job.gpus and now in (Standing.QUEUED, Standing.RUNNING):
        sentences += _decided(seen, job, decider)
    return sentences


def _more(job: SlurmJob, now: Standing) -> Iterator[str]:
    if now is Standing.HELD and job.mark is Mark.STARTED:
        yield "It was held after copter had released it: scontrol release starts it at once."
    if now is Standing.WAITING and job.dependency:
        yield f"It waits for {job.dependency}."
    if not job.gpus:
        yield "It requests no GPUs, so copter releases it at once."
        return
    try:
        file = declared(job)
    except JobFileError as error:
        yield f"Copter does not start it, because its comment is invalid: {words(str(error))}."
        return
    kind = f"{file.min_gpus} to {file.max_gpus or 'any number of'}" if file.elastic else f"{job.gpus}"
    yield f"It needs {kind} GPUs{f' of type {job.gpu_type}' if job.gpu_type else ''}, and is {file.kind}."


def _decided(seen: Snapshot, job: SlurmJob, decider: Decider) -> Iterator[str]:
    """Yield sentences about the free GPUs, and about what the policy would give a job now."""
    free = {node.host: node.gpus - seen.used[node.host] for node in seen.nodes if not node.down}
    down = [f"{node.host} ({node.down})" for node in seen.nodes if node.down]
    there = ", ".join(f"{gpus} of {host}" for host, gpus in free.items() if gpus > 0)
    yield f"Free GPUs: {there or 'none'}."
    if down:
        yield f"Nodes that get no jobs: {', '.join(down)}."
    decider.use(decider.look(seen)())
    assert decider.world is not None
    if job.key not in decider.world.jobs:
        yield "The policy does not see it, because no node of the partition can run it."
        return
    world = decider.world
    if not can_run(decider.policy, world.jobs[job.key], world.whole):
        yield f"The policy {decider.policy.name!r} cannot run it on the nodes of the partition."
        return
    target = world.target(job.key)
    given = ", ".join(f"{gpus} of {host}" for host, gpus in target)
    yield f"A policy that begins now would give it {given or 'no GPUs'}."
    if target and not any(one.job.key == job.key for one in actions(seen, world, {})):
        yield "Slurm has these GPUs for it already, or they are not free yet."
    if isinstance(decider.policy, Explains):
        yield from (words(str(one), MOST_SENTENCE) for one in decider.policy.why(job.key))
