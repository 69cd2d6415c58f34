"""A full disk: nothing acknowledged is lost, nothing unwritten takes effect, the service goes on later."""

import asyncio
import sqlite3

import pytest

from copter.errors import FileError
from copter.live.events import Decided, Ended, Launched, Reported
from support.live_cases import (
    ELASTIC,
    RIGID,
    begin,
    events,
    look,
    make_service,
    named,
    notes,
    report,
    restarted,
    sound,
    step,
)
from support.play_again import play_again


def test_a_decision_that_cannot_be_written_has_no_effect(service, http, disk):
    begin(service, RIGID, "one")
    service.admission.submit(named(RIGID, "two"))
    timer = service.record.state.timer
    sums, policy = (timer.contention, timer.weight), service.rounds.policy
    disk.add("full")
    for _ in range(3):
        step(service, 60.0)
    assert (timer.contention, timer.weight) == sums and not service.record.state.changes
    assert [job.status for job in service.record.state.jobs.values()] == ["running", "queued"]
    assert "database or disk is full" in service.trouble
    answer = http.get("/health")
    assert answer.status_code == 503 and "database or disk is full" in answer.json()["error"]
    unknown = http.get("/health", headers={"Authorization": ""})
    assert unknown.json()["error"] == "the journal cannot be written"
    assert http.post("/v1/jobs", json={"command": ["true"]}).status_code == 503
    disk.clear()
    step(service, 60.0)
    assert not service.trouble and service.rounds.policy is not policy
    assert [job.status for job in service.record.state.jobs.values()] == ["running", "running"]
    assert len(events(service, Decided)) == 2
    service.close()
    assert play_again(service.folder) == (2, [])


def test_the_end_of_a_run_is_written_when_there_is_room(service, disk):
    service.admission.submit(named(RIGID, "one"))
    begin(service, RIGID, "two", gpus=4)
    service.admission.cancel("two")
    disk.add("full")
    service.backend.end("one.1")
    look(service)
    assert service.backend.stopped == ["two.1"]  # the first run's trouble does not protect the second
    assert list(service.record.state.jobs) == ["one"] and not service.launcher.silent
    disk.clear()
    look(service)
    assert not service.record.state.jobs and not service.record.state.running() and not service.trouble
    assert sorted(event.job for event in events(service, Ended)) == ["one", "two"]


def test_nothing_is_started_that_is_not_written(service, disk):
    service.admission.submit(named(RIGID, "one"))
    asyncio.run(service.rounds.ask())
    disk.add("full")
    look(service)
    assert not service.backend.started and not events(service, Launched)
    disk.clear()
    look(service)
    assert [run.id for run in service.backend.started] == ["one.1"] and not service.trouble


def test_a_service_runs_on_and_recovers_by_itself(tmp_path, disk, monkeypatch):
    monkeypatch.setattr("copter.live.service._TICK_SECONDS", 0.0)
    service = make_service(tmp_path, policy="srtf")
    service.admission.submit(named(ELASTIC, "one"))

    async def go():
        task = asyncio.create_task(service.run())

        async def tick():
            ticked = asyncio.create_task(service.launcher.whole_tick())
            await asyncio.wait({task, ticked}, return_when=asyncio.FIRST_COMPLETED)
            ticked.cancel()
            assert not task.done()

        while not service.backend.started:
            await tick()
        service.admission.report("one", 1, report(7.0))
        disk.add("full")
        service.record.changed.set()
        while not service.trouble:
            await tick()
        for _ in range(5):
            await tick()
        assert not task.done() and not events(service, Reported)
        disk.clear()
        while service.trouble:
            await tick()
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(go())
    assert len(events(service, Reported)) == 1  # written as soon as there was room, without another event
    assert "the journal is written again" in notes(service)[-1]


def test_a_start_on_a_full_disk_is_an_error_of_the_file_and_can_be_repeated(tmp_path, disk):
    for _ in range(2):
        disk.add("full")
        with pytest.raises(
            FileError, match=r"journal\.sqlite: the service cannot begin: database or disk is"
        ):
            make_service(tmp_path)
        disk.clear()
        service = make_service(tmp_path)
        service.close()


def test_a_service_ends_on_a_full_disk(service, disk, caplog):
    begin(service, ELASTIC, "one")
    service.admission.report("one", 1, report(7.0))
    disk.add("full")
    service.close()
    assert "the last reports of jobs cannot be written" in caplog.text
    disk.clear()
    later = make_service(service.folder, service.backend, service.record.clock)
    assert later.record.state.jobs["one"].run.number == 1


def test_sqlite_itself_is_full(service):
    """A limit of pages, as SQLite reports it: submissions that were acknowledged are there, no other is."""
    file = service.record.journal.database
    (pages,) = file.execute("PRAGMA page_count").fetchone()
    file.execute(f"PRAGMA max_page_count = {pages + 8}")
    taken = []
    for number in range(200):
        try:
            taken += service.admission.submit(named(RIGID, f"job-{number}"))
        except sqlite3.Error:
            break
    assert 0 < len(taken) < 200 and "full" in service.trouble
    step(service)
    assert [name for name in service.record.state.jobs] == taken
    file.execute("PRAGMA max_page_count = 1000000")
    service.record.try_again()
    assert not service.trouble
    step(service, 60.0)
    assert len(service.backend.started) == 6
    later = restarted(service)
    assert list(later.record.state.jobs) == taken and sound(later.record.journal)
