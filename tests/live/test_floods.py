"""Reports, bodies and connections without end: what one job sends costs the others little."""

import socket
import time

import pytest

from copter.live.admission import RefusedError
from copter.live.events import Reported
from copter.live.training.plan import StepTimes
from copter.problems.cluster.policy import Placement
from support.live_cases import ELASTIC, begin, make_service, named, report, step
from support.service_process import ServiceProcess

SECONDS = 60.0


@pytest.fixture
def service(tmp_path):
    made = make_service(tmp_path / "live")
    made.admission.submit(named(ELASTIC, "one"))
    begin(made, ELASTIC, "two")
    yield made
    made.close()


def accepted(service, count, times=()):
    """Send some reports at the same time; return how many were accepted."""
    for number in range(count):
        try:
            service.admission.report("one", 1, report(7.0, times=times))
        except RefusedError as refused:
            assert refused.status == 429 and "reports a second" in str(refused)
            return number
    return count


def test_a_run_that_reports_too_often_is_refused_and_others_are_not(service):
    assert accepted(service, 1000) == 200
    assert accepted(service, 1) == 0
    service.admission.report("two", 1, report(7.0))
    service.record.clock.time += 1.0
    assert accepted(service, 1000) == 40
    service.record.clock.time += 1e6
    for _ in range(400):  # twenty a second, the most that a job may ask for
        service.record.clock.time += 0.05
        assert accepted(service, 1) == 1
    service.record.clock.time += 100.0
    assert accepted(service, 1000, tuple(StepTimes(one, 1, 0.0) for one in range(1, 65))) == 200 // 17
    service.record.note("written")
    service.record.journal.flush()
    written = [event for _, event in service.record.journal.events(kind=Reported.__name__)]
    assert len(written) == 200 + 1 + 40 + 400 + 200 // 17


def test_only_so_many_batches_of_a_job_are_fitted(service):
    job = service.record.state.jobs["one"]
    for first in range(1, 1000, 50):
        service.record.clock.time += 60.0
        times = tuple(StepTimes(one, 1, 0.0) for one in range(first, first + 50))
        service.admission.report("one", 1, report(7.0, times=times))
    held = Placement(*job.run.place).configuration
    reports = job.learned.reports[held.type]
    last = [(1, held.gpus, one) for one in range(1000 - 255, 1001)]
    assert list(reports.keys) == last and len(reports.mean) == len(reports.count) == 256
    service.record.clock.time += 60.0
    service.admission.report("one", 1, report(7.0, times=(StepTimes(745, 4, 0.0), StepTimes(1, 4, 1.0))))
    assert list(reports.keys) == [*last[1:], (1, last[0][1], 1)]  # 745 is the oldest
    assert reports.count == [1] * 255 + [4] and reports.mean == [0.0] * 255 + [1.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("norm", [1e-300, 0.0, 1e300, -1e300])
@pytest.mark.parametrize("variance", [0.0, 1.0, 1e300])
def test_noise_at_the_ends_of_what_is_allowed(service, norm, variance):
    service.admission.report("one", 1, report(7.0, squared_norm=norm, variance=variance))
    assert 0.0 <= service.record.state.jobs["one"].noise <= 1e6 * 32
    step(service, 60.0)
    assert not service.trouble


# ---- requests -------------------------------------------------------------------------------------


@pytest.mark.cluster
def test_a_body_without_end_is_not_read(tmp_path):
    (tmp_path / "cluster.toml").write_text('gpus = [{ type = "a100", gpus_per_node = 2 }]')
    with (
        ServiceProcess(tmp_path / "live", tmp_path / "cluster.toml") as service,
        socket.create_connection(("127.0.0.1", service.port), SECONDS) as one,
    ):
        one.sendall(b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        began = time.monotonic()
        with pytest.raises(OSError, match="reset|[Bb]roken"):
            while time.monotonic() - began < SECONDS:
                one.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        assert time.monotonic() - began < 5.0  # not when a waiting connection is closed
