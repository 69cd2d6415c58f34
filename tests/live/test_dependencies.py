"""Jobs that start after others: when they start, what cancels them, and what is known after a restart."""

import pytest

from copter.live.admission import RefusedError
from copter.live.tokens import Author
from copter.live.views import job_view
from support.live_cases import RIGID, asked, events, look, named, statuses, step


def submit(service, name, *after, **changes):
    return service.admission.submit(named(RIGID, name, after=after, **changes))


def test_a_job_starts_after_all_others_have_completed(service):
    submit(service, "a")
    submit(service, "b")
    submit(service, "c", "a", "b")
    for _ in range(2):
        step(service, 60.0)
    assert statuses(service) == {"a": "running", "b": "running", "c": "queued"}
    assert job_view(service.record, "c")["reason"] == "after a, b"
    answer = asked(service, "c")
    assert "It starts after these jobs have completed: a (running), b (running)." in answer["sentences"]
    assert answer["position"] is None
    service.backend.end("a.1")
    step(service, 60.0)
    assert statuses(service) == {"a": "completed", "b": "running", "c": "queued"}
    assert job_view(service.record, "c")["reason"] == "after b"
    service.backend.end("b.1")
    look(service)
    step(service, 60.0)
    assert statuses(service) == {"a": "completed", "b": "completed", "c": "running"}
    submit(service, "d", "a")  # it has completed already
    step(service, 60.0)
    assert statuses(service)["d"] == "running"


@pytest.mark.parametrize("deciding", [False, True])
def test_what_waits_for_a_cancelled_job_is_cancelled_in_the_same_transaction(service, deciding):
    submit(service, "a")
    step(service)
    submit(service, "b", "a")
    service.record.deciding = deciding
    submit(service, "c", "b")
    submit(service, "d", "c", "a")
    submit(service, "other")
    written = []
    add = service.record.journal.add
    service.record.journal.add = lambda *these, **more: (written.append(these), add(*these, **more))
    service.admission.cancel("a", author=Author("root", "admin"))
    assert len(written) == 1
    closed = {event.job: event for event in written[0]}
    assert {name: event.author for name, event in closed.items()} == dict.fromkeys("abcd", "root")
    assert closed["b"].reason == "it was to start after 'a', which was cancelled"
    assert closed["c"].reason == "it was to start after 'b', which was cancelled"
    assert len(written[0]) == 4 and all(event.ending == "cancelled" for event in closed.values())
    with pytest.raises(RefusedError, match="'d' has ended"):
        service.admission.cancel("d")
    if not deciding:
        assert statuses(service) == dict.fromkeys("abcd", "cancelled") | {"other": "queued"}


def test_jobs_that_have_ended_depend_on_none(service):
    for name, after in (("a", ()), ("b", ()), ("c", ("a", "b")), ("d", ("a", "c"))):
        submit(service, name, *after)
    service.admission.cancel("d")
    assert {cause: list(jobs) for cause, jobs in service.record.state.dependents.items() if jobs} == {
        "a": ["c"],
        "b": ["c"],
    }
    service.admission.cancel("c")
    assert not any(service.record.state.dependents.values())


@pytest.mark.parametrize("deciding", [False, True])
def test_what_is_refused(service, deciding):
    for name in ("a", "b"):
        submit(service, name, retries=0)
    step(service)
    service.backend.end("a.1", "failed", "exit code 1")
    look(service)
    service.record.deciding = deciding
    service.admission.cancel("b")
    before = events(service)
    for after, status, words in (
        (("nobody",), 422, "after = 'nobody': there is no job"),
        (("new",), 422, "after = 'new': there is no job"),
        (("a",), 409, "after = 'a': must complete first, but failed"),
        (("b",), 409, "after = 'b': must complete first, but was cancelled"),
    ):
        with pytest.raises(RefusedError, match=words) as raised:
            submit(service, "new", *after)
        assert raised.value.status == status
    assert events(service) == before
