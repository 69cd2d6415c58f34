"""Held jobs, and changes of several jobs by patterns: all or nothing, also while the policy decides."""

import fnmatch

import pytest

from copter.live.admission import RefusedError
from copter.live.tokens import Author
from copter.live.views import job_view, jobs_view
from support.live_cases import RIGID, asked, begin, events, named, statuses, step

ALICE, BOB, EYES = Author("alice", "user"), Author("bob", "user"), Author("eyes", "read")


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
    begin(service, RIGID, "over")
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


def test_over_http(service, http):
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
