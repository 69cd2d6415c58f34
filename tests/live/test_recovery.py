"""A service reads a part of its journal at the start; its state equals that after all events."""

import math
import random
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from pydantic import BaseModel

from copter.live.cluster import LiveCluster
from copter.live.events import Decided, Submitted
from copter.live.files import ClusterFile
from copter.live.journal import LiveJournal
from copter.live.record import ServiceRecord
from copter.live.views import jobs_view
from support.live_cases import (
    CLUSTER,
    ELASTIC,
    RIGID,
    Turned,
    begin,
    events,
    look,
    make_service,
    named,
    report,
    restarted,
    step,
    viewed,
)
from support.memory_backend import MemoryBackend
from support.play_again import play_again


def plain(value, seen=()):
    """Return an object as nested tuples that can be compared."""
    if id(value) in seen:
        return "above"
    seen = (*seen, id(value))
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if value is None or isinstance(value, str | int | float | bool | bytes | type):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return "array", str(value.dtype), repr(value.tolist())
    if isinstance(value, dict):
        return tuple((plain(key, seen), plain(one, seen)) for key, one in value.items())
    if isinstance(value, set | frozenset):
        return tuple(sorted(map(repr, value)))
    if is_dataclass(value):
        return type(value).__name__, *(plain(getattr(value, one.name), seen) for one in fields(value))
    if isinstance(value, list | tuple) or type(value).__name__ == "deque":
        return tuple(plain(one, seen) for one in value)
    if isinstance(value, Mapping):
        return plain(dict(value), seen)
    if isinstance(value, BaseModel):  # which fields were given is no part of the state
        return type(value).__name__, plain(dict(value), seen)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {name: getattr(value, name, None) for name in slots} | getattr(value, "__dict__", {})
    assert held, type(value)
    return type(value).__name__, plain(held, seen)


def check(service):
    """Compare the state of a service that has just begun with that after all events."""
    record = service.record
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveJournal, "history", LiveJournal.events)
        judge = ServiceRecord(record.journal, record.state.file, record.clock)
    for name in sorted(vars(record.state).keys() - {"ended", "leftover"}):  # some reports are not read
        assert plain(getattr(record.state, name)) == plain(getattr(judge.state, name)), name
    assert viewed(jobs_view, record, True, 10**6) == viewed(jobs_view, judge, True, 10**6)
    assert list(record.state.ended) == list(judge.state.ended)
    assert list(record.state.leftover) == list(judge.state.leftover)


def again(service, **arguments):
    """End a service and start it again: its state is that after all events, and rounds are repeatable."""
    later = restarted(service, **arguments)
    assert play_again(service.folder)[1] == []
    check(later)
    assert later.record.state.cluster == service.record.state.cluster
    return later


def _something_happens(rng, service, cluster, deaf):
    """A node fails or is drained, a job is cancelled, or the backend ceases to stop and kill runs."""
    dice, backend = rng.random(), service.backend
    if dice < 0.1:
        deaf.clear() if deaf else deaf.append(True)
    elif dice < 0.2:
        host = rng.choice([one.host(node) for one in cluster.gpus for node in range(one.nodes)])
        backend.broken.pop(host) if host in backend.broken else backend.broken.update({host: "off"})
    elif dice < 0.3:
        type, node, _ = rng.choice(service.record.state.file.all_nodes)
        service.admission.drain(type, node, back=rng.random() < 0.6)
    elif dice < 0.45 and service.record.state.jobs:
        running = [job.name for job in service.record.state.jobs.values() if job.run is not None]
        service.admission.cancel(rng.choice(running or list(service.record.state.jobs)))


def _other_cluster(rng, file):
    """Return a file with other numbers of nodes, sometimes with a type more or less."""
    rows = [
        {"type": one.type, "gpus_per_node": one.gpus_per_node, "nodes": rng.randint(1, 3)}
        for one in file.gpus
    ]
    if rng.random() < 0.3:
        rows = [row for row in rows if row["type"] != "v100"]
        rows += [{"type": "v100", "gpus_per_node": 2, "nodes": 1}] * (rng.random() < 0.5)
    return ClusterFile(gpus=tuple(rows))


@pytest.mark.parametrize("policy", ["sia", "srtf"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, 5))])
def test_the_state_equals_a_full_replay(tmp_path, policy, seed, monkeypatch):
    rng, clock, backend = random.Random(f"{policy} {seed}"), Turned(), MemoryBackend()
    make = {"cluster": CLUSTER, "policy": policy}
    service = make_service(tmp_path, backend, clock, **make)
    kill, stop, deaf = backend.kill, backend.stop, []
    backend.kill = lambda run: None if deaf else kill(run)
    backend.stop = lambda run: None if deaf else stop(run)
    counted = "restarts ended leftover open errors meanwhile asked changes"
    counts = dict.fromkeys(counted.split(), 0)
    for number in range(140):
        if rng.random() < 0.3:
            service.admission.submit(named(rng.choice([RIGID, ELASTIC]), f"job-{number}", retries=50))
        _something_happens(rng, service, make["cluster"], deaf)
        live, schedule = service.rounds.policy, service.rounds.policy.schedule

        def meanwhile(now, service=service, number=number, schedule=schedule):
            service.admission.submit(named(ELASTIC, f"meanwhile-{number}"))
            if rng.random() < 0.5:
                service.admission.cancel(rng.choice(list(now.jobs)))
            counts["asked"] += 1
            if counts["asked"] == 1 or rng.random() < 0.3:
                raise ZeroDivisionError
            return schedule(now)

        if rng.random() < 0.15 and service.record.state.jobs:
            counts["meanwhile"] += 1
            monkeypatch.setattr(live, "schedule", meanwhile)
        step(service, rng.uniform(1.0, 30.0)) if rng.random() < 0.7 else look(service, 5.0)
        monkeypatch.undo()
        for job in service.record.state.running():
            if job.file.elastic and job.name in service.record.state.jobs and rng.random() < 0.7:
                done = report(job.progress + rng.uniform(1.0, 30.0), running_seconds=rng.uniform(0.0, 50.0))
                service.admission.report(job.name, job.run.number, done)
            if rng.random() < 0.2:
                outcome = rng.choice(["completed", "completed", "failed", "lost", "stopped"])
                backend.end(f"{job.name}.{job.run.number}", outcome)
        if rng.random() < (0.5 if service.record.state.leftover else 0.12):
            if rng.random() < 0.4:
                make["cluster"] = _other_cluster(rng, make["cluster"])
                counts["changes"] += 1
            service.close()
            service = make_service(tmp_path, backend, clock, **make)
            check(service)
            counts["restarts"] += 1
            counts["leftover"] += bool(service.record.state.leftover)
            counts["open"] += len(service.record.state.jobs)
            counts["ended"] += len(service.record.state.ended)
    decided = events(service, Decided)
    counts["errors"] = sum(bool(event.error) for event in decided)
    service.close()
    assert [name for name in counts if not counts[name]] == []
    assert play_again(tmp_path)[1] == [] or counts["errors"]


def test_an_event_takes_effect_at_its_own_time(tmp_path):
    clock = Turned()
    service = make_service(tmp_path, clock=clock)
    time = service.record.now()
    clock.time += 5.0
    assert service.record.now() == time + 5.0  # asked by a view, for example, before the event is written
    service.record.write(Submitted(time=time, job="late", file=ELASTIC))
    for one in (service, restarted(service)):
        job = one.record.state.jobs["late"]
        assert job.submission.time == job.eligible_since == time


def test_reports_of_ended_jobs_and_old_rounds_are_not_read(tmp_path, monkeypatch):
    service = make_service(tmp_path)
    clock, backend = service.record.clock, service.backend
    begin(service, ELASTIC, "over", max_gpus=1)
    for number in range(5):
        service.admission.report("over", 1, report(float(number), batch_size=number))
        step(service, 60.0)
    backend.end("over.1")
    look(service)
    service.close()
    applied, apply = [], LiveCluster.apply
    monkeypatch.setattr(
        LiveCluster, "apply", lambda state, event, **how: applied.append(event) or apply(state, event, **how)
    )
    later = make_service(tmp_path, backend, clock)
    kinds = [type(event).__name__ for event in applied]
    assert kinds == ["Opened", "Submitted", "Decided", "Launched", "Reported", "Decided"] + [
        "Ended", "Closed", "Opened"
    ]  # fmt: skip
    assert applied[4].report.progress == 4.0
    assert viewed(jobs_view, later.record, True, 9)[0]["batch_size"] == 4
