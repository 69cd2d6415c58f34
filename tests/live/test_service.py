"""The service with a backend in memory: jobs end once, none is lost, whatever fails when."""

import os
import random
import sqlite3
import time
from collections import Counter

import pytest

from copter.errors import CopterError
from copter.live.admission import RefusedError
from copter.live.backends.base import BackendError, RunState
from copter.live.events import Closed, Ended, Launched, Told
from copter.live.files import ClusterFile
from copter.live.service import steady_clock
from copter.live.views import cluster_view
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
    notes,
    report,
    sound,
    step,
    viewed,
)
from support.memory_backend import MemoryBackend
from support.play_again import play_again


def again(service, **changes):
    """The same folder after a kill: what waited in memory is gone."""
    *_, (_, opened) = service.record.journal.events(kind="Opened")
    service.record.journal._waiting.clear()
    service.record.journal.database.close()
    os.close(service._lock)
    service._lock = os.open(os.devnull, os.O_RDONLY)
    same = {"cluster": service.record.state.file, "policy": opened.policy, "settings": opened.settings}
    return make_service(service.folder, service.backend, service.record.clock, **same | changes)


def statuses(service):
    return {name: job.status for name, job in service.record.state.jobs.items()}


def endings(service):
    return [(event.job, event.ending) for event in events(service, Closed)]


def test_how_crowded_it_was_is_known_after_a_kill(tmp_path):
    service = make_service(tmp_path)
    for number in range(6):
        service.admission.submit(named(ELASTIC, f"job-{number}"))
        step(service, 60.0)
    service.admission.cancel("job-2")
    step(service, 60.0)
    timer = service.record.state.timer
    later = again(service)
    recovered = later.record.state.timer
    assert (recovered.contention, recovered.weight) == (timer.contention, timer.weight)
    assert timer.weight == 7 and timer.contention == pytest.approx((1 + 2 + 3 + 4 + 5 + 6 + 5) / 12)
    policy, answer = later.rounds.policy, later.rounds.policy.schedule

    def meanwhile(now):
        later.admission.submit(named(ELASTIC, "meanwhile"))
        return answer(now)

    policy.schedule = meanwhile
    step(later, 60.0)
    policy.schedule = answer
    step(later, 60.0)
    job = later.record.state.jobs["meanwhile"]
    assert job.contention == pytest.approx(6 / 12)  # of the second round alone


def test_an_elastic_job_is_resized_when_it_shares(service):
    service.admission.submit(named(ELASTIC, "first"))
    for _ in range(4):
        step(service, 60.0)
    alone = service.record.state.jobs["first"].allocation.gpus
    assert alone > 1
    for number in range(12):
        service.admission.submit(named(ELASTIC, f"more-{number}"))
    for _ in range(4):
        step(service, 60.0)
    held = {name: job.allocation for name, job in service.record.state.jobs.items()}
    assert sum(one.gpus for one in held.values() if one) <= 12
    assert held["first"] is None or held["first"].gpus < alone
    assert "first.1" in service.backend.stopped


UNTOLD = ("stopped", "exit code 75 without a stop signal")
UNKNOWN = ("lost", "its agent was killed", False, True)


@pytest.mark.parametrize("ended", [("failed", "exit code 7"), UNTOLD, UNKNOWN])
def test_without_retries_nothing_is_started_again_that_ended_by_itself(service, ended):
    for job in (RIGID, ELASTIC):
        begin(service, job, job.kind, retries=0)
        if job.elastic:
            service.admission.report(job.kind, 1, report(100.0))
        service.backend.end(f"{job.kind}.1", *ended)
        look(service)
        look(service, 100.0)
    assert endings(service) == [("rigid", "failed"), ("adaptive", "failed")]
    assert [run.number for run in service.backend.started] == [1, 1]
    assert [event.reason for event in events(service, Closed)] == [ended[1], ended[1]]


@pytest.mark.parametrize("ended", [("stopped",), UNTOLD, UNKNOWN])
def test_a_run_that_was_told_to_stop_is_no_failure_however_it_ends(service, ended):
    service.backend.ignores_stop = True
    begin(service, ELASTIC, "one", retries=0)
    type, ((node, _),) = service.record.state.jobs["one"].target
    service.admission.drain(type, node)
    look(service, 1.0)
    service.backend.end("one.1", *ended)
    step(service, 10.0)
    assert [run.number for run in service.backend.started] == [1, 2]


@pytest.mark.parametrize("why", ["no agent began it", "node a100-0: the power is off"])
def test_a_run_that_did_not_end_by_itself_is_followed_by_another_without_retries(service, why):
    begin(service, RIGID, "one", retries=0)
    service.backend.end("one.1", "lost", why)
    look(service)
    look(service, 100.0)
    assert [run.number for run in service.backend.started] == [1, 2]


def test_a_job_whose_node_fails_goes_elsewhere(service):
    begin(service, RIGID, "one")
    host = service.backend.started[0].hosts[0]
    service.backend.broken[host] = "the power is off"
    look(service)
    step(service, 10.0)
    step(service, 10.0)
    assert service.backend.started[-1].number == 2
    assert service.backend.started[-1].hosts[0] != host
    assert service.record.state.unusable
    service.backend.broken.clear()
    look(service)
    assert not service.record.state.unusable


def test_a_drained_node_is_left(service):
    begin(service, ELASTIC, "one")
    type, ((node, _),) = service.record.state.jobs["one"].target
    service.admission.drain(type, node)
    step(service, 10.0)
    step(service, 10.0)
    assert (type, node) not in [
        (service.record.state.jobs["one"].target[0], n) for n, _ in service.record.state.jobs["one"].target[1]
    ]
    with pytest.raises(RefusedError, match="no node 9"):
        service.admission.drain(type, 9)
    drained = [one for one in viewed(cluster_view, service)["nodes"] if one["unusable"]]
    assert [(one["type"], one["node"], one["drained"]) for one in drained] == [(type, node, True)]
    service.admission.drain(type, node, back=True)
    assert not service.record.state.unusable


def test_cancel_stops_then_kills_and_its_slots_are_free_when_it_is_dead(service):
    service.backend.ignores_stop = True
    begin(service, RIGID, "one", gpus=4, types=("a100",))
    service.admission.cancel("one")
    assert service.record.state.jobs == {} and len(service.record.state.free()["a100", 0]) == 0
    look(service)
    look(service, CLUSTER.grace_seconds)
    assert service.backend.stopped == ["one.1"] and service.backend.killed == []
    assert len(service.record.state.free()["a100", 0]) == 0
    look(service, 1.0)
    assert service.backend.killed == ["one.1"] and len(service.record.state.free()["a100", 0]) == 4
    with pytest.raises(RefusedError, match="has ended"):
        service.admission.cancel("one")
    with pytest.raises(RefusedError, match="no job 'two'"):
        service.admission.cancel("two")


def test_a_backend_that_does_not_answer_is_asked_again(service):
    service.admission.submit(named(RIGID, "one"))
    service.backend.away = "no route to host"
    step(service)
    assert "no route" in service.launcher.silent and not service.backend.started
    service.backend.away = ""
    step(service, 5.0)
    step(service, 5.0)
    assert not service.launcher.silent and [run.job for run in service.backend.started] == ["one"]
    first, second = notes(service)
    assert "does not answer" in first and "answers again" in second


def test_a_former_run_says_nothing_any_more(service):
    begin(service, ELASTIC, "one")
    service.backend.end("one.1", "lost")
    look(service, 5.0)
    look(service, 5.0)
    assert service.record.state.jobs["one"].run.number == 2
    with pytest.raises(RefusedError) as refused:
        service.admission.report("one", 1, report())
    assert refused.value.status == 410


def test_reports_teach_the_policy_and_order_batches(service):
    begin(service, ELASTIC, "one")
    job = service.record.state.jobs["one"]
    type = job.allocation.type
    orders = [service.admission.report("one", 1, report(k, running_seconds=k)) for k in (1.0, 2.0, 3.0)]
    assert any(one.batch is not None and one.batch.local_batch != 32 for one in orders)
    step(service, 10.0)
    seconds = job.seen.models[type].parameters.step_seconds(1, 1, 32)
    assert float(seconds) == pytest.approx(0.1, rel=1e-3)
    assert job.noise == pytest.approx(32 * 4.0)


def test_a_run_that_was_never_begun_is_launched_again(service, monkeypatch):
    service.admission.submit(named(RIGID, "one"))

    def dies(run):
        raise KeyboardInterrupt

    monkeypatch.setattr(service.backend, "start", dies)
    with pytest.raises(KeyboardInterrupt):
        step(service)
    assert [event.number for event in events(service, Launched)] == [1]
    monkeypatch.undo()
    later = again(service)
    look(later)
    look(later, 10.0)
    assert [run.id for run in service.backend.started] == ["one.2"]


def test_two_services_do_not_share_a_folder(service):
    with pytest.raises(CopterError, match="another running service"):
        make_service(service.folder)


def test_what_comes_while_the_policy_thinks_is_kept_and_comes_true(service, monkeypatch):
    begin(service, RIGID, "one")
    policy, answer = service.rounds.policy, service.rounds.policy.schedule

    def slow(now):
        asked = set(now.jobs)
        service.admission.submit(named(RIGID, "meanwhile"))
        with pytest.raises(RefusedError, match="'meanwhile'"):
            service.admission.submit(named(RIGID, "meanwhile"))
        service.admission.cancel("one")
        with pytest.raises(RefusedError, match="has ended"):
            service.admission.cancel("one")
        service.admission.submit(named(RIGID, "regretted"))
        service.admission.cancel("regretted")
        with pytest.raises(RefusedError, match="has ended"):
            service.admission.cancel("regretted")
        assert set(now.jobs) == asked
        return answer(now)

    monkeypatch.setattr(policy, "schedule", slow)
    step(service, 5.0)
    monkeypatch.setattr(policy, "schedule", answer)
    assert list(service.record.state.jobs) == ["meanwhile"]
    assert endings(service) == [("one", "cancelled"), ("regretted", "cancelled")]
    step(service, 5.0)
    assert statuses(service) == {"meanwhile": "running"}
    assert play_again(service.folder) == (3, [])


def test_an_answer_that_comes_late_counts_and_is_noted(tmp_path):
    service = make_service(tmp_path, round_seconds=1e-9)
    begin(service, RIGID, "one")
    assert statuses(service) == {"one": "running"}
    (note,) = notes(service)
    assert "late" in note


def test_a_record_that_was_changed_does_not_play_again(tmp_path):
    service = make_service(tmp_path)
    service.admission.submit(named(RIGID, "one"))
    begin(service, ELASTIC, "two")
    step(service, 60.0)
    service.close()
    rounds, different = play_again(tmp_path)
    assert rounds == 2 and different == []
    file = sqlite3.connect(tmp_path / "journal.sqlite")
    changed = file.execute(
        "UPDATE events SET fields = replace(fields, '[0,1]', '[1,1]') WHERE kind = 'Decided'"
    )
    assert changed.rowcount
    file.commit()
    file.close()
    _, different = play_again(tmp_path)
    assert different and different[0][1] != different[0][2]


@pytest.mark.parametrize("policy", ["sia", "pollux", "srtf", "shockwave", "afs-l", "gavel"])
def test_any_policy_runs_live_and_its_record_plays_again(tmp_path, policy):
    rng, clock, backend = random.Random(policy), Turned(), MemoryBackend()
    service = make_service(tmp_path, backend, clock, policy=policy)
    for number in range(30):
        if number < 12:
            service.admission.submit(named(ELASTIC if rng.random() < 0.6 else RIGID, f"job-{number}"))
        step(service, rng.uniform(20.0, 90.0))
        for job in list(service.record.state.running()):
            if job.file.elastic and rng.random() < 0.8:
                done = report(job.progress + rng.uniform(10.0, 80.0), running_seconds=clock.time - 1000.0)
                service.admission.report(job.name, job.run.number, done)
            if rng.random() < 0.15:
                outcome = rng.choice(["completed", "failed", "lost"])
                backend.end(f"{job.name}.{job.run.number}", outcome, "as it happens")
        if number == 15:
            service.admission.drain("t4", 1)
        if number == 20:
            service = again(service)
    assert any(event.ending == "completed" for event in events(service, Closed))
    service.close()
    rounds, different = play_again(tmp_path)
    assert rounds == 30 and different == []


def check_gpus(service):
    """Check that no GPU belongs to two runs, neither of a node nor of the machine."""
    running = [job.run for job in service.record.state.running()]
    slots = [
        (run.place[0], node, device)
        for run in running
        for (node, _), devices in zip(run.place[1], run.devices, strict=True)
        for device in devices
    ]
    assert len(set(slots)) == len(slots) and all(device < 4 for *_, device in slots)
    ids = [f"{job.name}.{job.run.number}" for job in service.record.state.running()]
    runs = [service.backend.runs[id] for id in ids if id in service.backend.runs]
    numbers = [device for run in runs for node in run.devices for device in node]
    assert len(set(numbers)) == len(numbers) and set(numbers) <= set(range(12))


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, 6))])
def test_whatever_happens_each_job_ends_once(tmp_path, disk, seed):
    """Services are killed between any two steps, runs end anyhow, and nodes, backend and disk come and go."""
    rng, clock, backend = random.Random(seed), Turned(), MemoryBackend()
    service = make_service(tmp_path, backend, clock)
    acknowledged, happened = [], Counter()
    for number in range(150):
        if number < 90 and rng.random() < 0.5:
            try:
                file = named(rng.choice([RIGID, ELASTIC]), f"job-{number}", retries=50)
                acknowledged += service.admission.submit(file)
            except sqlite3.Error:
                happened["refused"] += 1
        kind = rng.choice(["kill", "backend", "node", "disk", "disk", *[""] * 6])
        happened[kind] += 1
        if kind == "kill":
            disk.clear()
            service = again(service)
        elif kind == "backend":
            backend.away = "" if backend.away else "busy"
        elif kind == "node":
            host = rng.choice(["a100-0", "t4-0", "t4-1"])
            backend.broken.pop(host) if host in backend.broken else backend.broken.update({host: "off"})
        elif kind == "disk":
            disk.clear() if disk else disk.add("full")
        step(service, rng.uniform(1.0, 30.0)) if rng.random() < 0.7 else look(service, 5.0)
        check_gpus(service)
        running = {f"{job.name}.{job.run.number}" for job in service.record.state.running()}
        happened["run"] += len(running)
        for id in running & set(backend.runs):
            if rng.random() < 0.2:
                backend.end(id, rng.choice(["completed", "completed", "failed", "lost", "stopped"]))
    disk.clear()
    assert min(happened[kind] for kind in ("kill", "backend", "node", "disk", "refused", "run")) > 5, happened
    backend.away, backend.broken = "", {}
    for _ in range(400):
        if not service.record.state.jobs:
            break
        step(service, 60.0)
        for job in service.record.state.running():
            backend.end(f"{job.name}.{job.run.number}")
    assert service.record.state.jobs == {}
    assert sorted(job for job, _ in endings(service)) == sorted(acknowledged)
    launched = [(event.job, event.number) for event in events(service, Launched)]
    ends = events(service, Ended)
    ended = [(event.job, event.number) for event in ends]
    assert len(set(launched)) == len(launched) and sorted(launched) == sorted(ended)
    completed = {event.job for event in ends if event.outcome == "completed"}
    assert {job for job, ending in endings(service) if ending == "completed"} <= completed
    assert sound(service.record.journal)
    service.close()
    assert play_again(tmp_path)[1] == []


@pytest.mark.parametrize(
    ("file", "retries", "ended", "seconds", "progress", "runs"),
    [
        (RIGID, 2, ("failed", "exit code 7"), 0.0, 0.0, 3),
        (RIGID, 1, ("failed", "exit code 7"), 86400.0, 0.0, None),  # a run that lasted forgives the failures
        (ELASTIC, 1, ("failed", "exit code 7"), 0.0, 100.0, None),  # and so does progress
        (ELASTIC, 3, ("stopped",), 0.0, 0.0, 21),  # it stops by itself
    ],
)
def test_how_often_a_job_is_tried_again(service, file, retries, ended, seconds, progress, runs):
    begin(service, file, "one", retries=retries)
    for number in range(1, 31):
        if "one" in service.record.state.jobs:
            if progress:
                service.admission.report("one", number, report(progress * number))
            service.record.clock.time += seconds
            service.backend.end(f"one.{number}", *ended)
            look(service)
            look(service, 100.0)
    assert len(service.backend.started) == (31 if runs is None else runs)
    assert endings(service) == ([] if runs is None else [("one", "failed")])
    if len(ended) > 1:
        assert all(event.reason == ended[1] for event in events(service, Closed))


def test_an_end_and_what_follows_from_it_are_one(service, monkeypatch):
    begin(service, RIGID, "one")
    writes, add = [], service.record.journal.add
    monkeypatch.setattr(
        service.record.journal, "add", lambda *events, **how: writes.append(events) or add(*events, **how)
    )
    service.backend.end("one.1")
    look(service)
    assert [type(event).__name__ for event in writes[-1]] == ["Ended", "Closed"]


def test_a_job_is_dropped_when_its_run_has_ended(tmp_path):
    cluster = CLUSTER.model_copy(update={"keep_jobs": 0})
    service = make_service(tmp_path, cluster=cluster)
    begin(service, RIGID, "one")
    assert (tmp_path / "jobs" / "one").is_dir()
    service.backend.ignores_stop = True
    service.admission.cancel("one")
    look(service)
    assert (tmp_path / "jobs" / "one").is_dir()
    look(service, CLUSTER.grace_seconds + 1.0)
    look(service)
    assert not (tmp_path / "jobs" / "one").exists() and service.backend.killed == ["one.1"]
    assert service.record.state.find("one") is None


@pytest.mark.parametrize("gpus", [2, 8])
def test_a_cluster_with_other_nodes_goes_on(tmp_path, gpus):
    """A service is started again with nodes of another size, and with another policy."""
    service = make_service(tmp_path, policy="srtf")
    for number in range(3):
        service.admission.submit(named(RIGID, f"job-{number}", gpus=[1, 3, 4][number], preemptible=True))
    step(service)
    other = ClusterFile(
        gpus=({"type": "a100", "gpus_per_node": gpus, "nodes": 1}, {"type": "t4", "gpus_per_node": gpus})
    )
    later = again(service, cluster=other, policy="sia")
    for _ in range(4):
        step(later, 30.0)
    assert not later.rounds.trouble
    for job in later.record.state.jobs.values():
        for _, held in job.place or ():
            assert held <= gpus


def test_a_run_that_cannot_be_written_is_tried_again_and_kills_nobody(service):
    home = service.folder / "jobs"
    home.write_text("in the way")
    begin(service, RIGID, "one")
    assert not service.backend.started
    home.unlink()
    for _ in range(3):
        look(service, 30.0)
    assert [run.job for run in service.backend.started] == ["one"]


def test_nobody_is_silent_while_nobody_listens_or_it_has_not_begun(service, monkeypatch):
    begin(service, ELASTIC, "one", silence_seconds=100.0, report_seconds=5.0, retries=0)
    service.record.clock.time += 1000.0
    later = again(service)
    look(later)
    assert list(later.record.state.jobs) == ["one"]
    states = later.backend.states
    monkeypatch.setattr(
        later.backend, "states", lambda runs: {one: RunState(waiting=True) for one in states(runs)}
    )
    for _ in range(5):
        look(later, 90.0)
    monkeypatch.setattr(later.backend, "states", states)
    look(later, 90.0)
    assert list(later.record.state.jobs) == ["one"]
    look(later, 20.0)
    look(later)
    (closed,) = events(later, Closed)
    assert closed.ending == "failed" and "no report for 100 s" in closed.reason


def test_the_clock_of_a_service_is_steady(monkeypatch):
    clock = steady_clock()
    before = clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert clock() >= before > 1e9


def test_a_stop_that_did_not_come_through_is_sent_again(service, monkeypatch):
    begin(service, ELASTIC, "one")
    type, ((node, _),) = service.record.state.jobs["one"].target
    stop, tries = service.backend.stop, []

    def deaf(run):
        tries.append(run.id)
        raise BackendError("busy")

    monkeypatch.setattr(service.backend, "stop", deaf)
    service.admission.drain(type, node)
    step(service, 5.0)
    assert len(tries) > 1 and not service.backend.stopped
    monkeypatch.setattr(service.backend, "stop", stop)
    look(service, 1.0)
    assert service.backend.stopped == ["one.1"]
    assert len(events(service, Told)) == 1


def test_what_was_drained_while_the_policy_was_asked_is_not_given(service, monkeypatch):
    policy, answer = service.rounds.policy, service.rounds.policy.schedule

    def meanwhile(now):
        for node in (0, 1):
            service.admission.drain("t4", node)
        service.admission.drain("a100", 0)
        service.admission.drain("a100", 0, back=True)
        return answer(now)

    service.admission.submit(named(RIGID, "one", gpus=4, types=("t4",)))
    monkeypatch.setattr(policy, "schedule", meanwhile)
    step(service)
    assert not service.backend.started and service.record.state.drained == {("t4", 0), ("t4", 1)}


def test_folders_may_be_called_anything(tmp_path):
    for name in ("a#1", "a#2", "a?b", "a%20b", "ü ö"):
        service = make_service(tmp_path / name)
        assert not service.record.state.jobs
        service.admission.submit(named(RIGID, "one"))
        service.close()
        assert (tmp_path / name / "journal.sqlite").exists() and play_again(tmp_path / name) == (0, [])
