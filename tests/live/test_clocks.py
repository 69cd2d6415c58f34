"""Clocks that were changed while the service was down."""

import pytest

from support.live_cases import ELASTIC, RIGID, events, look, make_service, named, notes, report, step
from support.play_again import play_again


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
    times = [event.time for event in events(later)]
    assert times == sorted(times)
    later.close()
    clock.time += by
    last = make_service(tmp_path, backend, clock)
    assert last.record.now() >= times[-1]
    last.close()
    assert play_again(tmp_path) == (2, [])
