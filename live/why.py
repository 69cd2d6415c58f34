"""Reasons why a job waits or has its GPUs: sentences about its state, the free GPUs and the last rounds.

Every sentence follows from the state of the service and its journal alone.  Sentences of the policy itself
come from the policy's method ``why`` if it has one (:class:`copter.problems.cluster.policy.Explains`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from copter.live.cluster import LiveCluster
from copter.live.events import Closed
from copter.live.jobs import LiveJob
from copter.live.policy_thread import PolicyFailedError
from copter.live.record import ServiceRecord
from copter.live.rounds import LiveRounds
from copter.live.views import job_view
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.rounds import can_run

_MOST_NAMES = 5
"""Number of jobs that a sentence names."""


async def why(record: ServiceRecord, rounds: LiveRounds, name: str) -> dict[str, Any]:
    """Return a job's name, status and position, and sentences about why it has this status.

    `position` is the number of the job among the queued jobs in the order of their submission, from 1; None
    for a job that is not queued, is held or waits for other jobs. `policy` has the sentences of the policy
    about its last round. They are empty while it decides.

    Raises
    ------
    RefusedError
        If there is no such job.
    """
    view = job_view(record, name)
    job = record.state.jobs.get(name)
    answer: dict[str, Any] = {"name": name, "status": view["status"], "position": None, "policy": []}
    if job is None:
        return answer | {"sentences": list(_without_state(view))}
    sentences = list(_sentences(record, rounds, job))
    if Closed in record.waiting_of(name):
        sentences.insert(0, "It was cancelled or has ended; this takes effect when the policy has decided.")
    if job.status == "queued":
        answer["position"] = _queue(record.state).index(name) + 1 if job.eligible else None
    try:
        answer["policy"] = await rounds.explain(name)
    except PolicyFailedError as error:  # it must not hide what the service knows
        sentences.append(f"The policy failed when it was asked why: {error}")
    return answer | {"sentences": sentences}


def would_run(record: ServiceRecord, rounds: LiveRounds, job: LiveJob) -> list[str]:
    """Return sentences about whether a job that is not submitted could start now."""
    state = record.state
    waits = _names([name for name in job.file.after if not record.is_over(name)])
    sentences = ["The service would accept it: this cluster can run it."]
    if waits:
        sentences.append(f"It would start after these jobs have completed: {waits}.")
    need, free = _fit(rounds.policy, state, job)
    sentences.append(need)
    if free:
        if scattered := _scattered(state, job, free):
            sentences.append(f"{scattered} So it would wait.")
        elif any(gpus >= job.least_gpus for gpus in free.values()):
            sentences.append("So many GPUs are free now; the policy decides which jobs get them.")
        else:
            sentences.append(
                "So many GPUs of one type are not free: it would wait, or take those of other jobs."
            )
    before = len(_queue(state))
    sentences.append(f"Before it there are {before} queued jobs, in the order of their submission.")
    return sentences


def _without_state(view: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences about a job that has ended, or that no policy has seen."""
    reason = view["reason"]
    if view["finished"] is None:
        since = "It was submitted while the policy was deciding"
        if reason:
            yield f"{since}; no policy considers it yet: {reason}."
        else:
            yield f"{since}; the next round is the first to consider it."
        return
    yield f"It is {view['status']}: {reason}." if reason else f"It is {view['status']}."


def _sentences(record: ServiceRecord, rounds: LiveRounds, job: LiveJob) -> Iterator[str]:
    now = record.now()
    if rounds.trouble:
        yield f"The policy failed, and all jobs keep their GPUs until it decides: {rounds.trouble}."
    if job.allocation is not None and job.place is not None:
        held = ", ".join(f"{gpus} on {job.allocation.type}-{node}" for node, gpus in job.place)
        yield f"It has had {job.allocation.gpus} GPUs for {now - job.since:.0f} s: {held}."
        if job.run is not None and not math.isnan(job.run.told):
            yield f"Its run {job.run.number} was told to stop {now - job.run.told:.0f} s ago, to move there."
    elif job.run is not None:
        yield f"It lost its GPUs {now - job.since:.0f} s ago, and its run {job.run.number} is stopping."
        yield from _loss(record, job)
    elif math.isnan(job.started):
        yield f"It was submitted {now - job.submitted:.0f} s ago and has had no GPUs yet."
    else:
        yield f"It lost its GPUs {now - job.since:.0f} s ago."
        yield from _loss(record, job)
    limit = job.file.time_limit_seconds
    if limit is not None:
        yield f"It has run for {job.used_seconds(now):.0f} s of its time limit of {limit:.0f} s."
    if job.retry_at > now:
        failed = f"Its last run failed or was lost ({job.failures + job.losses} in a row)"
        yield f"{failed}; the next one starts in {job.retry_at - now:.0f} s at the earliest."
    if job.hold is not None:
        held = f"It has been held for {now - job.hold.since:.0f} s by {job.hold.author!r}"
        yield f"{held}: no policy gives it GPUs before it is released (copter release {job.name})."
    if job.waits_for:
        jobs = record.state.jobs
        waits = _names([f"{name} ({jobs[name].status})" for name in job.file.after if name in job.waits_for])
        yield f"It starts after these jobs have completed: {waits}."
    if job.eligible and job.status == "queued":
        yield from _queued(record, rounds, job)


def _loss(record: ServiceRecord, job: LiveJob) -> Iterator[str]:
    """Yield what took a job's GPUs: a round or a node that went out of use.

    In a round, the policy gave the job nothing, or GPUs for which there were no nodes.
    """
    last = next((each for each in reversed(record.past.rounds) if job.name in each.places), None)
    if last is not None and last.places[job.name] is None and last.time >= job.since - 1e-6:
        instead = _names([name for name, place in last.places.items() if place is not None])
        others = f", in which the policy gave GPUs to {instead}" if instead else ""
        yield f"They were taken away in a round{others}."
    else:
        yield "Their node went out of use, or the round in which it lost them is not kept any more."


def _queued(record: ServiceRecord, rounds: LiveRounds, job: LiveJob) -> Iterator[str]:
    state, now = record.state, record.now()
    need, types = _fit(rounds.policy, state, job)
    yield need
    if not types:
        return
    if scattered := _scattered(state, job, types):
        yield scattered
    later = _names(
        [
            one.name
            for one in state.jobs.values()
            if one.submitted > job.submitted and one.allocation is not None and one.allocation.type in types
        ]
    )
    if later:
        yield f"Jobs that were submitted later and have GPUs that it could use: {later}."
    since = max(job.submitted if math.isnan(job.started) else job.since, job.eligible_since)
    policy, last = rounds.policy.name, record.past.rounds[-1] if record.past.rounds else None
    if last is not None and last.asked > since:
        yield f"The policy {policy!r} last decided {now - last.time:.0f} s ago, and the job got no GPUs."
        if job.name in rounds.unplaced:
            where = "free in one rack" if job.file.one_rack else "free together"
            yield f"The policy gave it GPUs, but the nodes did not have that number {where}."
    else:
        if job.eligible_since > job.submitted and job.eligible_since == since:
            yield f"It was released, or the last job that it waits for completed, {now - since:.0f} s ago."
        yield f"The policy {policy!r} has not decided since then."


def _fit(policy: Policy, state: LiveCluster, job: LiveJob) -> tuple[str, dict[str, int]]:
    """Return a sentence about the GPUs that a job needs, and the free ones of each type that can run it."""
    least = job.least_gpus
    types = [type for type in state.cluster.names if not job.file.types or type in job.file.types]
    if not types:
        return "The cluster has none of the types that it may use.", {}
    usable = {type: state.cluster.capacity[type] for type in types}
    given = state.given()
    need = f"It needs {'' if job.gpus is not None else 'at least '}{least} GPUs of one type"
    free = {type: usable[type] - given[type] for type in types}
    can = {type: gpus for type, gpus in free.items() if _can_run(policy, state.cluster, job, type)}
    if can:
        others = [type for type in types if type not in can and usable[type] >= least]
        shown = {type: gpus for type, gpus in free.items() if type not in others}
        never = f" The policy {policy.name!r} cannot run it on {', '.join(others)}." if others else ""
        return f"{need}; not given to any job: {_counts(shown)}.{never}", can
    gone = [f"{type}-{node} ({why})" for (type, node), why in state.unusable.items() if type in types]
    out = f" Nodes out of use: {', '.join(gone)}." if gone else ""
    if all(gpus < least for gpus in usable.values()):
        return f"{need}, but only {_counts(usable)} are in use, so it cannot start now.{out}", {}
    runs = f"and the policy {policy.name!r} cannot run it on the nodes in use ({_counts(usable)})"
    return f"{need}, {runs}, so it cannot start now.{out}", {}


def _scattered(state: LiveCluster, job: LiveJob, free: dict[str, int]) -> str:
    """Return that no rack has enough free GPUs for a job that must be in one rack, although a type has.

    The text is empty if the job may be anywhere, a rack has enough, or no type has enough.
    """
    if not job.file.one_rack or all(gpus < job.least_gpus for gpus in free.values()):
        return ""
    most = {type: state.most_in_a_rack(type) for type in free}
    if any(gpus >= job.least_gpus for gpus in most.values()):
        return ""
    return f"GPUs are free, but not in one rack: at most {_counts(most)} in a rack are not given to any job."


def _can_run(policy: Policy, cluster: Cluster, job: LiveJob, type: str) -> bool:
    """Return whether a policy could give a job GPUs of a type if no other job had any."""
    if cluster.capacity[type] < job.least_gpus:
        return False
    only = [one if one.name == type else replace(one, nodes=0) for one in cluster.types]
    return can_run(policy, job, Cluster(only))


def _queue(state: LiveCluster) -> list[str]:
    """Return the queued jobs that a policy may give GPUs, in the order of their submission."""
    return [job.name for job in state.jobs.values() if job.status == "queued" and job.eligible]


def _counts(gpus: dict[str, int]) -> str:
    return ", ".join(f"{count} {type}" for type, count in gpus.items())


def _names(names: list[str]) -> str:
    """Return the first names of a list, and how many more there are; empty for an empty list."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
