"""Why a job waits: each sentence is compared with what the service shows of its jobs, nodes and rounds."""

import re
from types import SimpleNamespace

import pytest

from copter import ContinualProgram, make_solver
from copter.live.files import ClusterFile
from copter.problems.cluster.cluster import Configuration
from copter.problems.sia.scheduler import _parts, _sentences
from support.live_cases import ELASTIC, RIGID, asked, begin, http_of, look, make_service, named, step


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


def test_a_policy_that_cannot_explain_hides_nothing(tmp_path, monkeypatch):
    service = make_service(tmp_path)
    begin(service, RIGID, "one")
    monkeypatch.setattr(type(service.rounds.policy), "why", lambda *_: 1 / 0)
    answer = asked(service, "one")
    assert answer["policy"] == [] and "ZeroDivisionError" in answer["sentences"][-1]
    assert "It has had 2 GPUs" in answer["sentences"][0]


def test_on_the_command_line(tmp_path, command):
    service = make_service(tmp_path)
    service.admission.submit(named(RIGID, "waits"))
    code, shown = command(service, "jobs", "--why", "waits")
    assert code == 0 and "waits: queued, number 1 of the queue by submission" in shown
    assert "No start could be estimated" in shown


def test_over_http_and_for_jobs_without_a_state(tmp_path):
    service = make_service(tmp_path)
    http = http_of(service)
    assert http.get("/v1/jobs/nobody/why").status_code == 404
    service.admission.submit(named(RIGID, "one"))
    assert http.get("/v1/jobs/one/why").json()["position"] == 1
    service.admission.cancel("one")
    look(service)
    assert http.get("/v1/jobs/one/why").json()["sentences"] == ["It is cancelled: cancelled by admin."]


def test_a_round_before_the_end_of_the_job_before_is_not_about_the_job(tmp_path):
    service = make_service(tmp_path, policy="fcfs")
    begin(service, RIGID, "first")
    service.admission.submit(named(RIGID, "later", after=["first"]))
    step(service, 1.0)
    service.backend.end("first.1")
    look(service, 1.0)
    sentences = asked(service, "later")["sentences"]
    assert "The policy 'fcfs' has not decided since then." in sentences
    assert "The last job for which it waited completed 0 s ago." in sentences


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


def test_gpus_that_are_free_but_not_together(tmp_path):
    """Three GPUs are taken on each of two nodes of four: the policy counts two free ones, on two nodes."""
    rows = [{"type": "a100", "gpus_per_node": 4, "nodes": 2}]
    service = make_service(tmp_path, cluster=ClusterFile(gpus=rows), policy="backfill")
    for name in ("a", "b"):
        service.admission.submit(named(RIGID, name, gpus=3))
    step(service)
    begin(service, RIGID, "two", gpus=2)
    sentences = asked(service, "two")["sentences"]
    assert service.record.state.jobs["two"].allocation is None
    assert "The policy 'backfill' last decided 0 s ago, and the job got no GPUs." in sentences
    assert "The policy gave it GPUs, but the nodes did not have that number free together." in sentences


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


def test_one_gpu_is_no_plural(tmp_path):
    service = make_service(tmp_path, policy="fcfs")
    begin(service, RIGID, "one", gpus=1)
    assert any(one.startswith("It has had 1 GPU for") for one in asked(service, "one")["sentences"])
    service.admission.submit(named(RIGID, "two", gpus=1, types=["a100"]))
    assert any(one.startswith("It needs 1 GPU of one type") for one in asked(service, "two")["sentences"])


@pytest.mark.parametrize(
    ("loss", "begins"), [(2.64e-9, "the prices do not exclude"), (0.02, "every schedule")]
)
def test_a_loss_that_is_nothing_is_not_named(loss, begins):
    why = SimpleNamespace(blocked={}, loss=loss, value=0.0, lacking={}, prices={}, cost=0.5)
    assert next(_parts(why)).startswith(begins)
