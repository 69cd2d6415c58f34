"""What is reported, what is made up for, and when a lease is over; the clock is the test's."""

import math

import pytest

from copter.live.training.plan import Batch, StepTimes, TrainingPlan, TrainingReport
from copter.live.training.reporting import Reporter
from support.training_runs import Service, orders

pytestmark = pytest.mark.cluster


@pytest.fixture
def service():
    service = Service()
    yield service
    service.close()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def report(steps):
    return TrainingReport(float(steps), steps, 1.0, (), None, None, 8, 0.0)


def make(url, clock, lease=10.0):
    plan = TrainingPlan(url, "word", "", 1, 10.0, 8, Batch(8, 0, 1.0), lease_seconds=lease)
    return Reporter(plan, report(0), clock)


def test_times_are_reported_once_and_lost_ones_again(service):
    reporter = make(service.url, Clock())
    reporter.note(report(1), 8, None)
    reporter.note(report(2), 8, 1.0)
    service.answer = lambda posts: (503, {})
    reporter.post()
    reporter.note(report(3), 8, math.e)
    reporter.note(report(4), 4, 1.0)
    service.answer = lambda posts: (200, orders())
    reporter.post()
    reporter.post()
    first, second, third = service.posts
    assert first["times"] == [{"local_batch": 8, "count": 1, "log_seconds": 0.0}] and first["steps"] == 2
    assert [StepTimes(**times) for times in second["times"]] == [StepTimes(4, 1, 0.0), StepTimes(8, 2, 0.5)]
    assert (second["steps"], third["steps"], third["times"]) == (4, 4, [])


def test_a_lease_runs_from_the_report_that_was_answered(service):
    clock = Clock()
    reporter = make(service.url, clock)
    service.answer = lambda posts: (200, orders(lease_seconds=3.0))
    clock.now = 9.0
    assert not reporter.lease_over()
    reporter.post()
    clock.now = 11.9
    assert not reporter.lease_over()
    service.answer = lambda posts: (500, {})
    reporter.post()
    clock.now = 12.0
    assert reporter.lease_over()
    service.answer = lambda posts: (200, orders())
    reporter.post()
    assert not reporter.lease_over() and not reporter.stop


@pytest.mark.parametrize("status", [403, 404, 409, 410])
def test_a_run_that_has_no_right_any_more_stops(service, status):
    service.answer = lambda posts: (status, {"detail": "who?"})
    reporter = make(service.url, Clock())
    reporter.post()
    assert reporter.stop


def test_the_token_is_not_sent_to_another_address(service):
    other = Service()
    service.headers = {"Location": other.url}
    service.answer = lambda posts: (302, {})
    make(service.url, Clock()).post()
    assert len(service.posts) == 1 and not other.posts and not other.gets
    other.close()


@pytest.mark.parametrize(
    "answer",
    [(401, {}), (422, {}), (302, {}), (200, {}), (200, []), (200, orders(lease_seconds="soon"))]
    + [(200, orders(batch=[0, 0, 1.0]))],
)
def test_answers_without_sense_are_none(service, answer, capsys):
    service.answer = lambda posts: answer
    reporter = make(service.url, Clock())
    reporter.note(report(1), 8, 1.0)
    reporter.post()
    reporter.post()
    assert not reporter.stop and reporter.ordered_batch() is None
    assert capsys.readouterr().err.count("reports fail") == 1
    service.answer = lambda posts: (200, orders(batch=Batch(2, 1, 1.5)))
    reporter.post()
    assert service.reports[-1]["times"][0]["count"] == 1
    assert "reports succeed again" in capsys.readouterr().err
    assert reporter.ordered_batch() == Batch(2, 1, 1.5) and reporter.ordered_batch() is None
