"""Archives of ended jobs: nothing is lost or counted twice, wherever the move of a job is interrupted."""

import asyncio
import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from copter.errors import FileError
from copter.live import archive
from copter.live.admission import RefusedError
from copter.live.archive import home_of, whole_history
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.past import Past
from copter.live.replay import play_again, simulate
from copter.live.views import archived_view, job_view, jobs_view
from support.live_cases import (
    CLUSTER,
    ELASTIC,
    RIGID,
    begin,
    client_of,
    look,
    make_service,
    named,
    notes,
    report,
    restarted,
)
from support.memory_backend import MemoryBackend

DAYS = 10.0
DAY = 86400.0
ARCHIVING = CLUSTER.model_copy(update={"archive_days": DAYS})
MONTH = "1970-01"


class KilledError(BaseException):
    """The service is killed."""


def ended_service(folder, cluster=CLUSTER):
    """Return a service with two jobs that completed, one that was cancelled later, and one that runs."""
    service = make_service(folder, cluster=cluster, policy="fcfs")
    for name, file in (("first", RIGID), ("second", ELASTIC)):
        begin(service, file, name)
        if file is ELASTIC:
            service.admission.report(name, 1, report(3.0))
        home = folder / "jobs" / name / "runs" / "1"
        home.mkdir(parents=True, exist_ok=True)
        (home / "log-0.txt").write_text(f"log of {name}\n")
        service.backend.end(f"{name}.1")
        look(service, 5.0)
    begin(service, RIGID, "runs")
    service.record.clock.time += DAY
    service.admission.submit(named(RIGID, "late"))
    service.admission.cancel("late")
    look(service)
    return service


def events_of(folder):
    journal = LiveJournal(folder / JOURNAL, read_only=True)
    with contextlib.closing(journal):
        return whole_history(journal)


def test_old_jobs_are_moved_and_are_still_known(tmp_path):
    service = ended_service(tmp_path, ARCHIVING)
    before = events_of(tmp_path)
    shown = {name: job_view(service.record, name) for name in ("first", "second")}
    assert archived_view(service.record.journal, 10) == []
    look(service, (DAYS - 0.5) * DAY)
    assert events_of(tmp_path)[: len(before)] == before
    assert [job["name"] for job in jobs_view(service.record, True, 10)] == ["runs", "late"]
    assert [job["name"] for job in archived_view(service.record.journal, 10)] == ["second", "first"]
    assert [job["name"] for job in archived_view(service.record.journal, 1)] == ["second"]
    for name, view in shown.items():
        assert job_view(service.record, name) | {"heard": view["heard"]} == view
        assert not (tmp_path / "jobs" / name).exists()
    assert service.record.over == {"completed": 2, "failed": 0, "cancelled": 1}
    for _ in range(2):
        with pytest.raises(RefusedError, match="must be new"):
            service.admission.submit(named(RIGID, "first"))
        service.admission.dry_run(named(RIGID, "next", after=("first",)))
        with client_of(service) as client:
            assert [job["name"] for job in client.jobs(archived=True)] == ["second", "first"]
            assert "".join(client.parts("first")) == "log of first\n"
            assert client.why("first")["status"] == "completed"
            with pytest.raises(Exception, match="has ended"):
                client.cancel("first")
        service = restarted(service, cluster=ARCHIVING)
        assert service.record.over == {"completed": 2, "failed": 0, "cancelled": 1}
    service.backend.end("runs.1")
    look(service)
    service.close()
    assert play_again(tmp_path)[1] == [] and simulate(tmp_path)["jobs"] == 3


def test_a_job_is_in_the_archive_of_the_month_of_its_end(tmp_path, monkeypatch):
    service = ended_service(tmp_path)
    service.record.clock.time += 40 * DAY
    service.backend.end("runs.1")
    look(service)
    service = restarted(service, cluster=ARCHIVING)
    monkeypatch.setattr("copter.live.journal._MOST_MOVED", 1)
    service.record.clock.time += 2 * DAYS * DAY
    for number, month in enumerate([MONTH, MONTH, MONTH, "1970-02"], 1):
        asyncio.run(service.launcher.tick())
        assert service.record.journal.months()[0] == month
        assert sum(service.record.journal.archived().values()) == number
    names = [job["name"] for job in archived_view(service.record.journal, 10)]
    assert names == ["runs", "late", "second", "first"]
    assert home_of(service.record.journal, "runs") == tmp_path / "archive/1970-02/jobs/runs"
    service.close()
    assert play_again(tmp_path)[1] == []


def test_the_command_lists_archived_jobs(tmp_path, command):
    service = ended_service(tmp_path, ARCHIVING)
    look(service, 2 * DAYS * DAY)
    code, shown = command(service, "jobs", "--archived", "--json", "--status", "completed")
    assert (code, [job["name"] for job in json.loads(shown)]) == (0, ["second", "first"])


def _steps(monkeypatch, kill_at):
    """Kill the service before it takes step number `kill_at` of the move of jobs."""
    taken = []

    def counted(where, name):
        call = getattr(where, name)

        def step(*arguments, **keywords):
            taken.append(name)
            if len(taken) == kill_at:
                raise KilledError
            return call(*arguments, **keywords)

        monkeypatch.setattr(where, name, step)

    for where, name in (
        (Path, "mkdir"),
        (Path, "rename"),
        (archive, "sync_folder"),
        (LiveJournal, "copy_to"),
        (LiveJournal, "remove"),
    ):
        counted(where, name)
    counted(sqlite3, "connect")
    counted(LiveJournal, "add")
    counted(Past, "archived")
    return taken


def test_a_kill_at_any_step_of_a_move_loses_nothing(tmp_path, monkeypatch):
    killed = []
    template = tmp_path / "template"
    made = ended_service(template)
    look(made, 2 * DAYS * DAY)
    made.close()
    before, clock = events_of(template), made.record.clock
    while True:
        folder = tmp_path / f"killed-{len(killed)}"
        shutil.copytree(template, folder)
        backend = MemoryBackend()
        backend.start(made.backend.started[-1])
        service = make_service(folder, backend, clock, ARCHIVING, policy="fcfs")
        present = list(service.record.state.jobs)
        with monkeypatch.context() as patched:
            taken = _steps(patched, len(killed) + 1)
            with contextlib.suppress(KilledError):
                look(service)
                break
        killed.append(taken[-1])
        service = restarted(service, cluster=ARCHIVING)
        assert list(service.record.state.jobs) == present == ["runs"]
        assert service.record.over == {"completed": 2, "failed": 0, "cancelled": 1}
        assert events_of(folder)[: len(before)] == before
        look(service)
        assert events_of(folder)[: len(before)] == before
        assert [job["name"] for job in archived_view(service.record.journal, 10)] == [
            "late",
            "second",
            "first",
        ]
        assert (folder / "archive" / MONTH / "jobs/first/runs/1/log-0.txt").read_text() == "log of first\n"
        assert [path.name for path in (folder / "jobs").iterdir()] == ["runs"]
        assert [one["name"] for one in jobs_view(service.record, True, 10)] == ["runs"]
        service.close()
    service.close()
    steps = {"mkdir", "connect", "copy_to", "rename", "sync_folder", "add", "remove", "archived"}
    assert set(killed) == steps and killed.count("rename") == 3


def test_an_archive_that_cannot_be_written_is_noted_once(tmp_path):
    service = ended_service(tmp_path, ARCHIVING)
    (tmp_path / "archive").write_text("a file")
    look(service, 2 * DAYS * DAY)
    look(service)
    (note,) = notes(service)
    assert "ended jobs cannot be archived" in note
    assert not service.trouble and len(jobs_view(service.record, True, 10)) == 4
    (tmp_path / "archive").unlink()
    look(service)
    assert [job["name"] for job in jobs_view(service.record, True, 10)] == ["runs"]


def test_a_folder_whose_place_is_taken_stays(tmp_path, caplog):
    service = ended_service(tmp_path, ARCHIVING)
    (tmp_path / "archive" / MONTH / "jobs" / "first" / "runs").mkdir(parents=True)
    look(service, 2 * DAYS * DAY)
    assert len(archived_view(service.record.journal, 10)) == 3
    assert [path.name for path in sorted((tmp_path / "jobs").iterdir())] == ["first", "runs"]
    assert f"{tmp_path / 'jobs' / 'first'} stays" in caplog.text


def test_a_missing_archive_is_named(tmp_path):
    service = ended_service(tmp_path, ARCHIVING)
    look(service, 2 * DAYS * DAY)
    (tmp_path / "archive" / MONTH).rename(tmp_path / "elsewhere")
    for ask in (lambda: job_view(service.record, "first"), lambda: archived_view(service.record.journal, 10)):
        with pytest.raises(RefusedError, match=rf"{MONTH}/journal.sqlite: is missing"):
            ask()
    service = restarted(service, cluster=ARCHIVING)
    assert list(service.record.state.jobs) == ["runs"]
    service.close()
    with pytest.raises(FileError, match=rf"{MONTH}/journal.sqlite: is missing"):
        play_again(tmp_path)


def test_events_that_are_missing_beside_archived_ones_are_noticed(tmp_path):
    service = ended_service(tmp_path, ARCHIVING)
    look(service, 2 * DAYS * DAY)
    service.close()
    file = sqlite3.connect(tmp_path / JOURNAL, isolation_level=None)
    assert file.execute("DELETE FROM events WHERE kind = 'Submitted'").rowcount == 1
    file.close()
    with pytest.raises(FileError, match=r"is damaged: \d+ events are here and \d+ in archives, but the last"):
        make_service(tmp_path, service.backend, service.record.clock)


def test_a_journal_of_an_earlier_version_is_read(tmp_path):
    service = ended_service(tmp_path)
    service.close()
    file = sqlite3.connect(tmp_path / JOURNAL, isolation_level=None)
    file.execute("DROP TABLE archived")
    file.close()
    assert play_again(tmp_path)[1] == []
    service = make_service(tmp_path, service.backend, service.record.clock, ARCHIVING, policy="fcfs")
    look(service, 2 * DAYS * DAY)
    assert len(archived_view(service.record.journal, 10)) == 3


def test_a_job_whose_run_has_not_ended_is_not_moved(tmp_path):
    service = ended_service(tmp_path)
    service.backend.stop = service.backend.kill = lambda run: None
    service.admission.cancel("runs")
    service = restarted(service, cluster=ARCHIVING)
    look(service, 2 * DAYS * DAY)
    assert [job["name"] for job in archived_view(service.record.journal, 10)] == ["late", "second", "first"]
    service.backend.end("runs.1")
    look(service)
    assert len(archived_view(service.record.journal, 10)) == 4
    service.close()
