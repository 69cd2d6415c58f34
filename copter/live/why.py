"""Reasons why a job waits or has its GPUs: sentences about its state, the free GPUs and the last rounds.

Every sentence follows from the state of the service and its journal alone, except for the sentence about the
start of a queued job, which is an estimate (:mod:`.forecast`).  Sentences of the policy itself come from the
policy's method ``why`` if it has this method (:class:`copter.problems.cluster.policy.Explains`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from copter.live.admission import known_job
from copter.live.cluster import LiveCluster
from copter.live.forecast import PLAY_SECONDS, Forecast
from copter.live.jobs import LiveJob
from copter.live.policy_thread import PolicyFailedError
from copter.live.rounds import LiveRounds
from copter.live.service import Service
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.rounds import can_run

_MOST_NAMES = 5
"""Number of jobs that a sentence names."""
_SOON_SECONDS = 0.5
"""A job that starts within this number of seconds starts now in the sentences."""


async def why(service: Service, name: str, *, seconds: float = 0.0) -> dict[str, Any]:
    """Return a job's name, status and position, and sentences about why it has this status.

    `position` is the number of the job among the queued jobs in the order of their submission, from 1; None
    for a job that is not queued, or waits for other jobs. `starts` is the estimated time at which a queued
    job starts, in seconds since the service first began; None for other jobs, or if it is unknown. `policy`
    has the sentences of the policy about its last round; empty while the policy decides.

    `seconds` is the longest wait for an estimate.

    Raises
    ------
    RefusedError
        If there is no such job.
    """
    record, rounds = service.record, service.rounds
    job, forecast = known_job(record, name), None
    if job.status == "queued":
        forecast = await service.forecasts.about(name, seconds)  # first, because the job may change meanwhile
        job = known_job(record, name)
    sentences, policy = list(_sentences(service, job)), list[str]()
    answer: dict[str, Any] = {"name": name, "status": job.status, "position": None, "starts": None}
    if job.status == "queued":
        answer["starts"] = None if forecast is None else forecast.starts.get(name)
        queue = [one for one in record.state.jobs.values() if one.status == "queued" and one.eligible]
        answer["position"] = queue.index(job) + 1 if job.eligible else None
        sentences.insert(0, _start(forecast, name, rounds.policy_name, record.now()))
    if job.closed is None:
        try:
            policy = await rounds.explain(name)
        except PolicyFailedError as error:  # the failure must not hide what the service knows
            sentences.append(f"The policy failed when it was asked why: {error}")
    return answer | {"sentences": sentences, "policy": policy}


async def would_run(service: Service, job: LiveJob) -> list[str]:
    """Return sentences about whether a job that is not submitted could start now, and when it would start."""
    waits = _names(sorted(job.waits_for))
    sentences = ["The service would accept it: this cluster can run it."]
    if waits:
        sentences.append(f"It would start after these jobs have completed: {waits}.")
    sentences.append(_fit(service.rounds.policy, service.record.state, job)[0])
    forecast = await service.forecasts.with_new(job)
    sentences.append(_start(forecast, job.name, service.rounds.policy_name, service.record.now()))
    return sentences


def _start(forecast: Forecast | None, name: str, policy: str, now: float) -> str:
    """Return a sentence about the estimated start of a job."""
    if forecast is None:
        return "Its start is being estimated."
    played, starts = f"played ahead with the policy {policy!r}", forecast.starts.get(name)
    if starts is not None:
        when = f"in about {_about(starts - now)}" if starts > now + _SOON_SECONDS else "now"
        known = "with the run times that jobs declared or reported"
        return f"It would start {when} if no further jobs arrived: {played}, {known}."
    if forecast.error:
        return f"No start could be estimated: {forecast.error}."
    if name not in forecast.jobs:
        return "No start could be estimated: the job was not in the state that was played ahead."
    if forecast.ending != "stopped":
        return f"It would start in no round, even if no further jobs arrived: {played}."
    if forecast.until is None:
        return f"No start could be estimated: the policy made no decision in {PLAY_SECONDS:g} s."
    until = _about(forecast.until - now)
    return (
        f"In the next {until}, which could be simulated in {PLAY_SECONDS:g} s, it does not start: {played}."
    )


def _about(seconds: float) -> str:
    """Return a time in a unit that gives it at most two digits, or in days."""
    for unit, size in (("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0)):
        if seconds < 99.5 * size:
            return f"{max(seconds, 0.0) / size:.0f} {unit}"
    return f"{seconds / 86400.0:.0f} days"


def _sentences(service: Service, job: LiveJob) -> Iterator[str]:
    record, rounds, now = service.record, service.rounds, service.record.now()
    if job.closed is not None:
        yield f"It is {job.status}{f': {job.closed.reason}' if job.closed.reason else ''}."
        return
    if rounds.trouble:
        yield f"The policy failed, and all jobs keep their GPUs until it decides: {rounds.trouble}."
    if job.allocation is not None and job.target is not None:
        type, nodes = job.target
        held = ", ".join(f"{gpus} on {type}-{node}" for node, gpus in nodes)
        yield f"It has had {_gpus(job.allocation.gpus)} for {now - job.since:.0f} s: {held}."
        if job.run is not None and not math.isnan(job.run.told):
            yield f"Its run {job.run.number} was told to stop {now - job.run.told:.0f} s ago, to move there."
    elif job.run is not None:
        yield f"It lost its GPUs {now - job.since:.0f} s ago, and its run {job.run.number} is stopping."
        yield from _loss(job)
    elif math.isnan(job.started):
        yield f"It was submitted {now - job.submitted:.0f} s ago and has had no GPUs yet."
    else:
        yield f"It lost its GPUs {now - job.since:.0f} s ago."
        yield from _loss(job)
    limit = job.file.time_limit_seconds
    if limit is not None:
        yield f"It has run for {job.used_seconds:.0f} s of its time limit of {limit:.0f} s."
    if job.retry_at > now:
        failed = f"Its last run failed or was lost ({job.failures + job.losses} in a row)"
        yield f"{failed}; the next one starts in {job.retry_at - now:.0f} s at the earliest."
    if job.waits_for:
        jobs = record.state.jobs
        waits = _names([f"{name} ({jobs[name].status})" for name in job.file.after if name in job.waits_for])
        yield f"It starts after these jobs have completed: {waits}."
    if job.eligible and job.status == "queued":
        yield from _queued(record.state, rounds, job, now)


def _loss(job: LiveJob) -> Iterator[str]:
    """Yield a sentence about what took a job's GPUs: a round, or a node that went out of use.

    A round takes them if the policy gave the job nothing, or GPUs for which there were no nodes.
    """
    if job.taken_in is not None:
        instead = _names([name for name, place in job.taken_in.places.items() if place is not None])
        others = f", in which the policy gave GPUs to {instead}" if instead else ""
        yield f"They were taken away in a round{others}."
    else:
        yield "Their node went out of use."


def _queued(state: LiveCluster, rounds: LiveRounds, job: LiveJob, now: float) -> Iterator[str]:
    need, types = _fit(rounds.policy, state, job)
    yield need
    if not types:
        return
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
    policy, last = rounds.policy.name, state.last_round
    if last is not None and last.asked > since:
        yield f"The policy {policy!r} last decided {now - last.time:.0f} s ago, and the job got no GPUs."
        if job.name in rounds.unplaced:
            yield "The policy gave it GPUs, but the nodes did not have that number free together."
    else:
        if job.eligible_since > job.submitted and job.eligible_since == since:
            yield f"The last job for which it waited completed {now - since:.0f} s ago."
        yield f"The policy {policy!r} has not decided since then."


def _fit(policy: Policy, state: LiveCluster, job: LiveJob) -> tuple[str, dict[str, int]]:
    """Return a sentence about the GPUs that a job needs, and the free GPUs of each type that can run it."""
    least, types = job.least_gpus, [type for type in state.cluster.names if type in job.types]
    if not types:
        return "The cluster has none of the types that it may use.", {}
    usable = {type: state.cluster.capacity[type] for type in types}
    need = f"It needs {'' if job.gpus is not None else 'at least '}{_gpus(least)} of one type"
    given = state.given()
    can = {
        type: gpus - given[type]
        for type, gpus in usable.items()
        if _can_run(policy, state.cluster, job, type)
    }
    if can:
        return f"{need}; not given to any job: {_counts(can)}.", can
    gone = [f"{type}-{node} ({why})" for (type, node), why in state.unusable.items() if type in types]
    out = f" Nodes out of use: {', '.join(gone)}." if gone else ""
    if all(gpus < least for gpus in usable.values()):
        return f"{need}, but only {_counts(usable)} are in use, so it cannot start now.{out}", {}
    runs = f"and the policy {policy.name!r} cannot run it on the nodes in use ({_counts(usable)})"
    return f"{need}, {runs}, so it cannot start now.{out}", {}


def _can_run(policy: Policy, cluster: Cluster, job: LiveJob, type: str) -> bool:
    """Return whether a policy could give a job GPUs of a type if no other job had any."""
    if cluster.capacity[type] < job.least_gpus:
        return False
    only = [one if one.name == type else replace(one, nodes=0) for one in cluster.types]
    return can_run(policy, job, Cluster(only))


def _counts(gpus: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {type}" for type, count in gpus.items())


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _names(names: list[str]) -> str:
    """Return the first names of a list, and how many more there are; empty for an empty list."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
