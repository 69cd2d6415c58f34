"""Policies that raise anything, never return or change their input: the service and its jobs go on."""

import asyncio
import threading

import pytest

import copter.live.rounds as live_rounds
from copter.live.events import Closed, Decided, Ended, Opened
from copter.problems.cluster.cluster import Configuration
from support.live_cases import CLUSTER, RIGID, begin, events, http_of, look, make_service, named, notes, step
from support.play_again import play_again


class _Odd(BaseException):
    def __str__(self):
        raise _Odd


NOTHING = staticmethod(lambda *_: None)


class _Policy:
    """First come, first served; `schedule` and the constructor first call a function of the test."""

    name, kind, round_seconds = "plain", "rigid", 60.0
    first = made = NOTHING

    def __init__(self):
        self.made()

    def schedule(self, now):
        answer = self.first(now)
        if answer is not None:
            return answer
        free, wanted = dict(now.cluster.capacity), {}
        for name, job in now.jobs.items():
            held = job.allocation or Configuration(1, job.gpus, "a100" if free["a100"] >= job.gpus else "t4")
            if free[held.type] >= held.gpus:
                wanted[name], free[held.type] = held, free[held.type] - held.gpus
        return wanted


@pytest.fixture
def policy(monkeypatch):
    """Return the class of the policies that services make; each test changes a class of its own."""
    kind = type("_OwnPolicy", (_Policy,), {})
    monkeypatch.setattr(live_rounds, "make_policy", lambda name: kind())
    monkeypatch.setattr("support.play_again.make_policy", lambda name: kind())
    return kind


@pytest.fixture
def hangs():
    """Return a function that returns only after the test."""
    over = threading.Event()
    yield lambda *_: over.wait() and None
    over.set()


def raises(error):
    def fail(*_):
        raise error

    return staticmethod(fail)


ERRORS = (SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError, _Odd)


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), *(kind() for kind in ERRORS)], ids=repr)
def test_whatever_a_policy_raises_is_an_error_of_the_policy(tmp_path, policy, error):
    service = make_service(tmp_path, policy="plain")
    begin(service, RIGID, "one")
    policy.first = raises(error)
    service.admission.submit(named(RIGID, "two"))
    step(service, 60.0)
    assert type(error).__name__ in service.trouble
    assert [job.status for job in service.record.state.jobs.values()] == ["running", "queued"]
    policy.first = NOTHING
    step(service, 60.0)
    assert not service.trouble
    assert [job.status for job in service.record.state.jobs.values()] == ["running", "running"]


@pytest.mark.parametrize("error", [KeyError("made"), SystemExit(3), StopIteration()], ids=repr)
def test_a_policy_that_cannot_be_made_again_is_made_later(tmp_path, policy, error):
    service = make_service(tmp_path, policy="plain")
    begin(service, RIGID, "one")
    policy.first, tries = raises(ZeroDivisionError()), []
    policy.made = staticmethod(lambda: tries.append(service.record.now()) or raises(error)())
    for _ in range(4):
        step(service, 1.0)
    assert len(tries) == 4 and len(notes(service)) == 2
    assert "a new policy cannot be made" in service.trouble and type(error).__name__ in service.trouble
    assert len(events(service, Decided)) == 2 and len(events(service, Opened)) == 1
    policy.first, policy.made = NOTHING, NOTHING
    step(service, 300.0)
    assert not service.trouble and service.record.state.jobs["one"].status == "running"


@pytest.mark.parametrize(
    "answer",
    [
        lambda now: now.jobs.clear(),
        lambda now: now.jobs.pop("one"),
        lambda now: [1, 2],
        lambda now: 7,
        lambda now: {"nobody": Configuration(1, 1, "a100")},
        lambda now: now.wakes.append("soon"),
    ],
)
def test_an_invalid_answer_changes_nothing(tmp_path, policy, answer):
    service = make_service(tmp_path, policy="plain")
    begin(service, RIGID, "one")
    policy.first = staticmethod(answer)
    step(service, 60.0)
    assert service.trouble and list(service.record.state.jobs) == ["one"]
    policy.first = NOTHING
    step(service, 60.0)
    assert not service.trouble and service.record.state.jobs["one"].status == "running"


def test_a_policy_that_does_not_return_is_abandoned(tmp_path, policy, hangs):
    cluster = CLUSTER.model_copy(update={"decision_seconds": 0.05})
    service = make_service(tmp_path, cluster=cluster, policy="plain")
    begin(service, RIGID, "one")
    former = service.rounds.policy
    asked = []

    def silent(now):
        asked.append(now)
        service.admission.submit(named(RIGID, "two"))
        service.admission.cancel("one")
        hangs()
        return {}

    policy.first = staticmethod(silent)
    step(service, 60.0)
    assert "no decision within 0.05 s" in service.trouble
    assert http_of(service).get("/health").status_code == 503
    assert list(service.record.state.jobs) == ["two"] and list(asked[0].jobs) == ["one"]
    assert service.backend.stopped == ["one.1"]
    assert service.rounds.policy is not former
    policy.first = NOTHING
    step(service, 60.0)
    assert not service.trouble and service.record.state.jobs["two"].status == "running"
    assert [bool(event.error) for event in events(service, Decided)] == [False, True, False]
    service.close()
    assert play_again(tmp_path) == (3, [])


def test_a_round_that_waits_for_a_silent_explanation_fails_and_the_next_one_decides(tmp_path, policy, hangs):
    cluster = CLUSTER.model_copy(update={"decision_seconds": 0.05})
    policy.why = lambda self, job: hangs()
    service = make_service(tmp_path, cluster=cluster, policy="plain")
    begin(service, RIGID, "one")
    former, outcomes = service.rounds.policy, []

    async def both():
        asking = asyncio.create_task(service.rounds.explain("one"))
        await asyncio.sleep(0)  # the call is in the thread
        await asyncio.wait_for(service.rounds.ask(), 10.0)
        outcomes.extend(await asyncio.gather(asking, return_exceptions=True))

    service.record.clock.time += 60.0
    asyncio.run(both())
    assert "no decision within 0.05 s" in str(outcomes[0])
    assert "no decision" in service.trouble
    assert service.rounds.policy is not former
    service.admission.submit(named(RIGID, "two"))
    step(service, 60.0)
    assert not service.trouble
    assert {job.status for job in service.record.state.jobs.values()} == {"running"}


def test_a_text_that_is_no_unicode_does_not_stop_the_events(tmp_path, policy):
    policy.first = raises(ValueError("\ud800" + "x" * 100_000))
    policy.why = lambda self, job: ["\ud800 is why"]
    service = make_service(tmp_path, policy="plain")
    begin(service, RIGID, "one")
    assert "ValueError: \\ud800x" in service.trouble and len(service.trouble) < 1000
    for path in ("/health", "/v1/cluster", "/v1/jobs/one/why"):
        assert http_of(service).get(path).status_code != 500, path
    policy.first = NOTHING
    step(service, 60.0)
    assert asyncio.run(service.rounds.explain("one")) == ["\\ud800 is why"]


def test_a_late_answer_is_ignored(tmp_path, policy):
    cluster = CLUSTER.model_copy(update={"decision_seconds": 0.05})
    service = make_service(tmp_path, cluster=cluster, policy="plain")
    begin(service, RIGID, "one")
    late, threads = threading.Event(), []
    policy.first = staticmethod(lambda now: threads.append(threading.current_thread()) or late.wait() and {})
    step(service, 60.0)
    policy.first = NOTHING
    late.set()
    threads[0].join()
    step(service, 60.0)
    assert not service.trouble and service.record.state.jobs["one"].status == "running"
    assert not service.backend.stopped


def run_until(service, reached):
    """Run a service until a condition holds."""

    async def go():
        task = asyncio.create_task(service.run())
        while not reached():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(go())


def test_a_policy_warms_up_in_its_thread_before_the_first_round(tmp_path, policy):
    calls = []
    policy.warm_up = lambda self: calls.append(("warm", threading.current_thread().name))
    policy.first = staticmethod(lambda now: calls.append(("first", threading.current_thread().name)))
    service = make_service(tmp_path, policy="plain")
    assert not calls  # the service answers before
    service.admission.submit(named(RIGID, "one"))
    run_until(service, lambda: len(calls) > 1)
    assert calls == [("warm", "policy"), ("first", "policy")]


def test_a_service_ends_while_its_policy_hangs(tmp_path, policy, hangs):
    service = make_service(tmp_path, policy="plain")
    service.admission.submit(named(RIGID, "one"))
    began = threading.Event()
    policy.first = staticmethod(lambda now: began.set() or hangs())

    async def go():
        task = asyncio.create_task(service.run())
        await asyncio.to_thread(began.wait)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(go())
    service.close()
    (thread,) = [one for one in threading.enumerate() if one.name == "policy"]
    assert thread.daemon


def deciding(service, policy, script):
    """Run a script, and ticks, while the policy decides."""
    done = threading.Event()
    asked = []
    policy.first = staticmethod(lambda now: asked.append(now) or done.wait() and None)

    async def go():
        service.record.clock.time += 60.0
        task = asyncio.create_task(service.rounds.ask())
        while not service.rounds.deciding:
            await asyncio.sleep(0)
        for act in script:
            act()
            for _ in range(3):
                await service.launcher.tick()
        assert service.rounds.deciding
        done.set()
        await task

    asyncio.run(go())
    policy.first = NOTHING
    return asked[0]


def test_a_cancelled_job_is_stopped_while_the_policy_decides(tmp_path, policy):
    service = make_service(tmp_path, policy="plain")
    service.admission.submit(named(RIGID, "one"))
    begin(service, RIGID, "two")
    seen = []
    script = [
        lambda: service.admission.drain("t4", 1),
        lambda: service.admission.drain("t4", 0),
        lambda: service.admission.drain("t4", 0, back=True),
        lambda: service.admission.cancel("one"),
        lambda: seen.append((list(service.backend.stopped), set(service.record.state.jobs))),
    ]
    held = service.record.state.jobs["one"].target
    asked = deciding(service, policy, script)
    assert set(asked.jobs) == {"one", "two"} and asked.jobs["one"].target == held
    assert seen == [(["one.1"], {"two"})] and service.record.state.drained == {("t4", 1)}
    assert [(event.job, event.number) for event in events(service, Ended)] == [("one", 1)]
    assert [event.ending for event in events(service, Closed)] == ["cancelled"]
    assert not service.record.state.leftover and len(service.record.state.free()["a100", 0]) == 2
    look(service)
    step(service, 60.0)
    assert service.record.state.jobs["two"].status == "running" and not service.trouble
    service.close()
    assert play_again(tmp_path)[1] == []


def test_a_policy_that_cannot_warm_up_is_replaced(tmp_path, policy):
    policy.warm_up = raises(ZeroDivisionError("oops"))
    service = make_service(tmp_path, policy="plain")
    former = service.rounds.policy
    service.admission.submit(named(RIGID, "one"))
    run_until(service, lambda: service.record.state.jobs["one"].status == "running")
    assert service.rounds.policy is not former and not service.trouble
    service.close()
