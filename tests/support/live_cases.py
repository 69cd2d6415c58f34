"""Services for tests, with a clock that tests turn and a backend without processes."""

import asyncio
import contextlib
import json
import math
import re
from types import SimpleNamespace

from copter.live.events import Noted
from copter.live.files import ClusterFile, JobFile
from copter.live.forecast import Forecast
from copter.live.service import Service
from copter.live.why import why, would_run
from support.memory_backend import MemoryBackend

CLUSTER = ClusterFile(
    gpus=(
        {"type": "a100", "gpus_per_node": 4, "nodes": 1},
        {"type": "t4", "gpus_per_node": 4, "nodes": 2},
    )
)
RIGID = JobFile(command=("true",), gpus=2)
ELASTIC = JobFile(
    command=("train",), kind="adaptive", work=1000.0, batch_size=32, max_batch_size=512, max_local_batch=64
)


NOTHING = Forecast(
    time=0.0,
    changes=-1,
    jobs=frozenset(),
    starts={},
    until=math.nan,
    ending="stopped",
    error="this test estimates none",
)


class Turned:
    """A clock."""

    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


def make_service(
    folder, backend=None, clock=None, cluster=CLUSTER, policy="sia", *, forecasts=False, **arguments
):
    """Return a service; without `forecasts`, no request starts a process that estimates starts."""
    backend = MemoryBackend() if backend is None else backend
    service = Service(folder, cluster, backend, policy, clock=clock or Turned(), **arguments)
    if not forecasts:
        service.forecasts = NoForecasts()
    return service


class NoForecasts:
    """Forecasts that know nothing, without a process."""

    async def about(self, job, seconds):
        return NOTHING

    async def with_new(self, job):
        return NOTHING


def token_entry(name, role, **fields):
    """Return an entry of a file of tokens."""
    lines = {"name": name, "role": role} | fields
    return "[[tokens]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())


def write_tokens(path, *entries, mode=0o600):
    """Write a file of tokens."""
    path.write_text("\n".join(entries))
    path.chmod(mode)
    return path


@contextlib.contextmanager
def client_of(service, token=None):
    """Return a client whose requests go to the service without a network, by default with its token."""
    from copter.live.client import Client

    with contextlib.closing(Client("http://x", token or service.token, patience=5.0)) as client:
        client._http.close()
        client._http = http_of(service, token)
        yield client


def http_of(service, token=None):
    """Return a client of the application of a service, by default with its token."""
    from fastapi.testclient import TestClient

    from copter.live.http import make_app

    headers = {"Authorization": f"Bearer {service.token if token is None else token}"}
    return TestClient(make_app(service), raise_server_exceptions=False, headers=headers)


def events(service, *kinds):
    """Return all events of a service, or those of some kinds."""
    written = [event for _, event in service.record.journal.events()]
    return [event for event in written if isinstance(event, kinds)] if kinds else written


def notes(service):
    """Return the texts of the notes of a service."""
    service.record.journal.flush()
    return [event.text for event in events(service, Noted)]


def viewed(view, seen, *arguments):
    """Return what a function of :mod:`copter.live.views` returns for a service, or for its record alone."""
    service = seen if hasattr(seen, "record") else SimpleNamespace(record=seen)
    try:
        view(service, *arguments).send(None)
    except StopIteration as returned:  # it waits for nothing
        return returned.value


def statuses(service):
    """Return the status of each job, also of jobs that have ended."""
    state = service.record.state
    return {name: job.status for jobs in (state.jobs, state.ended) for name, job in jobs.items()}


def restarted(service, **arguments):
    """End a service, and return another one of the same folder, backend, clock, cluster and policy."""
    service.close()
    same = {"cluster": service.record.state.file, "policy": service.rounds.policy_name}
    same |= {"settings": service.rounds.settings} | arguments
    return make_service(service.folder, service.backend, service.record.clock, **same)


def act_while_deciding(service, act):
    """Let `act` happen before and after each answer of the present policy, while its decision is awaited."""
    answer = service.rounds.policy.schedule
    if getattr(answer, "acts", False):
        return

    def meanwhile(now):
        act()
        wanted = answer(now)
        act()
        return wanted

    meanwhile.acts = True
    service.rounds.policy.schedule = meanwhile


def asked(service, name):
    """Return why a job has what it has, without the sentence about its start."""
    answer = asyncio.run(why(service, name))
    return answer | {"sentences": _without_start(answer["sentences"])}


def would_start(service, job):
    """Return the sentences of a dry run, without that about the start."""
    sentences = asyncio.run(would_run(service, job))
    return _without_start(sentences)


def _without_start(sentences):
    return [one for one in sentences if one != f"No start could be estimated: {NOTHING.error}."]


def said(answer, pattern):
    """Return the groups of the first sentence that has a pattern; None if no sentence has it."""
    return next((found.groups() for one in answer["sentences"] if (found := re.search(pattern, one))), None)


def named(file, name, **changes):
    return JobFile.model_validate(file.model_dump() | {"name": name} | changes)


def step(service, seconds=1.0):
    """Let time pass, ask the policy, and look at the backend until there is nothing to do any more."""

    async def go():
        service.record.clock.time += seconds
        await service.rounds.ask()
        for _ in range(3):
            await service.launcher.tick()

    asyncio.run(go())


def sound(journal):
    """Return whether SQLite's check finds the file of a journal intact."""
    return journal.database.execute("PRAGMA quick_check").fetchone() == ("ok",)


def look(service, seconds=0.0):
    """Let time pass, and look at the backend."""

    async def go():
        service.record.clock.time += seconds
        for _ in range(3):
            await service.launcher.tick()

    asyncio.run(go())


def begin(service, file, name, **changes):
    """Submit a job, and let a round give it GPUs."""
    service.admission.submit(named(file, name, **changes))
    step(service)


def report(progress=10.0, **changes):
    from copter.live.training.plan import StepTimes, TrainingReport

    fields = {
        "progress": progress,
        "steps": int(progress),
        "running_seconds": 5.0,
        "times": (StepTimes(32, 20, math.log(0.1)),),
        "squared_norm": 1.0,
        "variance": 4.0,
        "batch_size": 32,
        "saved_progress": progress / 2,
    }
    return TrainingReport(**fields | changes)
