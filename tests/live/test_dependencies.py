"""Jobs that start after others: when they start, what cancels them, and what is known after a restart."""

import random
import shutil

import pytest

from copter.live.admission import RefusedError
from copter.live.events import Closed, Launched
from copter.live.replay import play_again
from copter.live.tokens import Author
from copter.live.views import job_view, jobs_view
from support.live_cases import RIGID, act_while_deciding, asked, look, make_service, named, step


@pytest.fixture
def service(tmp_path):
    made = make_service(tmp_path)
    yield made
    made.close()


def submit(service, name, *after, **changes):
    return service.admission.submit(named(RIGID, name, after=after, **changes))


def statuses(service):
    return {view["name"]: view["status"] for view in jobs_view(service.record, True, 999)}


def events(service):
    return list(service.record.journal.events())


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


def test_what_waits_for_a_job_that_fails_is_cancelled(service):
    submit(service, "a", retries=0)
    submit(service, "b", "a")
    step(service)
    service.backend.end("a.1", "failed", "exit code 1")
    look(service)
    assert statuses(service) == {"a": "failed", "b": "cancelled"}
    assert job_view(service.record, "b")["reason"] == "it was to start after 'a', which failed"


def test_retries_of_a_job_cancel_nothing(service):
    submit(service, "a", retries=1)
    submit(service, "b", "a")
    step(service)
    service.backend.end("a.1", "failed", "exit code 1")
    look(service)
    for _ in range(2):
        step(service, 60.0)
    assert statuses(service) == {"a": "running", "b": "queued"}


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


def test_a_held_job_waits_for_both(service):
    submit(service, "a")
    submit(service, "b", "a")
    service.admission.hold("b")
    assert job_view(service.record, "b")["reason"] == "held by admin; after a"
    step(service)
    service.backend.end("a.1")
    look(service)
    step(service, 60.0)
    assert statuses(service)["b"] == "queued"
    service.admission.release("b")
    step(service, 60.0)
    assert statuses(service)["b"] == "running"


def check_order(service):
    """Check that each job that was launched began after its predecessors, and that others were cancelled."""
    after, ending, launched = {}, {}, set()
    for _, event in events(service):
        if isinstance(event, Closed):
            ending[event.job] = event.ending
        elif isinstance(event, Launched):
            launched.add(event.job)
            assert all(ending.get(name) == "completed" for name in after[event.job])
        elif hasattr(event, "file"):
            after[event.job] = event.file["after"]
    waited = {name for name, names in after.items() if names}
    assert launched & waited and {"cancelled", "failed", "completed"} <= set(ending.values())
    for name in waited:
        if any(ending.get(one, "completed") != "completed" for one in after[name]):
            assert ending[name] == "cancelled" or name in launched


@pytest.mark.parametrize("policy", ["sia", "shockwave", "queue"])
@pytest.mark.parametrize("seed", range(2))
def test_random_graphs(tmp_path, policy, seed):
    """No job starts before its predecessors, and a service that is started again knows the same."""
    draw = random.Random(f"{seed} {policy}")
    service, seen = make_service(tmp_path / "0", policy=policy), 0

    def request():
        jobs = list(service.record.state.jobs)
        try:
            if draw.random() < 0.8:
                after = draw.sample(jobs, min(len(jobs), draw.choice([0, 0, 1, 1, 2])))
                submit(service, f"job-{len(events(service))}", *after, gpus=1, retries=0)
            elif jobs:
                service.admission.cancel(draw.choice(jobs))
        except RefusedError:
            pass

    for number in range(25):
        act_while_deciding(service, request)
        for _ in range(draw.randrange(4)):
            request()
        (step if service.record.state.eligible else look)(service, draw.uniform(1.0, 90.0))
        alive = sorted(set(service.backend.runs) - set(service.backend.ended))
        for run in draw.sample(alive, min(len(alive), 2)):
            service.backend.end(run, *draw.choice([("completed",)] * 4 + [("failed", "exit code 1")]))
        look(service, 1.0)
        if number % 8 == 7:
            views = jobs_view(service.record, True, 999)
            since = {name: job.eligible_since for name, job in service.record.state.eligible.items()}
            seen += sum(bool(job.file.after) for job in service.record.state.eligible.values())
            service.close()
            folder = tmp_path / str(number)
            shutil.copytree(service.folder, folder)
            service = make_service(folder, service.backend, service.record.clock, policy=policy)
            same = ("name", "status", "held", "reason", "owner", "gpus", "runs")
            assert [[one[key] for key in same] for one in jobs_view(service.record, True, 999)] == [
                [one[key] for key in same] for one in views
            ]
            assert {name: job.eligible_since for name, job in service.record.state.eligible.items()} == since
    check_order(service)
    service.close()
    rounds, different = play_again(service.folder)
    assert rounds > 10 and not different
    assert seen
