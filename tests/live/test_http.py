"""The service over HTTP: who may do what, what is refused and how, and that nothing else happens."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import sampled_from
from prometheus_client.parser import text_string_to_metric_families

from copter.live.folder import run_token
from copter.live.http import MOST_BYTES, make_app
from support.live_cases import (
    CLUSTER,
    ELASTIC,
    RIGID,
    begin,
    events,
    http_of,
    look,
    make_service,
    named,
    sound,
    step,
)

JOB = {"command": ["true"], "gpus": 2}
TRAIN = {"command": ["train"], "kind": "adaptive", "work": 100, "batch_size": 32}


def refused(answer, status, *words):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    for word in words:
        assert word in answer.json()["error"]


ENDPOINTS = [
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs/one"),
    ("GET", "/v1/jobs/one/log"),
    ("GET", "/v1/jobs/one/why"),
    ("POST", "/v1/dry-run"),
    ("POST", "/v1/cancel"),
    ("GET", "/v1/cluster"),
    ("POST", "/v1/nodes/t4/0/drain"),
    ("GET", "/v1/usage"),
    ("GET", "/metrics"),
]


WRONG = ("", "Bearer", "Bearer ", "Bearer wrong", "Basic TOKEN", "TOKEN", "Bearer TOKENx", "Bearer \xe9")
"""Authorizations that are not the one of the service."""


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_strangers_change_and_see_nothing(service, http, method, path):
    service.admission.submit(named(RIGID, "one"))
    before = events(service)
    del http.headers["Authorization"]
    for authorization in (None, *WRONG):
        headers = {}
        if authorization is not None:
            headers["Authorization"] = authorization.replace("TOKEN", service.token).encode("latin-1")
        answer = http.request(method, path, headers=headers, json=JOB if method == "POST" else None)
        refused(answer, 401, "token")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert events(service) == before, authorization


def test_every_endpoint_but_the_page_and_health_needs_a_token(service, http):
    described = http.get("/openapi.json").json()["paths"]
    named_here = {
        (method, path.replace("one", "{name}").replace("t4/0", "{type}/{node}")) for method, path in ENDPOINTS
    }
    there = {(method.upper(), path) for path, methods in described.items() for method in methods}
    assert there - named_here == {("GET", "/health"), ("POST", "/v1/runs/{name}/{number}")}


def test_a_run_shows_its_own_token_and_no_other(service, http):
    service.admission.submit(named(ELASTIC, "one"))
    begin(service, ELASTIC, "two")
    body = {"progress": 1.0, "steps": 1, "running_seconds": 1.0, "batch_size": 32, "saved_progress": 0.0}
    for token in (service.token, run_token(service.token, "two", 1), run_token(service.token, "one", 2), ""):
        answer = http.post("/v1/runs/one/1", json=body, headers={"Authorization": f"Bearer {token}"})
        refused(answer, 401, "token")
    good = {"Authorization": f"Bearer {run_token(service.token, 'one', 1)}"}
    assert http.post("/v1/runs/one/1", json=body, headers=good).json()["lease_seconds"] > 0
    assert service.record.state.jobs["one"].progress == 1.0
    for wrong, words in (
        ({"progress": -1.0}, ("progress",)),
        ({"progress": "much"}, ("progress",)),
        ({"times": [{"local_batch": 0, "count": 1, "log_seconds": 0.0}]}, ("times.0.local_batch",)),
        ({"times": [{"local_batch": 1, "count": 1, "log_seconds": 0.0}] * 65}, ("at most 64",)),
        ({"variance": -1.0}, ("variance",)),
        ({"batch_size": 1.5}, ("batch_size",)),
        ({"new": 1}, ("new", "no such field")),
    ):
        refused(http.post("/v1/runs/one/1", json=body | wrong, headers=good), 422, *words)
    for text in ("NaN", "Infinity", "1e400"):
        content = json.dumps(body).replace("1.0", text, 1)
        headers = good | {"Content-Type": "application/json"}
        refused(http.post("/v1/runs/one/1", content=content, headers=headers), 422, "progress")
    assert service.record.state.jobs["one"].progress == 1.0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"command": []}, ("command",)),
        ({"command": "true"}, ("command",)),
        ({"command": ["a\0b"]}, ("command.0", "pattern")),
        ({"command": [""]}, ("name of a program",)),
        ({"command": [1]}, ("command.0",)),
        ({"name": "../../etc"}, ("name",)),
        ({"name": "a/b"}, ("name",)),
        ({"name": ".."}, ("name",)),
        ({"name": "a" * 64}, ("name",)),
        ({"name": "a\n"}, ("name",)),
        ({"directory": "relative"}, ("directory", "absolute")),
        ({"directory": "/tmp/../etc"}, ("directory",)),
        ({"gpus": 0}, ("gpus",)),
        ({"gpus": "2"}, ("gpus",)),
        ({"gpus": 2.5}, ("gpus",)),
        ({"gpus": True}, ("gpus",)),
        ({"gpu": 1}, ("gpu", "no such field")),
        ({"kind": "flexible"}, ("kind",)),
        ({"work": 5.0}, ("work", "rigid")),
        ({"environment": {"COPTER_RANK": "0"}}, ("COPTER_",)),
        ({"environment": {"A=B": "0"}}, ("environment",)),
        ({"retries": -1}, ("retries",)),
        ({"types": ["h100"]}, ("types", "h100")),
        ({"gpus": 1000}, ("no configuration",)),
        ({"seconds": 0}, ("seconds",)),
    ],
)
def test_a_job_that_is_wrong_is_refused_with_the_field(service, http, wrong, words):
    before = events(service)
    refused(http.post("/v1/jobs", json=JOB | wrong), 422, *words)
    assert events(service) == before


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"work": None}, ("work",)),
        ({"batch_size": None}, ("batch_size",)),
        ({"gpus": 2}, ("gpus",)),
        ({"max_batch_size": 16}, ("max_batch_size",)),
        ({"max_local_batch": {"t4": 0}}, ("max_local_batch",)),
        ({"min_gpus": 4, "max_gpus": 2}, ("min_gpus",)),
        ({"work": float("inf")}, ("work",)),
        ({"work": 0}, ("work",)),
        ({"min_gpus": 100}, ("no configuration",)),
        ({"checkpoint_seconds": 0}, ("checkpoint_seconds",)),
        ({"max_batch_size": 1_000_000, "max_local_batch": 1}, ("max_local_batch", "passes")),
        ({"silence_seconds": 20}, ("silence_seconds", "report_seconds")),
    ],
)
def test_an_elastic_job_that_is_wrong_is_refused_with_the_field(service, http, wrong, words):
    before = events(service)
    content = json.dumps(TRAIN | wrong)
    answer = http.post("/v1/jobs", content=content, headers={"Content-Type": "application/json"})
    refused(answer, 422, *words)
    assert events(service) == before


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"command": ["true"]', b"1" * 100]
)
def test_what_is_no_job_at_all_is_refused(service, http, content):
    before = events(service)
    answer = http.post("/v1/jobs", content=content, headers={"Content-Type": "application/json"})
    refused(answer, 422 if content != b"\xff\xfe" else answer.status_code)
    assert answer.status_code in (400, 422) and events(service) == before


def test_bodies_are_limited(service, http):
    before = events(service)
    refused(http.post("/v1/jobs", json=JOB | {"environment": {"A": "x" * MOST_BYTES}}), 413, "bytes")
    for headers, status, closes in (
        ({"transfer-encoding": "chunked"}, 411, True),
        ({"content-length": str(MOST_BYTES + 1)}, 413, False),
        ({"content-length": str(10**12)}, 413, True),
        ({"content-length": "1" * 100}, 413, True),
        ({"content-length": "-1"}, 413, True),
    ):
        answer = http.post("/v1/jobs", content=b"{}", headers=headers)
        refused(answer, status)
        assert (answer.headers.get("connection") == "close") == closes
    refused(
        http.post("/v1/jobs", json=JOB | {"environment": {f"A{k}": "" for k in range(300)}}),
        422,
        "environment",
    )
    assert events(service) == before


def test_jobs_are_limited(tmp_path):
    service = make_service(tmp_path, cluster=CLUSTER.model_copy(update={"max_jobs": 2}))
    http = http_of(service)
    assert [http.post("/v1/jobs", json=JOB).status_code for _ in range(3)] == [201, 201, 503]


def test_there_is_nothing_else(http):
    refused(http.get("/v1/jobs/none"), 404, "'none'")
    refused(http.delete("/v1/jobs/none"), 405)
    refused(http.get("/v1/jobs/none/log"), 404, "'none'")
    refused(http.post("/v1/nodes/h100/0/drain"), 404, "h100")
    refused(http.post("/v1/nodes/t4/2/drain"), 404, "node 2")
    refused(http.get("/v1/nothing"), 404)
    refused(http.put("/v1/jobs", json=JOB), 405)
    for path in ("/page/../http.py", "/page/%2e%2e%2fhttp.py", "/page/..%2f..%2fpyproject.toml", "/page/x"):
        assert http.get(path).status_code == 404


def test_logs_come_in_parts_and_from_no_other_place(service, http):
    service.admission.submit(named(RIGID, "one"))
    assert http.get("/v1/jobs/one/log").text == ""
    step(service)
    folder = service.folder / "jobs" / "one" / "runs" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log-0.txt").write_bytes(b"x" + "é".encode() * 50_000 + b"end\xff")
    (folder.parent / "events.out").touch()
    text, after = "", 0
    while part := (answer := http.get("/v1/jobs/one/log", params={"after": after})).text:
        text, after = text + part, int(answer.headers["x-next"])
    assert text == "x" + "é" * 50_000 + "end\ufffd"
    with (folder / "log-0.txt").open("ab") as log:
        log.write("é".encode()[:1])  # the rest may come
    assert http.get("/v1/jobs/one/log", params={"after": after}).text == ""
    (folder / "ended-0.json").write_text("{}")
    assert http.get("/v1/jobs/one/log", params={"after": after}).text == "\ufffd"
    (folder / "log-0.txt").write_text("said\nlast\n")  # it was cut, and is read from its begin
    answer = http.get("/v1/jobs/one/log", params={"after": after})
    assert (answer.text, answer.headers["x-next"]) == ("said\nlast\n", "10")
    refused(http.get("/v1/jobs/one/log", params={"run": 2}), 404, "run 2")
    for name in ("..", "../one", "%2e%2e", "one%2f..%2f..%2ftoken", "one%00"):
        assert http.get(f"/v1/jobs/{name}/log").status_code in (404, 422)


def test_what_is_shown_of_jobs_and_nodes(service, http):
    service.admission.submit(named(RIGID, "one"))
    begin(service, ELASTIC, "two")
    service.backend.end("one.1", "failed", "exit code 3")
    look(service)
    one, two = http.get("/v1/jobs").json()
    assert (one["name"], one["status"]) == ("one", "starting")
    assert two["status"] == "starting" and two["gpus"] == 1
    view = http.get("/v1/jobs/one").json()
    assert view["all_runs"][0]["outcome"] == "failed" and view["all_runs"][0]["reason"] == "exit code 3"
    service.admission.cancel("one")
    assert [job["status"] for job in http.get("/v1/jobs", params={"ended": True}).json()] == [
        "starting",
        "cancelled",
    ]
    cluster = http.get("/v1/cluster").json()
    assert len(cluster["nodes"]) == 3 and cluster["over"]["cancelled"] == 1
    assert cluster["round"]["gap"] is not None and cluster["round"]["changes"] == 2
    text = http.get("/metrics").text
    assert 'copter_live_jobs_over_total{ending="cancelled"} 1.0' in text
    kinds = {one.name: one.type for one in text_string_to_metric_families(text)}
    assert kinds["copter_live_jobs_over"] == "counter"
    # In the OpenMetrics format, counters and no others have the suffix _total.
    named_so = {
        line.split()[2] for line in text.splitlines() if line.startswith("# TYPE") and "_total" in line
    }
    assert {name.removesuffix("_total") for name in named_so} == {
        n for n, k in kinds.items() if k == "counter"
    }
    assert http.get("/health").status_code == 200
    service.backend.away = "/srv/copter/jobs/one: gone"
    look(service)
    refused(http.get("/health"), 503, "the backend does not answer: /srv/copter/jobs")
    for header in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}):
        answer = http.get("/health", headers=header)  # strangers are told the kind of trouble only
        assert answer.json() == {"error": "the backend does not answer"} and answer.status_code == 503


def test_the_description_says_which_token_a_route_needs(http):
    described = http.get("/openapi.json").json()
    schemes = described["components"]["securitySchemes"]
    assert {name: (one["type"], one["scheme"]) for name, one in schemes.items()} == {
        "user": ("http", "bearer"),
        "run": ("http", "bearer"),
    }
    for path, methods in described["paths"].items():
        for method in methods.values():
            wanted = [] if path == "/health" else [{"run" if path.startswith("/v1/runs") else "user": []}]
            assert method.get("security", []) == wanted
            assert not any(one["name"] == "authorization" for one in method.get("parameters", ()))


TAKE_NOTHING = {"/v1/cluster", "/metrics", "/health"}


@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.long)])
def test_a_fuzzer_that_reads_the_description_finds_no_500(service, examples):
    """What OpenAPI describes, and what it forbids, with every kind of token."""
    begin(service, ELASTIC, "one")
    schema = schemathesis.openapi.from_asgi("/openapi.json", make_app(service))
    tokens = [service.token, run_token(service.token, "one", 1), "wrong"]
    statuses = set()
    checks = list(HealthCheck)
    profile = settings(max_examples=examples, deadline=None, suppress_health_check=checks, database=None)
    operations = [result.ok() for result in schema.get_all_operations()]
    for operation in operations:
        modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
        for mode in modes[: 1 if operation.path in TAKE_NOTHING else 2]:

            @settings(profile)
            @given(operation.as_strategy(generation_mode=mode), sampled_from(tokens))
            def call(case, token):
                answer = case.call(headers={"Authorization": f"Bearer {token}"})
                assert answer.status_code < 500 or answer.status_code == 503, answer.text
                statuses.add(answer.status_code)

            call()
    assert len(operations) == len(ENDPOINTS) + 2
    assert {200, 401, 404, 422} <= statuses
    assert sound(service.record.journal)
