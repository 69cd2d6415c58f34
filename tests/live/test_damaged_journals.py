"""Journals that were damaged, removed or written by another version: one error that names the place."""

import contextlib
import json
import re
import sqlite3

import pytest

from copter.errors import FileError
from support.live_cases import ELASTIC, RIGID, begin, look, make_service, named, report, step
from support.play_again import play_again


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a service that has ended, with one job that has ended and two that run."""
    service = make_service(tmp_path / "live")
    begin(service, RIGID, "over")
    service.backend.end("over.1")
    look(service)
    service.admission.submit(named(RIGID, "runs"))
    service.admission.submit(named(ELASTIC, "learns"))
    step(service, 60.0)
    service.admission.report("learns", 1, report(5.0))
    service.admission.drain("t4", 1)
    service.close()
    return tmp_path / "live"


def numbers(folder, kind, job=None):
    file = sqlite3.connect(folder / "journal.sqlite")
    rows = file.execute("SELECT id FROM events WHERE kind = ? AND job IS ?", (kind, job)).fetchall()
    file.close()
    return [number for (number,) in rows]


def changed(folder, sql, *values):
    file = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    assert file.execute(sql, values).rowcount
    file.close()


def refused(folder):
    with pytest.raises(FileError) as error:
        make_service(folder)
    said = str(error.value)
    assert str(folder) in said and "\n" not in said
    return said


@pytest.mark.parametrize("kind", ["Opened", "Submitted", "Decided", "Launched", "Reported", "Drained"])
@pytest.mark.parametrize(
    ("edit", "text", "says"),
    [
        ("fields = ?", "{", "Invalid JSON"),
        ("fields = ?", "[1]", "Input should be an object"),
        (
            "fields = json_set(fields, '$.novel', ?)",
            1,
            "novel: there is no such field; the journal was written by another v",
        ),
        ("fields = ?", "{}", "Field required"),
        ("time = ?", "soon", "time: Input should be a valid number"),
        ("kind = ?", "Novel", "no event of this kind; the journal was written by another version"),
    ],
)
def test_a_damaged_event_is_named(folder, kind, edit, text, says):
    jobs = {"Reported": "learns", **dict.fromkeys(("Opened", "Decided", "Drained"))}
    job = jobs.get(kind, "runs")
    (number,) = numbers(folder, kind, job)[-1:]
    changed(folder, f"UPDATE events SET {edit} WHERE id = {number}", text)
    said = refused(folder)
    assert f"event {number} (" in said and says in said
    with pytest.raises(FileError):
        play_again(folder)


@pytest.mark.parametrize(
    ("kind", "job", "changes", "says"),
    [
        ("Submitted", "runs", {"file": {"command": []}}, "command"),
        (
            "Submitted",
            "runs",
            {"file": {"command": ["a"], "novel": 1}},
            "no such field; the journal was written by",
        ),
        ("Submitted", "runs", {"file": 7}, "file: Input should be"),
        ("Launched", "runs", {"place": None}, "place: Input should be"),
        ("Launched", "runs", {"place": ["a100", 3]}, "place.1: Input should be"),
        ("Launched", "runs", {"devices": 3}, "devices: Input should be"),
        ("Reported", "learns", {"report": {}}, "report.progress: Field required"),
        ("Opened", None, {"cluster": {}}, "gpus"),
        ("Decided", None, {"places": 5}, "places: Input should be"),
        ("Drained", None, {"type": ["t4"]}, "type: Input should be"),
    ],
)
def test_an_event_that_cannot_be_applied_is_named(folder, kind, job, changes, says):
    number = numbers(folder, kind, job)[-1] if kind == "Decided" else numbers(folder, kind, job)[0]
    ((field, value),) = changes.items()
    sql = f"UPDATE events SET fields = json_set(fields, '$.{field}', json(?)) WHERE id = {number}"
    changed(folder, sql, json.dumps(value))
    said = refused(folder)
    assert f"event {number} ({kind})" in said and says in said


def test_the_end_of_a_job_that_is_no_json_is_named(folder):
    (number,) = numbers(folder, "Closed", "over")
    changed(folder, "UPDATE events SET fields = '{' WHERE kind = 'Closed'")
    assert f"event {number} (Closed): Invalid JSON" in refused(folder)


@pytest.mark.parametrize(
    ("kind", "job"),
    [("Opened", None), ("Submitted", "runs"), ("Launched", "learns"), ("Decided", None), ("Closed", "over")],
)
def test_an_event_that_was_removed_is_missed(folder, kind, job):
    (number,) = numbers(folder, kind, job)[-1:]
    changed(folder, f"DELETE FROM events WHERE id = {number}")
    assert re.search(r"is damaged: \d+ events are there and 0 were dropped, not \d+ in all$", refused(folder))


@pytest.mark.parametrize(
    ("kind", "job", "says"),
    [
        ("Submitted", "runs", "job 'runs' was not submitted before"),
        ("Launched", "learns", "run 1 of job 'learns' was not launched before"),
    ],
)
def test_an_event_that_another_one_needs_is_missed(folder, kind, job, says):
    (number,) = numbers(folder, kind, job)
    changed(folder, f"UPDATE events SET kind = 'Noted', fields = '{{\"text\":\"\"}}' WHERE id = {number}")
    assert says in refused(folder)


def test_a_file_that_is_damaged_or_no_journal_is_refused(folder):
    path = folder / "journal.sqlite"
    whole = path.read_bytes()
    path.write_bytes(b"no journal at all, but a text that is long enough to be one" * 100)
    assert "cannot be read: file is not a database" in refused(folder)
    path.write_bytes(whole[: len(whole) // 2])
    refused(folder)
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    assert "malformed" in refused(folder)
    path.write_bytes(whole)
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 1")
    assert "has version 1 of the format; this copter reads version 4" in refused(folder)


def test_a_journal_that_was_removed_is_not_begun_again(folder):
    path = folder / "journal.sqlite"
    path.rename(folder / "elsewhere")
    assert "is missing, but the folder has had a journal; restore it" in refused(folder)
    assert not path.exists()
    path.touch()
    assert "is empty, but the folder has had a journal; restore it" in refused(folder)
    (folder / "elsewhere").replace(path)
    make_service(folder).close()


def test_a_journal_that_lost_its_end_is_noticed_by_the_folders_of_jobs(folder):
    (folder / "jobs" / "later").mkdir(parents=True)  # its events were in a write-ahead log that is gone
    said = refused(folder)
    assert "does not know job 'later'" in said and "restore it" in said
    (folder / "jobs" / "later").rmdir()
    make_service(folder).close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_journal_that_is_removed_while_the_service_runs_is_noticed(tmp_path, replaced):
    service = make_service(tmp_path)
    path = tmp_path / "journal.sqlite"
    path.rename(tmp_path / "elsewhere")
    if replaced:
        path.touch()
    with pytest.raises(sqlite3.OperationalError, match="was removed or replaced"):
        service.admission.submit(named(RIGID, "one"))
    assert "journal.sqlite was removed or replaced" in service.trouble and not service.record.state.jobs
    path.unlink(missing_ok=True)
    (tmp_path / "elsewhere").rename(path)
    service.record.try_again()
    service.admission.submit(named(RIGID, "one"))
    assert service.trouble == ""
