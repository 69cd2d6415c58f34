"""Ended jobs: exit codes, GPU seconds, and the bound on how many are kept."""

import json
import shutil
import sqlite3

import pytest

from copter.errors import FileError
from copter.live.admission import RefusedError
from copter.live.tokens import Author
from copter.live.views import job_view, jobs_view, usage_view
from support.live_cases import (
    CLUSTER,
    RIGID,
    begin,
    events,
    look,
    make_service,
    named,
    restarted,
    step,
    viewed,
)

ALICE, BOB = Author("alice", "user"), Author("bob", "user")
FEW = CLUSTER.model_copy(update={"keep_jobs": 2})


def run_job(service, name, author=ALICE, seconds=10.0, ended=("completed", "", False, False, 0), **changes):
    """Let a job on two GPUs run for some seconds and end."""
    service.admission.submit(named(RIGID, name, **changes), author)
    step(service)
    service.backend.end(f"{name}.1", *ended)
    look(service, seconds)


@pytest.fixture
def few(tmp_path):
    """Return a service that keeps two ended jobs, of six that have ended."""
    service = make_service(tmp_path, cluster=FEW)
    for number in range(4):
        run_job(service, f"job-{number}", seconds=10.0 * (number + 1))
    run_job(service, "bad", BOB, 100.0, ("failed", "exit code 3", False, False, 3), retries=0)
    service.admission.submit(named(RIGID, "never"), BOB)
    service.admission.cancel("never")
    look(service)
    return service


def known(service):
    return [view["name"] for view in viewed(jobs_view, service.record, True, 99)]


def test_exit_codes_and_gpu_seconds_are_shown(few):
    view = viewed(job_view, few.record, "bad")
    assert (view["exit_code"], view["gpu_seconds"]) == (3, 200.0)
    assert [run["exit_code"] for run in view["all_runs"]] == [3]
    assert viewed(job_view, few.record, "never")["exit_code"] is None


def test_the_latest_jobs_are_kept_and_the_others_are_sums(few):
    usage = [
        {"owner": "alice", "gpu_seconds": 200.0, "completed": 4, "failed": 0, "cancelled": 0},
        {"owner": "bob", "gpu_seconds": 200.0, "completed": 0, "failed": 1, "cancelled": 1},
    ]
    service = few
    for _ in range(2):
        assert known(service) == ["never", "bad"] and viewed(usage_view, service.record) == usage
        assert service.record.state.endings() == {"completed": 4, "failed": 1, "cancelled": 1}
        assert [path.name for path in (service.folder / "jobs").iterdir()] == ["bad"]
        text = service.record.metrics.text(service.record, silent=False)
        assert 'copter_live_gpu_seconds_total{owner="alice"} 200.0' in text
        assert 'copter_live_jobs_over_total{ending="completed"} 4.0' in text
        with pytest.raises(RefusedError, match="no job 'job-0'"):
            viewed(job_view, service.record, "job-0")
        service = restarted(service)


def test_a_name_may_be_used_again_when_its_job_is_dropped(few):
    with pytest.raises(RefusedError, match="must be new"):
        few.admission.submit(named(RIGID, "bad"))
    few.backend.runs.clear(), few.backend.ended.clear()  # the folder of its run has gone with the job
    run_job(few, "job-0")
    assert known(few) == ["job-0", "never"]
    assert known(restarted(few)) == ["job-0", "never"]


def test_a_job_that_waited_for_a_dropped_one_starts(few):
    run_job(few, "first")
    few.admission.submit(named(RIGID, "waits", after=["first"]))
    for number in range(3):
        run_job(few, f"later-{number}")
    assert few.record.state.find("first") is None
    later = restarted(few)
    step(later, 60.0)
    assert later.record.state.jobs["waits"].status == "running"


def test_numbers_of_dropped_events_are_not_used_again(tmp_path):
    cluster = CLUSTER.model_copy(update={"keep_jobs": 0})
    service = make_service(tmp_path, cluster=cluster)
    run_job(service, "one")
    last = service.record.journal.last
    assert known(service) == []
    later = restarted(service)
    assert min(number for number, _ in later.record.journal.events() if number > last) == last + 1
    run_job(later, "two")
    assert viewed(usage_view, later.record)[0]["completed"] == 2


def test_a_drop_that_was_interrupted_is_done_again(few, monkeypatch):
    begin(few, RIGID, "last")
    few.backend.end("last.1")

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(few.record.journal, "drop", full)
    look(few)
    assert "database or disk is full" in few.record.trouble
    assert known(few) == ["last", "never", "bad"] and not (few.folder / "jobs" / "bad").exists()
    monkeypatch.undo()
    later = restarted(few)
    look(later)
    assert known(later) == ["last", "never"]


def test_a_lost_event_is_noticed_where_others_were_dropped(few):
    few.close()
    copy = few.folder.with_name("copy")
    for where in ("kind = 'Closed'", "id = (SELECT max(id) FROM events)", "kind = 'Decided'"):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(few.folder, copy)
        file = sqlite3.connect(copy / "journal.sqlite", isolation_level=None)
        assert file.execute(f"DELETE FROM events WHERE {where}").rowcount
        file.close()
        with pytest.raises(FileError, match="is damaged: .* were dropped, not"):
            make_service(copy, cluster=FEW)


def test_the_sums_on_the_command_line(few, command, tmp_path):
    code, shown = command(few, "usage")
    assert code == 0 and all(word in shown for word in ("alice", "bob", "GPU hours", "0.06"))
    printed, path = json.loads(command(few, "usage", "--json")[1]), tmp_path / "usage.json"
    assert printed[0]["gpu_seconds"] == 200.0
    assert command(few, "usage", "--json", path)[1] == shown and json.loads(path.read_text()) == printed
    assert len(events(few)) > 0
