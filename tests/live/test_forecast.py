"""Estimated starts: they hold if jobs run as declared, and trouble of policy or process is told."""

import asyncio
import contextlib
import pickle
import signal
from collections import Counter

import numpy as np
import pytest

from copter.live import forecast
from copter.live.ahead import play
from copter.live.events import Noted
from copter.live.files import ClusterFile
from copter.live.forecast import Forecasts, question_of
from copter.live.views import job_view
from copter.live.why import why, would_run
from support.live_cases import RIGID, begin, look, make_service, named, step, viewed

ONE_TYPE = ClusterFile(gpus=({"type": "a100", "gpus_per_node": 4, "nodes": 2},))
TROUBLED = """
import os, threading

class Troubled:
    name, kind, round_seconds = "troubled", "rigid", 60.0

    def __init__(self, *, mode="raises"):
        self.mode = mode

    def schedule(self, now):
        print("a policy may print")
        if self.mode == "hangs":
            threading.Event().wait()
        if self.mode == "ends":
            os._exit(3)
        if self.mode == "raises":
            raise ZeroDivisionError("for the test")
        held = {name: job.allocation for name, job in now.jobs.items() if job.allocation is not None}
        return held | {"soon": now.cluster.packed("a100", 2)}
"""


@pytest.fixture
def made(tmp_path):
    """Return a function that makes services with forecasts."""
    with contextlib.ExitStack() as stack:

        def make(policy="fcfs", **arguments):
            arguments = {"cluster": ONE_TYPE, "forecasts": True} | arguments
            service = make_service(tmp_path / "live", policy=policy, **arguments)
            stack.callback(service.close)
            return service

        yield make


@pytest.fixture
def in_process(monkeypatch):
    """Let the test's own process answer questions; return the list of them."""
    questions = []

    async def ask(self, data):
        questions.append(pickle.loads(data))
        await asyncio.sleep(0)
        return play(questions[-1])

    monkeypatch.setattr(Forecasts, "_ask", ask)
    return questions


def told(service, name, seconds=60.0):
    """Return the answer about a job, with its estimated start."""
    return asyncio.run(why(service, name, seconds=seconds))


def dry(service, **changes):
    job = service.admission.dry_run(named(RIGID, "new", **changes))
    return " ".join(asyncio.run(would_run(service, job)))


def played(service):
    answer = play(question_of(service.record, service.rounds, None))
    assert "error" not in answer
    return answer


def end_as_declared(service):
    """End the runs of rigid jobs that have run for their declared seconds."""
    now = service.record.now()
    for job in service.record.state.jobs.values():
        if job.run is not None and now >= job.run.launched + job.file.seconds:
            service.backend.end(next(run.id for run in service.backend.started if run.job == job.name))


def next_round(service, seconds):
    """Let a round of some seconds pass: jobs end as declared, then the policy is asked."""
    service.record.clock.time += seconds
    end_as_declared(service)
    look(service)
    step(service, 0.0)


@pytest.mark.parametrize("policy", ["fcfs", "backfill", "queue"])
def test_estimated_starts_hold_if_jobs_run_as_declared(made, policy):
    rng, seen = np.random.default_rng(3), Counter()
    service = made(policy, settings={"round_seconds": 60.0})
    for number in range(24):
        more = {"seconds": float(rng.uniform(100.0, 900.0)), "gpus": int(rng.choice([1, 2, 4, 6]))}
        if number % 6 == 5 and policy == "fcfs":  # the others would plan with the longer declared time
            more["time_limit_seconds"] = more["seconds"] / 2
        if number % 8 == 7:
            more["after"] = [f"job-{number - 3}"]
        service.admission.submit(named(RIGID, f"job-{number}", **more))
    starts, begun = {}, {}
    for round in range(200):
        if round in (1, 4, 9):
            answer = played(service)
            assert answer["ending"] == "started"
            starts |= {(round, name): time for name, time in answer["starts"].items()}
        next_round(service, 60.0 if round not in (1, 4, 9) else 0.0)
        for job in service.record.state.jobs.values():
            if job.allocation is not None:
                begun.setdefault(job.name, job.started)
    for (round, name), begins in starts.items():
        assert begun[name] == pytest.approx(begins, abs=1e-6), (round, name)
        seen[round] += 1
    assert min(seen[1], seen[4]) > 8 and seen[9] > 2, seen


def test_the_start_is_told_and_holds(made, monkeypatch):
    """A process plays; two that ask at the same time share it, and its answer is kept."""
    processes = []
    usual = asyncio.create_subprocess_exec

    async def counted(*arguments, **more):
        processes.append(await usual(*arguments, **more))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    service = made()
    service.admission.submit(named(RIGID, "first", gpus=8, seconds=600.0))
    next_round(service, 1.0)
    for name in ("second", "third"):
        service.admission.submit(named(RIGID, name, gpus=8, seconds=1800.0))

    async def both():
        asked = [why(service, name, seconds=60.0) for name in ("second", "third")]
        return await asyncio.gather(*asked)

    second, third = asyncio.run(both())
    assert told(service, "second")["starts"] == second["starts"] and len(processes) == 1
    assert processes[0].returncode in (0, -signal.SIGKILL)  # it has answered and is not needed any more
    assert second["sentences"][0] == (
        "It would start in about 12 minutes if no further jobs arrived: played ahead with the policy 'fcfs',"
        " with the run times that jobs declared or reported."
    )
    assert third["starts"] == pytest.approx(second["starts"] + 1800.0)
    begin = service.record.now()
    for _ in range(2):
        next_round(service, 360.0)
    assert service.record.state.jobs["second"].started == pytest.approx(second["starts"])
    assert second["starts"] == pytest.approx(begin + 720.0)
    answer = told(service, "second", seconds=0.0)  # it has GPUs
    assert answer["starts"] is None and "would start" not in " ".join(answer["sentences"])


def test_an_answer_is_kept_until_the_record_changes_or_time_passes(made, in_process):
    service = made()
    service.admission.submit(named(RIGID, "runs", gpus=8))
    next_round(service, 1.0)
    service.admission.submit(named(RIGID, "waits", gpus=8))
    for _ in range(3):
        told(service, "waits")
    assert len(in_process) == 1
    service.record.journal.add(Noted(time=service.record.now(), text="no change"))
    service.record.clock.time += 20.0
    told(service, "waits")
    assert len(in_process) == 1
    service.record.clock.time += 20.0
    told(service, "waits")
    assert len(in_process) == 2
    service.admission.submit(named(RIGID, "another"))
    assert told(service, "another")["starts"] is not None and len(in_process) == 3
    service.admission.cancel("another")
    answer = told(service, "another")
    assert answer["starts"] is None and len(in_process) == 3
    told(service, "waits")
    assert len(in_process) == 4 and "another" not in in_process[-1].present.jobs


def test_a_job_may_end_while_its_start_is_estimated(made, in_process, monkeypatch):
    service, ask = made(), Forecasts._ask
    service.admission.submit(named(RIGID, "waits", gpus=8))

    async def cancel_and_ask(self, data):
        service.admission.cancel("waits")
        return await ask(self, data)

    monkeypatch.setattr(Forecasts, "_ask", cancel_and_ask)
    answer = told(service, "waits")
    assert answer["status"] == "cancelled" and answer["starts"] is None
    assert answer["sentences"] == ["It is cancelled: cancelled by admin."]
    assert len(in_process) == 1 and "waits" in in_process[0].present.jobs


def test_without_patience_the_answer_comes_later(made, in_process):
    service = made()
    service.admission.submit(named(RIGID, "waits", gpus=8))

    async def twice():
        first = await why(service, "waits", seconds=0.0)
        second = await why(service, "waits", seconds=60.0)
        return first, second

    first, second = asyncio.run(twice())
    assert first["starts"] is None and first["sentences"][0] == "Its start is being estimated."
    assert second["starts"] == service.record.now() and "It would start now" in second["sentences"][0]
    assert len(in_process) == 1


def test_run_times_are_what_the_service_knows(made):
    service = made(cluster=ClusterFile(gpus=({"type": "a100", "gpus_per_node": 4, "nodes": 4},)))
    files = {
        "declared": {"seconds": 5000.0},
        "default": {},
        "late": {"seconds": 100.0},
        "limited": {"seconds": 5000.0, "time_limit_seconds": 700.0},
    }
    for name, more in files.items():
        service.admission.submit(named(RIGID, name, gpus=4, **more))
    step(service, 0.0)
    began = service.record.now()
    service.record.clock.time += 400.0
    service.admission.submit(named(RIGID, "waits", gpus=4))
    service.rounds.next_round = began + 430.0
    question = question_of(service.record, service.rounds, None)
    assert question.present.asks == began + 430.0
    left = {
        name: question.scenario.profiles[name].work - job.progress
        for name, job in question.present.jobs.items()
    }
    assert question.present.time == began + 400.0
    assert left == pytest.approx(
        {"declared": 4600.0, "default": 3200.0, "late": 400.0, "limited": 300.0, "waits": 3600.0}
    )
    assert [job.held is None for job in question.present.jobs.values()] == [False] * 4 + [True]


@pytest.fixture
def troubled(made, tmp_path, monkeypatch):
    """Return a function that makes a service whose policy has trouble in a forecast only."""
    info = tmp_path / "site" / "troubled-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: troubled\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[copter.policies]\ntroubled = troubled:Troubled\n")
    (info.parent / "troubled.py").write_text(TROUBLED)
    monkeypatch.setenv("PYTHONPATH", str(info.parent))

    def make(mode):
        service = made()
        begin(service, RIGID, "runs", gpus=6)
        for name in ("soon", "waits"):
            service.admission.submit(named(RIGID, name))
        service.rounds.policy_name, service.rounds.settings = "troubled", {"mode": mode}
        return service

    return make


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("raises", "the policy 'troubled' failed: ZeroDivisionError: for the test"),
        ("ends", "the process of the estimate ended with status 3"),
        ("hangs", "no answer within 4 s"),
    ],
)
def test_a_policy_that_fails_hides_nothing(troubled, monkeypatch, mode, sentence):
    if mode == "hangs":
        monkeypatch.setattr(forecast, "PLAY_SECONDS", 2.0)
        monkeypatch.setattr(forecast, "_MORE_SECONDS", 2.0)
    service = troubled(mode)
    answer = told(service, "waits")
    assert answer["starts"] is None and answer["position"] == 2
    assert answer["sentences"][0] == f"No start could be estimated: {sentence}."
    assert any("It needs 2 GPUs of one type" in one for one in answer["sentences"])
    assert f"No start could be estimated: {sentence}." in dry(service)


def test_a_dry_run_says_when(made, in_process):
    service = made("queue")
    low = {"gpus": 8, "seconds": 600.0, "preemptible": True}
    begin(service, RIGID, "low", **low)
    for name in ("next", "last"):
        service.admission.submit(named(RIGID, name, **low))
    text = dry(service, gpus=8, priority=5, seconds=1200.0)
    assert "It would start now if no further jobs arrived: played ahead with the policy 'queue'" in text
    text = dry(service, gpus=8, seconds=1200.0, after=["last"])
    assert "It would start in about 3" in text
    assert "new" not in played(service)["starts"] and len(service.record.state.jobs) == 3


def test_a_flood_of_dry_runs_does_not_wait_for_long(made, in_process, monkeypatch):
    monkeypatch.setattr(forecast, "_TURN_SECONDS", 0.01)
    service, ask, over = made(), Forecasts._ask, asyncio.Event()

    async def slow(self, data):
        await over.wait()
        return await ask(self, data)

    monkeypatch.setattr(Forecasts, "_ask", slow)
    service.admission.submit(named(RIGID, "waits"))

    async def flood():
        jobs = [service.admission.dry_run(named(RIGID, f"new-{k}")) for k in range(40)]
        first, *others = [asyncio.create_task(would_run(service, job)) for job in jobs]
        answers = await asyncio.gather(*others)
        asks = asyncio.create_task(why(service, "waits", seconds=60.0))
        over.set()
        return answers, await first, await asks

    answers, first, answer = asyncio.run(flood())
    assert all(sum("other estimates take all the time" in one for one in each) == 1 for each in answers)
    assert "It would start now" in first[-1]
    assert answer["starts"] == service.record.now() and len(in_process) == 2


def test_a_rigid_job_that_was_drained_begins_anew(made, in_process):
    service = made()
    service.admission.submit(named(RIGID, "first", gpus=8, seconds=400.0))
    step(service)
    service.record.clock.time += 300.0
    service.admission.drain("a100", 0)
    look(service)
    service.admission.drain("a100", 0, back=True)
    step(service)
    service.admission.submit(named(RIGID, "second", gpus=8))
    step(service, 100.0)
    assert service.record.state.jobs["first"].run.number == 2
    assert viewed(job_view, service.record, "first")["progress"] == pytest.approx(0.25)
    starts = told(service, "second")["starts"]
    assert 300.0 <= starts - service.record.now() <= 360.0, "at the round after its end"


def test_nodes_out_of_use_stay_so(made, in_process):
    service = made()
    service.admission.drain("a100", 0)
    service.admission.submit(named(RIGID, "large", gpus=8))
    step(service)
    answer = told(service, "large")
    assert answer["starts"] is None
    assert "It would start in no round, even if no further jobs arrived" in answer["sentences"][0]


def test_an_estimate_that_fails_in_the_service_hides_nothing(made, monkeypatch):
    service = made()
    service.admission.submit(named(RIGID, "waits"))
    service.rounds.settings = {"setting": lambda: None}  # it cannot be pickled
    answer = told(service, "waits")
    assert answer["position"] == 1 and answer["sentences"][0].startswith("No start could be estimated: ")
    service.rounds.settings = {}
    monkeypatch.setattr(forecast.sys, "executable", "/does/not/exist")
    assert "No start could be estimated: " in dry(service)
