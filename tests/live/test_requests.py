"""Requests of users: patterns, jobs that start after others, dry runs, and all of them at random."""

import contextlib
import fnmatch
import random
from collections import Counter

import pytest

from copter.live.admission import RefusedError
from copter.live.events import Closed, Decided, Launched, Submitted
from copter.live.tokens import Author
from copter.live.views import job_view, jobs_view
from support.live_cases import (
    ELASTIC,
    RIGID,
    act_while_deciding,
    asked,
    begin,
    events,
    look,
    make_service,
    named,
    restarted,
    statuses,
    step,
    viewed,
    would_start,
)
from support.play_again import play_again

ALICE, BOB, EYES = Author("alice", "user"), Author("bob", "user"), Author("eyes", "read")


@pytest.mark.parametrize(
    ("names", "status", "words"),
    [
        (["nobody"], 404, "no job 'nobody'"),
        (["over"], 409, "'over' has ended"),
        (["queued", "nobody"], 404, "'nobody'"),
        (["queued", "over"], 409, "'over'"),
        (["x*"], 404, "can cancel matches 'x*'"),
    ],
)
def test_what_cannot_be_done_changes_nothing(service, names, status, words):
    begin(service, RIGID, "over")
    service.admission.cancel("over")
    service.admission.submit(named(RIGID, "queued"))
    before = events(service)
    with pytest.raises(RefusedError, match=words.replace("*", r"\*")) as raised:
        service.admission.cancel(*names)
    assert raised.value.status == status and events(service) == before


def test_users_change_their_own_jobs_and_patterns_mean_those(service):
    for owner in (ALICE, BOB):
        for number in range(3):
            service.admission.submit(named(RIGID, f"{owner.name}-{number}"), owner)
    admission = service.admission
    before = events(service)
    with pytest.raises(RefusedError, match="belongs to 'alice'") as raised:
        admission.cancel("alice-0", "bob-*", author=BOB)
    assert raised.value.status == 403
    with pytest.raises(RefusedError, match="'read'"):
        admission.cancel("*", author=EYES)
    assert events(service) == before
    assert admission.cancel("*-1", "bob-?", author=BOB) == ["bob-1", "bob-0", "bob-2"]
    assert admission.cancel("*-[12]", author=ALICE) == ["alice-1", "alice-2"]
    assert admission.cancel("alice-0", "*-0", "*") == ["alice-0"]
    assert set(statuses(service).values()) == {"cancelled"}


def test_patterns_are_few_and_cost_little(service, monkeypatch):
    service.admission.submit(named(RIGID, "alice"), ALICE, 200)
    service.admission.submit(named(RIGID, "bob"), BOB, 5)
    before, compared = events(service), []
    with pytest.raises(RefusedError, match="jobs: 101 patterns: must be at most 100") as raised:
        service.admission.cancel(*(f"bob-{'?' * number}*" for number in range(101)), author=BOB)
    assert raised.value.status == 422 and events(service) == before
    matching = fnmatch.filter
    monkeypatch.setattr(
        fnmatch, "filter", lambda names, one: (compared.extend(names), matching(names, one))[1]
    )
    made = []
    monkeypatch.setattr(RefusedError, "__init__", lambda self, status, why: made.append(why))
    ended = service.admission.cancel(*["*"] * 10_000, *["bob-0"] * 1000, "b*", author=BOB)
    assert ended == [f"bob-{index}" for index in range(5)]
    assert len(compared) == 10 and not made


def test_over_http(service, http):
    for number in range(3):
        service.admission.submit(named(RIGID, f"one-{number}"))
    assert http.post("/v1/cancel", json={"jobs": ["one-1"]}).json() == {"names": ["one-1"]}
    before = events(service)
    answer = http.post("/v1/cancel", json={"jobs": ["one-0", "one-1"]})
    assert answer.status_code == 409 and "'one-1'" in answer.json()["error"]
    for body in ({"jobs": []}, {"jobs": ["../x"]}, {"jobs": "one-1"}, {"jobs": [1]}, {}, {"job": ["one-1"]}):
        assert http.post("/v1/cancel", json=body).status_code == 422, body
    assert events(service) == before
    assert http.post("/v1/cancel", json={"jobs": ["one-*"]}).json()["names"] == ["one-0", "one-2"]


def submit(service, name, *after, **changes):
    return service.admission.submit(named(RIGID, name, after=after, **changes))


def test_a_job_starts_after_all_others_have_completed(service):
    submit(service, "a")
    submit(service, "b")
    submit(service, "c", "a", "b")
    for _ in range(2):
        step(service, 60.0)
    assert statuses(service) == {"a": "running", "b": "running", "c": "queued"}
    assert viewed(job_view, service.record, "c")["reason"] == "after a, b"
    answer = asked(service, "c")
    assert "It starts after these jobs have completed: a (running), b (running)." in answer["sentences"]
    assert answer["position"] is None
    service.backend.end("a.1")
    step(service, 60.0)
    assert statuses(service) == {"a": "completed", "b": "running", "c": "queued"}
    assert viewed(job_view, service.record, "c")["reason"] == "after b"
    service.backend.end("b.1")
    look(service)
    step(service, 60.0)
    assert statuses(service) == {"a": "completed", "b": "completed", "c": "running"}
    submit(service, "d", "a")  # it has completed already
    step(service, 60.0)
    assert statuses(service)["d"] == "running"


def test_what_waits_for_a_cancelled_job_is_cancelled_in_the_same_transaction(service):
    submit(service, "a")
    step(service)
    submit(service, "b", "a")
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
    assert statuses(service) == dict.fromkeys("abcd", "cancelled") | {"other": "queued"}
    assert not any(service.record.state.dependents.values())


def test_what_is_refused(service):
    for name in ("a", "b"):
        submit(service, name, retries=0)
    step(service)
    service.backend.end("a.1", "failed", "exit code 1")
    look(service)
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


def said(service, **changes):
    job = service.admission.dry_run(named(RIGID, "new", **changes))
    return " ".join(would_start(service, job))


def test_a_job_that_would_wait(service):
    for number in range(3):
        service.admission.submit(named(RIGID, f"big-{number}", gpus=4))
    step(service)
    begin(service, RIGID, "queued", gpus=4)
    given = service.record.state.given()
    assert sum(given.values()) == 12
    text = said(service, gpus=1, after=["big-0", "queued"])
    assert "not given to any job: 0 a100, 0 t4." in text
    assert "It would start after these jobs have completed: big-0, queued." in text


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"gpus": 99}, 422), ({"types": ["h100"]}, 422), ({"after": ["nobody"]}, 422), ({}, 409)],
)
def test_a_dry_run_is_refused_as_the_submission(service, changes, status):
    begin(service, RIGID, "there", gpus=1)
    file = named(RIGID, "new" if changes else "there", **changes)
    with pytest.raises(RefusedError) as dry:
        service.admission.dry_run(file)
    with pytest.raises(RefusedError) as real:
        service.admission.submit(file)
    assert str(dry.value) == str(real.value) and dry.value.status == real.value.status == status


def test_a_refusal_by_the_rule_of_a_policy_names_the_policy_and_another(tmp_path, service):
    with pytest.raises(RefusedError, match="policy 'sia' never gives a job 3 GPUs here; 'queue' does"):
        service.admission.submit(named(RIGID, "three", gpus=3))
    make_service(tmp_path / "queue", policy="queue").admission.submit(named(RIGID, "three", gpus=3))


def test_on_the_command_line(tmp_path, service, command):
    file = tmp_path / "job.toml"
    file.write_text('command = ["true"]\nname = "new"\ngpus = 2\n')
    code, shown = command(service, "submit", file, "--dry-run")
    assert code == 0 and "It needs 2 GPUs of one type" in shown
    assert not service.record.state.jobs
    assert command(service, "submit", file, "--dry-run", "--array", "2")[0] == 2


def check_events(service):
    """Check that jobs got nothing before their predecessors completed; count what happened."""
    after, ending, launched, seen = {}, {}, set(), Counter()
    for event in events(service):
        seen[type(event)] += 1
        if isinstance(event, Submitted):
            after[event.job] = event.file.after
        elif isinstance(event, Closed):
            ending[event.job] = event.ending
        elif isinstance(event, Launched):
            launched.add(event.job)
            assert all(ending.get(name) == "completed" for name in after[event.job])
        elif isinstance(event, Decided):
            assert not event.error
    waited = {name for name, names in after.items() if names}
    seen["launched after others"] = len(launched & waited)
    for name in waited:
        if any(ending.get(one, "completed") != "completed" for one in after[name]):
            assert ending[name] == "cancelled" or name in launched
    return seen + Counter(ending.values())


def shown(service):
    """Return what is shown of all jobs, and since when the eligible ones wait."""
    keys = ("name", "status", "reason", "owner", "gpus", "runs", "restarts")
    views = [[view[key] for key in keys] for view in viewed(jobs_view, service.record, True, 999)]
    return views, {name: job.eligible_since for name, job in service.record.state.eligible.items()}


@pytest.mark.parametrize("policy", ["sia", "pollux", "afs-l", "tiresias", "shockwave", "queue"])
@pytest.mark.parametrize("seed", range(2))
def test_random_requests(tmp_path, policy, seed):
    draw, waited = random.Random(f"{seed} {policy}"), 0
    service = make_service(tmp_path, policy=policy)

    def request():
        jobs = service.record.state.jobs
        with contextlib.suppress(RefusedError):
            if draw.random() < 0.7:
                after = draw.sample(list(jobs), min(len(jobs), draw.choice([0, 0, 1, 1, 2])))
                file = draw.choice([named(RIGID, "x", gpus=1), named(ELASTIC, "x", preemptible=True)])
                service.admission.submit(named(file, f"job-{len(events(service))}", after=after, retries=0))
            elif jobs:
                service.admission.cancel(draw.choice(list(jobs)))

    for number in range(40):
        act_while_deciding(service, request)
        for _ in range(draw.randrange(4)):
            request()
        go = step if service.record.state.eligible else look  # as the service's own loop
        go(service, draw.uniform(1.0, 90.0))
        alive = sorted(set(service.backend.runs) - set(service.backend.ended))
        for run in draw.sample(alive, min(len(alive), 2)):
            service.backend.end(run, *draw.choice([("completed",)] * 4 + [("failed", "exit code 1")]))
        look(service, 1.0)
        now = sum(bool(job.file.after) for job in service.record.state.eligible.values())
        if number % 10 == 9 or (now and draw.random() < 0.5):
            before, waited = shown(service), waited + now
            service = restarted(service)
            assert shown(service) == before
    seen = check_events(service)
    wanted = (Launched, Decided, "launched after others", "cancelled", "failed", "completed")
    assert not [what for what in wanted if not seen[what]] and waited, seen
    service.close()
    rounds, different = play_again(tmp_path)
    assert rounds > 10 and not different
