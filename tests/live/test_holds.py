"""Held jobs, and changes of several jobs by patterns: all or nothing, also while the policy decides."""

import fnmatch
import random

import pytest
from fastapi.testclient import TestClient

from copter.live.admission import RefusedError
from copter.live.events import Decided, Held, Launched, Released
from copter.live.http import make_app
from copter.live.replay import play_again
from copter.live.tokens import Author
from copter.live.views import job_view, jobs_view
from support.live_cases import ELASTIC, RIGID, act_while_deciding, asked, look, make_service, named, step

ALICE, BOB, EYES = Author("alice", "user"), Author("bob", "user"), Author("eyes", "read")


@pytest.fixture
def service(tmp_path):
    made = make_service(tmp_path)
    yield made
    made.close()


def statuses(service):
    return {view["name"]: view["status"] for view in jobs_view(service.record, True, 99)}


def events(service):
    return list(service.record.journal.events())


def test_a_held_job_gets_nothing_before_it_is_released(service):
    service.admission.submit(named(RIGID, "one"))
    service.admission.submit(named(RIGID, "two"))
    assert service.admission.hold("one", author=Author("root", "admin")) == ["one"]
    for _ in range(3):
        step(service, 60.0)
    assert statuses(service) == {"one": "queued", "two": "running"}
    view = job_view(service.record, "one")
    assert view["held"] and view["reason"] == "held by root"
    answer = asked(service, "one")
    said = "It has been held for 180 s by 'root': no policy gives it GPUs before it is released"
    assert any(one.startswith(said) for one in answer["sentences"]) and answer["position"] is None
    assert not any("got no GPUs" in one for one in answer["sentences"])
    assert service.admission.release("one") == ["one"]
    step(service)
    assert statuses(service) == {"one": "running", "two": "running"}
    assert not job_view(service.record, "one")["held"]


def test_no_round_is_asked_if_all_jobs_are_held(service):
    service.admission.submit(named(RIGID, "one"))
    service.admission.hold("one")
    assert not service.record.state.eligible
    service.record.changed.clear()
    service.admission.release("one")
    assert service.record.changed.is_set()  # a policy without rounds is asked now


@pytest.mark.parametrize(
    ("change", "names", "status", "words"),
    [
        ("hold", ["running"], 409, "'running' is running: only a queued job"),
        ("hold", ["held"], 409, "'held' is held already"),
        ("release", ["queued"], 409, "'queued' is not held"),
        ("hold", ["nobody"], 404, "no job 'nobody'"),
        ("hold", ["over"], 409, "'over' has ended"),
        ("release", ["over"], 409, "'over' has ended"),
        ("hold", ["queued", "nobody"], 404, "'nobody'"),
        ("cancel", ["queued", "over"], 409, "'over'"),
        ("cancel", ["x*"], 404, "'x*'"),
        ("hold", ["run*"], 404, "can hold and that matches 'run*'"),
        ("release", ["queued", "held"], 409, "'queued'"),
    ],
)
@pytest.mark.parametrize("deciding", [False, True])
def test_what_cannot_be_done_changes_nothing(service, change, names, status, words, deciding):
    service.admission.submit(named(RIGID, "running"))
    service.admission.submit(named(RIGID, "over"))
    step(service)
    service.admission.cancel("over")
    service.record.deciding = deciding
    service.admission.submit(named(RIGID, "queued"))
    service.admission.submit(named(RIGID, "held"))
    service.admission.hold("held")
    before = events(service)
    with pytest.raises(RefusedError, match=words.replace("*", r"\*")) as raised:
        getattr(service.admission, change)(*names)
    assert raised.value.status == status and events(service) == before


def test_users_change_their_own_jobs_and_patterns_mean_those(service):
    for owner in (ALICE, BOB):
        for number in range(3):
            service.admission.submit(named(RIGID, f"{owner.name}-{number}"), owner)
    admission = service.admission
    assert admission.hold("*-[12]", author=ALICE) == ["alice-1", "alice-2"]
    assert admission.hold("*-1", "bob-?", author=BOB) == ["bob-1", "bob-0", "bob-2"]
    before = events(service)
    for change in (admission.hold, admission.release, admission.cancel):
        with pytest.raises(RefusedError, match="belongs to 'alice'") as raised:
            change("alice-0", "bob-*", author=BOB)
        assert raised.value.status == 403
        with pytest.raises(RefusedError, match="'read'"):
            change("*", author=EYES)
    assert events(service) == before
    assert admission.release("*", author=ALICE) == ["alice-1", "alice-2"]
    assert admission.cancel("*", author=BOB) == ["bob-0", "bob-1", "bob-2"]
    assert admission.cancel("alice-0", "*-0", "*") == ["alice-0", "alice-1", "alice-2"]
    assert set(statuses(service).values()) == {"cancelled"}


def test_a_job_that_is_held_while_the_policy_decides_is_not_started(service):
    service.admission.submit(named(RIGID, "one"))
    service.admission.submit(named(RIGID, "two"))
    policy, answer = service.rounds.policy, service.rounds.policy.schedule

    def meanwhile(now):
        wanted = answer(now)
        assert set(wanted) == {"one", "two"}
        service.admission.hold("one")
        assert service.record.is_held("one") and not service.record.is_held("two")
        return wanted

    policy.schedule = meanwhile
    step(service)
    assert statuses(service) == {"one": "queued", "two": "running"}
    policy.schedule = answer
    step(service, 60.0)
    service.admission.release("one")
    step(service, 60.0)
    assert statuses(service) == {"one": "running", "two": "running"}
    service.record.journal.flush()
    assert play_again(service.folder) == (3, [])


@pytest.mark.parametrize("deciding", [False, True])
def test_a_job_may_be_held_from_the_beginning(service, deciding):
    written = []
    add = service.record.journal.add
    service.record.journal.add = lambda *these, **more: (written.append(these), add(*these, **more))
    service.record.deciding = deciding
    service.admission.submit(named(RIGID, "one"), BOB, hold=True)
    assert [[type(event).__name__ for event in one] for one in written] == [["Submitted", "Held"]]
    assert service.record.is_held("one") and not service.record.state.eligible
    assert service.admission.release("one", author=BOB) == ["one"]
    assert not service.record.is_held("one")


def test_a_job_that_is_held_or_waits_is_described_before_the_policy_has_decided(service):
    service.admission.submit(named(RIGID, "first"))
    service.record.deciding = True
    service.admission.submit(named(RIGID, "free"))
    service.admission.submit(named(RIGID, "one", after=("first",)), BOB, hold=True)
    reasons = {view["name"]: (view["held"], view["reason"]) for view in jobs_view(service.record, False, 9)}
    assert reasons["one"] == (True, "held by bob; after first") and reasons["free"] == (False, "")

    def sentences(name):
        return asked(service, name)["sentences"]

    begin = "It was submitted while the policy was deciding; "
    assert sentences("one") == [begin + "no policy considers it yet: held by bob; after first."]
    assert sentences("free") == [begin + "the next round is the first to consider it."]


def test_patterns_are_few_and_cost_little(service, monkeypatch):
    service.admission.submit_array(named(RIGID, "alice"), 200, ALICE)
    service.admission.submit_array(named(RIGID, "bob"), 5, BOB)
    before, compared = events(service), []
    with pytest.raises(RefusedError, match="jobs: 101 patterns: must be at most 100") as raised:
        service.admission.hold(*(f"bob-{'?' * number}*" for number in range(101)), author=BOB)
    assert raised.value.status == 422 and events(service) == before
    matching = fnmatch.filter
    monkeypatch.setattr(
        fnmatch, "filter", lambda names, one: (compared.extend(names), matching(names, one))[1]
    )
    made = []
    monkeypatch.setattr(RefusedError, "__init__", lambda self, status, why: made.append(why))
    held = service.admission.hold(*["*"] * 10_000, *["bob-0"] * 1000, "b*", author=BOB)
    assert held == [f"bob-{index}" for index in range(5)]
    assert len(compared) == 10 and not made


def test_a_request_over_many_jobs_reads_the_waiting_events_a_few_times(service):
    reads = []

    class Waiting(list):
        def __iter__(self):
            reads.append("forward")
            return super().__iter__()

        def __reversed__(self):
            reads.append("backward")
            return super().__reversed__()

    service.record.deciding = True
    service.record._waiting = Waiting()
    service.admission.submit_array(named(RIGID, "a"), 50)
    service.admission.submit(named(RIGID, "b", after=tuple(f"a-{index}" for index in range(50))))
    service.admission.hold("*")
    service.admission.release(*(f"a-{index}" for index in range(50)))
    assert service.admission.hold("a-*") and service.record.is_held("b")
    service.admission.cancel("*")
    assert len(reads) < 20


def test_over_http(service):
    http = TestClient(make_app(service), raise_server_exceptions=False)
    http.headers["Authorization"] = f"Bearer {service.token}"
    for number in range(3):
        service.admission.submit(named(RIGID, f"one-{number}"))
    assert http.post("/v1/hold", json={"jobs": ["one-*"]}).json() == {"names": ["one-0", "one-1", "one-2"]}
    assert http.post("/v1/release", json={"jobs": ["one-1"]}).json() == {"names": ["one-1"]}
    before = events(service)
    answer = http.post("/v1/release", json={"jobs": ["one-0", "one-1"]})
    assert answer.status_code == 409 and "'one-1'" in answer.json()["error"]
    for body in ({"jobs": []}, {"jobs": ["../x"]}, {"jobs": "one-1"}, {"jobs": [1]}, {}, {"job": ["one-1"]}):
        assert http.post("/v1/cancel", json=body).status_code == 422, body
    assert events(service) == before
    assert http.post("/v1/cancel", json={"jobs": ["one-*"]}).json()["names"] == ["one-0", "one-1", "one-2"]


@pytest.mark.parametrize("policy", ["sia", "pollux", "afs-l", "tiresias", "shockwave", "queue"])
@pytest.mark.parametrize("seed", range(2))
def test_held_jobs_never_start_and_the_record_says_the_same(tmp_path, policy, seed):
    """Random requests, also while the policy decides; then a restart and a replay."""
    draw = random.Random(f"{seed} {policy}")
    service = make_service(tmp_path, policy=policy)

    def request():
        jobs = service.record.state.jobs
        kind = draw.choice(["submit", "submit", "hold", "hold", "release", "cancel"])
        try:
            if kind == "submit":
                file = draw.choice([RIGID, named(ELASTIC, "x", preemptible=True)])
                service.admission.submit(named(file, f"job-{len(events(service))}"))
            elif jobs:
                held = [name for name, job in jobs.items() if job.hold is not None]
                getattr(service.admission, kind)(draw.choice(kind == "release" and held or list(jobs)))
        except RefusedError:
            pass

    for _ in range(30):
        act_while_deciding(service, request)
        for _ in range(draw.randrange(4)):
            request()
        go = step if service.record.state.eligible else look  # as the service's own loop
        go(service, draw.uniform(1.0, 90.0))
        for run in draw.sample(sorted(service.backend.runs), min(len(service.backend.runs), 1)):
            service.backend.end(run)
        look(service, 1.0)
    held, seen = set(), set()
    for _, event in events(service):
        seen.add(type(event))
        if isinstance(event, Held):
            held.add(event.job)
        elif isinstance(event, Released):
            held.discard(event.job)
        elif isinstance(event, Launched):
            assert event.job not in held
        elif isinstance(event, Decided):
            assert not event.error and not held & {name for name, place in event.places.items() if place}
    assert seen >= {Held, Released, Launched, Decided}
    views = jobs_view(service.record, True, 999)
    service.close()
    later = make_service(tmp_path, service.backend, service.record.clock, policy=policy)
    try:
        kept = ("name", "status", "held", "reason", "owner", "gpus", "runs", "restarts")
        again = jobs_view(later.record, True, 999)
        assert [{key: one[key] for key in kept} for one in again] == [
            {key: one[key] for key in kept} for one in views
        ]
        assert list(later.record.state.eligible) == [
            name for name, job in later.record.state.jobs.items() if job.hold is None
        ]
        (step if later.record.state.eligible else look)(later, 60.0)
    finally:
        later.close()
    rounds, different = play_again(tmp_path)
    assert rounds >= 15 and not different
