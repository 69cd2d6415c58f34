"""Time limits of jobs: what counts, what happens at the limit, and what is known after a restart."""

import pytest
import typer

from copter.live.cli import _seconds
from copter.live.events import Closed
from copter.live.views import job_view
from support.live_cases import CLUSTER, RIGID, asked, events, look, named, step, viewed


def limited(name="one", seconds=100.0, **changes):
    return named(RIGID, name, time_limit_seconds=seconds, **changes)


def of(service, kind, name="one"):
    return [event for event in events(service, kind) if event.job == name]


def status(service, name="one"):
    view = viewed(job_view, service.record, name)
    return view["status"], view["reason"]


@pytest.mark.parametrize("retries", [0, 5])
def test_a_job_that_has_used_its_time_is_stopped_then_killed_and_has_failed(service, retries):
    service.backend.ignores_stop = True
    service.admission.submit(limited(retries=retries))
    step(service)
    look(service, 98.0)
    assert status(service) == ("running", "") and not service.backend.stopped
    look(service, 2.0)
    assert status(service) == ("failed", "time limit of 100 s")
    assert service.backend.stopped == ["one.1"] and not service.backend.killed
    look(service, CLUSTER.grace_seconds)
    assert not service.backend.killed
    look(service, 1.0)
    assert service.backend.killed == ["one.1"]
    for _ in range(3):
        step(service, 100.0)
    assert len(service.backend.started) == 1 and not service.record.state.leftover
    (closed,) = of(service, Closed)
    assert (closed.ending, closed.author) == ("failed", "")


def test_the_time_of_all_runs_counts(service):
    service.admission.submit(limited(seconds=200.0, preemptible=True))
    step(service)
    for number in (1, 2, 3):
        look(service)
        service.record.clock.time += 60.0
        service.backend.end(f"one.{number}", "lost")
        look(service)
        assert service.record.state.jobs["one"].used_seconds == pytest.approx(60.0 * number, abs=1.0)
        step(service, 500.0)  # it waits for its next run
    look(service)
    look(service, 15.0)
    assert status(service)[0] == "running"
    look(service, 10.0)
    assert status(service)[0] == "failed"


@pytest.mark.parametrize("outcome", ["lost", "failed", "completed"])
def test_a_run_that_ends_just_after_the_limit_is_the_last(service, outcome):
    service.admission.submit(limited())
    step(service)
    look(service)
    service.record.clock.time += 100.5
    service.backend.end("one.1", outcome)
    look(service)
    expected = ("completed", "") if outcome == "completed" else ("failed", "time limit of 100 s")
    assert status(service) == expected
    step(service, 60.0)
    assert len(service.backend.started) == 1


def test_a_run_past_its_limit_is_killed_also_on_a_full_disk(service, disk):
    service.backend.ignores_stop = True
    service.admission.submit(limited(retries=0))
    step(service)
    look(service)
    disk.add("full")
    look(service, 101.0)
    assert service.backend.stopped == ["one.1"] and not service.backend.killed
    look(service, CLUSTER.grace_seconds + 1.0)
    assert service.backend.killed and status(service)[0] == "running"
    disk.clear()
    look(service)
    assert status(service) == ("failed", "time limit of 100 s")


def test_the_limit_is_shown(service):
    service.admission.submit(limited(seconds=1209600.0))
    step(service)
    look(service, 30.0)
    assert "It has run for 30 s of its time limit of 1209600 s." in asked(service, "one")["sentences"]
    assert viewed(job_view, service.record, "one")["used_seconds"] == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90m", 5400.0), ("2h", 7200.0), ("1d12h", 129600.0), ("1h30m5s", 5405.0), ("45s", 45.0)],
)
def test_times_of_the_command_line(text, seconds):
    assert _seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "1.5h", "-2h", "2h1d", "2 h", "٣h", "2w"])
def test_times_without_a_meaning_are_refused(text):
    with pytest.raises(typer.BadParameter, match="such as 90m"):
        _seconds(text)
