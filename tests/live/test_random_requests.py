"""Random requests of users, also while the policy decides: no job starts before it may."""

import contextlib
import random
from collections import Counter

import pytest

from copter.live.admission import RefusedError
from copter.live.events import Closed, Decided, Held, Launched, Released, Submitted
from copter.live.replay import play_again
from copter.live.views import jobs_view
from support.live_cases import (  # fmt: skip
    ELASTIC,
    RIGID,
    act_while_deciding,
    events,
    look,
    make_service,
    named,
    restarted,
    step,
)


def check_events(service):
    """Check that held jobs, and jobs before their predecessors, got nothing; count what happened."""
    held, after, ending, launched, seen = set(), {}, {}, set(), Counter()
    for event in events(service):
        seen[type(event)] += 1
        if isinstance(event, Submitted):
            after[event.job] = event.file["after"]
        elif isinstance(event, Held):
            held.add(event.job)
        elif isinstance(event, Released):
            held.discard(event.job)
        elif isinstance(event, Closed):
            ending[event.job] = event.ending
        elif isinstance(event, Launched):
            launched.add(event.job)
            assert event.job not in held
            assert all(ending.get(name) == "completed" for name in after[event.job])
        elif isinstance(event, Decided):
            assert not event.error and not held & {name for name, place in event.places.items() if place}
    waited = {name for name, names in after.items() if names}
    seen["launched after others"] = len(launched & waited)
    for name in waited:
        if any(ending.get(one, "completed") != "completed" for one in after[name]):
            assert ending[name] == "cancelled" or name in launched
    return seen + Counter(ending.values())


def shown(service):
    """Return what is shown of all jobs, and since when the eligible ones wait."""
    keys = ("name", "status", "held", "reason", "owner", "gpus", "runs", "restarts")
    views = [[view[key] for key in keys] for view in jobs_view(service.record, True, 999)]
    return views, {name: job.eligible_since for name, job in service.record.state.eligible.items()}


@pytest.mark.parametrize("policy", ["sia", "pollux", "afs-l", "tiresias", "shockwave", "queue"])
@pytest.mark.parametrize("seed", range(2))
def test_random_requests(tmp_path, policy, seed):
    draw, waited = random.Random(f"{seed} {policy}"), 0
    service = make_service(tmp_path, policy=policy)

    def request():
        jobs = service.record.state.jobs
        kind = draw.choice(["submit"] * 4 + ["hold", "hold", "release", "cancel"])
        with contextlib.suppress(RefusedError):
            if kind == "submit":
                after = draw.sample(list(jobs), min(len(jobs), draw.choice([0, 0, 1, 1, 2])))
                file = draw.choice([named(RIGID, "x", gpus=1), named(ELASTIC, "x", preemptible=True)])
                service.admission.submit(named(file, f"job-{len(events(service))}", after=after, retries=0))
            elif jobs:
                held = [name for name, job in jobs.items() if job.hold is not None]
                getattr(service.admission, kind)(draw.choice(kind == "release" and held or list(jobs)))

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
    wanted = (Held, Released, Launched, Decided, "launched after others", "cancelled", "failed", "completed")
    assert not [what for what in wanted if not seen[what]] and waited, seen
    service.close()
    rounds, different = play_again(tmp_path)
    assert rounds > 10 and not different
