"""Why a job waits: each sentence is compared with what the service shows of its jobs, nodes and rounds."""

import re
from collections import Counter

import numpy as np
import pytest
from fastapi.testclient import TestClient

from copter import ContinualProgram, make_solver
from copter.live.files import ClusterFile
from copter.live.http import make_app
from copter.live.views import cluster_view, jobs_view
from copter.problems.cluster.cluster import Configuration
from copter.problems.sia.scheduler import _sentences
from support.live_cases import ELASTIC, RIGID, asked, look, make_service, named, said, step

GPUS = {"a100": 4, "t4": 4}


def check(service, name, wants, types, seen):
    """Check every figure in the sentences about a job against the views of the service."""
    answer, views = (
        asked(service, name),
        {each["name"]: each for each in jobs_view(service.record, False, 99)},
    )
    view, cluster = views[name], cluster_view(service)
    seen[view["status"]] += 1
    assert answer["status"] == view["status"]
    queued = [each["name"] for each in views.values() if each["status"] == "queued"]
    assert answer["position"] == (queued.index(name) + 1 if name in queued else None)
    usable = Counter(dict.fromkeys(types, 0))
    for node in cluster["nodes"]:
        usable[node["type"]] += 0 if node["unusable"] else node["gpus"]
    given = Counter({type: sum(v["gpus"] for v in views.values() if v["type"] == type) for type in types})
    lost = said(answer, r"lost its GPUs") is not None
    assert lost == (view["gpus"] == 0 and view["started"] is not None)
    never = said(answer, r"has had no GPUs yet") is not None
    assert never == (view["gpus"] == 0 and view["started"] is None)
    seen["lost"] += lost
    if view["gpus"]:
        (held,) = said(answer, r"has had (\d+) GPUs")
        assert int(held) == view["gpus"]
    if view["status"] != "queued":
        return
    out = said(answer, r"needs (?:at least )?(\d+) GPUs of one type, but only (.*) are in use")
    short = all(usable[type] < wants for type in types)
    assert (out is not None) == short
    if short:
        seen["short of nodes"] += 1
        assert out == (str(wants), ", ".join(f"{usable[type]} {type}" for type in types))
        drained = [
            f"{n['type']}-{n['node']}" for n in cluster["nodes"] if n["unusable"] and n["type"] in types
        ]
        assert all(node in "".join(answer["sentences"]) for node in drained) and drained
        return
    free = ", ".join(f"{usable[type] - given[type]} {type}" for type in types)
    assert said(answer, r"not given to any job: (.*)\.") == (free,)
    later = [
        each["name"]
        for each in views.values()
        if each["submitted"] > view["submitted"] and each["type"] in types and each["gpus"]
    ]
    names = said(answer, r"submitted later and have GPUs that it could use: (.*)\.")
    assert (names is not None) == bool(later)
    if later:
        seen["others first"] += 1
        listed = re.sub(r" and \d+ more$", "", names[0]).split(", ")
        assert listed == later[: len(listed)] and len(listed) == min(5, len(later))
    seen["decided"] += said(answer, r"the job got no GPUs") is not None
    seen["not decided"] += said(answer, r"has not decided since then") is not None


@pytest.mark.parametrize("policy", ["sia", "fcfs", "srtf"])
def test_every_sentence_is_what_the_service_shows(tmp_path, policy):
    rng, seen, jobs = np.random.default_rng(7), Counter(), {}
    service = make_service(tmp_path, policy=policy)
    drained = False
    for number in range(60):
        if len(service.record.state.jobs) < 12:
            gpus = int(rng.choice([1, 2, 4]))
            types = [["t4"], ["a100"], []][rng.integers(3)]
            name = f"job-{number}"
            service.admission.submit(named(RIGID, name, gpus=gpus, types=types))
            jobs[name] = gpus, types or list(GPUS)
        what = rng.random()
        if what < 0.15:
            service.admission.drain("a100", 0, back=drained)
            drained = not drained
            look(service, 1.0)
        elif what < 0.3:
            service.admission.drain("t4", int(rng.integers(2)), back=bool(rng.random() < 0.5))
            look(service, 1.0)
        elif what < 0.6:
            for run in [run for run in service.backend.started if rng.random() < 0.2]:
                service.backend.end(run.id)
            look(service, 1.0)
        else:
            step(service)
        for name in service.record.state.jobs:
            check(service, name, *jobs[name], seen)
    service.close()
    kinds = ("queued", "running", "lost", "short of nodes", "decided", "not decided")
    assert min(seen[kind] for kind in kinds) > 5, seen
    assert seen["others first"] > 0 or policy == "fcfs", seen


def test_sia_says_what_its_program_knows(tmp_path):
    service = make_service(tmp_path)
    for number in range(6):
        service.admission.submit(named(RIGID, f"r{number}", gpus=4, types=["t4"]))
    service.admission.submit(named(ELASTIC, "elastic"))
    assert asked(service, "r0")["policy"] == []
    step(service)
    waiting = [name for name, job in service.record.state.jobs.items() if job.status == "queued"]
    assert len(waiting) == 4
    for name in waiting:
        (sentence,) = asked(service, name)["policy"]
        assert sentence.startswith("4 t4 on 1 node: ") and "at the round's prices" in sentence
    assert any("t4" in each for each in asked(service, "elastic")["policy"])
    service.admission.submit(named(RIGID, "late", gpus=4, types=["t4"]))
    assert asked(service, "late")["policy"] == []
    service.close()


def test_a_policy_that_cannot_explain_hides_nothing(tmp_path, monkeypatch):
    service = make_service(tmp_path)
    service.admission.submit(named(RIGID, "one"))
    step(service)
    monkeypatch.setattr(type(service.rounds.policy), "why", lambda *_: 1 / 0)
    answer = asked(service, "one")
    assert answer["policy"] == [] and "ZeroDivisionError" in answer["sentences"][-1]
    assert "It has had 2 GPUs" in answer["sentences"][0]
    service.close()


def test_a_cancelled_job_says_so_while_the_policy_decides(tmp_path):
    service = make_service(tmp_path)
    service.admission.submit(named(RIGID, "one"))
    step(service)
    with service.record.deferring():
        service.admission.cancel("one")
        assert asked(service, "one")["sentences"][0].startswith("It was cancelled or has ended; this takes")
    service.close()


def test_over_http_and_for_jobs_without_a_state(tmp_path):
    service = make_service(tmp_path)
    http = TestClient(make_app(service), raise_server_exceptions=False)
    http.headers["Authorization"] = f"Bearer {service.token}"
    assert http.get("/v1/jobs/nobody/why").status_code == 404
    service.admission.submit(named(RIGID, "one"))
    assert http.get("/v1/jobs/one/why").json()["position"] == 1
    service.admission.cancel("one")
    look(service)
    assert http.get("/v1/jobs/one/why").json()["sentences"] == ["It is cancelled: cancelled by admin."]
    with service.record.deferring():
        service.admission.submit(named(RIGID, "two"))
        assert "while the policy was deciding" in asked(service, "two")["sentences"][0]
    service.close()


def test_a_round_before_a_release_is_not_about_the_job(tmp_path):
    service = make_service(tmp_path, policy="fcfs")
    service.admission.submit(named(RIGID, "held"), hold=True)
    service.admission.submit(named(RIGID, "other"))
    step(service)
    look(service, 1.0)
    service.admission.release("held")
    sentences = asked(service, "held")["sentences"]
    assert "The policy 'fcfs' has not decided since then." in sentences
    assert any(
        "It was released, its reservation began, or the last job that it waits for completed, 0 s ago" in e
        for e in sentences
    )
    service.close()


def test_gpus_that_the_policy_cannot_use_are_not_called_useful(tmp_path):
    """Sia gives 6 GPUs to a job on three whole nodes of two GPUs, and never on nodes of four GPUs."""
    rows = [{"type": "a100", "gpus_per_node": 4, "nodes": 2}, {"type": "t4", "gpus_per_node": 2, "nodes": 3}]
    service = make_service(tmp_path, cluster=ClusterFile(gpus=rows))
    service.admission.submit(named(RIGID, "six", gpus=6))
    service.admission.submit(named(RIGID, "later", gpus=2, types=["a100"]))
    for node in range(3):
        service.admission.drain("t4", node)
    step(service)
    assert service.record.state.jobs["later"].allocation is not None
    text = " ".join(asked(service, "six")["sentences"])
    assert "the policy 'sia' cannot run it on the nodes in use (8 a100, 0 t4), so it cannot start now" in text
    assert "could use" not in text
    service.close()


def test_gpus_that_are_free_but_not_together(tmp_path):
    """Three GPUs are taken on each of two nodes of four: the policy counts two free ones, on two nodes."""
    rows = [{"type": "a100", "gpus_per_node": 4, "nodes": 2}]
    service = make_service(tmp_path, cluster=ClusterFile(gpus=rows), policy="backfill")
    for name in ("a", "b"):
        service.admission.submit(named(RIGID, name, gpus=3))
    step(service)
    service.admission.submit(named(RIGID, "two", gpus=2))
    step(service)
    sentences = asked(service, "two")["sentences"]
    assert service.record.state.jobs["two"].allocation is None
    assert "The policy 'backfill' last decided 0 s ago, and the job got no GPUs." in sentences
    assert "The policy gave it GPUs, but the nodes did not have that number free together." in sentences
    service.close()


def test_sia_rounds_what_a_schedule_costs_at_least_down():
    program = ContinualProgram()
    program.add_resource("t4", upper=1.0)
    for name, worth in (("a", 1.0), ("b", 0.12351)):
        program.add_request(name, [-worth, 0.0], {"t4": [1.0, 0.0]}, total=1, relation="==")
    why = make_solver("copter", tolerance=1e-9, engine="proximal").solve(program).explain("b")
    (sentence,) = _sentences(why, [Configuration(1, 1, "t4"), None])
    printed = float(re.search(r"at least (\S+) more", sentence)[1])
    assert 0.99 * why.columns[0].loss <= printed <= why.columns[0].loss
    assert len(f"{printed:g}") <= 5
