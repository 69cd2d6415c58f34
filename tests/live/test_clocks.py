"""Clocks that were changed while the service was down."""

import pytest

from copter.live.events import Noted
from copter.live.replay import play_again
from support.live_cases import ELASTIC, RIGID, look, make_service, named, report, step


def notes(service):
    return [event.text for _, event in service.record.journal.events(kind=Noted.__name__)]


@pytest.mark.parametrize("by", [-3600.0, -2.0, -0.5, 0.0, 3600.0])
def test_times_go_on_whatever_the_clock_says_at_the_start(tmp_path, by):
    service = make_service(tmp_path)
    clock, backend = service.record.clock, service.backend
    service.admission.submit(named(ELASTIC, "one"))
    step(service, 60.0)
    service.admission.report("one", 1, report(7.0))
    before = service.record.now()
    service.close()
    clock.time += by
    later = make_service(tmp_path, backend, clock)
    begin = later.record.now()
    assert begin == pytest.approx(before + max(by, 0.0))
    assert sum("set back" in text for text in notes(later)) == (by <= -1.0)
    clock.time += 10.0
    assert later.record.now() == pytest.approx(begin + 10.0)
    later.admission.submit(named(RIGID, "two"))
    step(later, 60.0)
    assert later.record.state.jobs["two"].status == "running"
    backend.end("two.1", "failed", "exit code 1")
    look(later)
    look(later, 2.0)
    assert backend.started[-1].id == "two.2"  # its pause has passed
    times = [event.time for _, event in later.record.journal.events()]
    assert times == sorted(times)
    later.close()
    clock.time += by
    last = make_service(tmp_path, backend, clock)
    assert last.record.now() >= times[-1]
    last.close()
    assert play_again(tmp_path) == (2, [])


def test_reports_of_ended_jobs_count_as_the_last_event(tmp_path):
    service = make_service(tmp_path)
    clock, backend = service.record.clock, service.backend
    service.admission.submit(named(ELASTIC, "one"))
    step(service)
    service.admission.cancel("one")
    look(service)
    service.record.note("later")
    clock.time += 100.0
    service.record.note("much later")
    service.close()
    clock.time -= 1000.0
    later = make_service(tmp_path, backend, clock)
    assert later.record.now() == pytest.approx(101.0)
    later.close()
