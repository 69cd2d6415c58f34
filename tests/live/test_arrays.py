"""Arrays of jobs: all or none of them, their names and their numbers, and what a lost response does."""

import json
import os
import re

import httpx
import pytest

from copter.live.admission import RefusedError
from copter.live.client import ServiceError
from copter.live.files import NAME, JobFile
from copter.live.tokens import Author
from copter.live.views import jobs_view
from support.live_cases import CLUSTER, RIGID, begin, events, look, make_service, named, viewed


def test_the_jobs_of_an_array_know_their_numbers(service):
    file = named(RIGID, "sweep", gpus=1, environment={"A": "x"})
    names = service.admission.submit(file, Author("alice", "user"), 4)
    assert names == ["sweep-0", "sweep-1", "sweep-2", "sweep-3"]
    begin(service, RIGID, "single", gpus=1)
    environments = {run.job: run.environment for run in service.backend.started}
    assert environments == {
        f"sweep-{index}": {"A": "x", "COPTER_ARRAY_INDEX": str(index)} for index in range(4)
    } | {"single": {}}
    views = viewed(jobs_view, service.record, False, 99)
    assert [view["owner"] for view in views] == ["alice"] * 4 + ["admin"]
    service.backend.end("sweep-2.1")
    look(service)
    assert service.admission.cancel("sweep-*") == ["sweep-0", "sweep-1", "sweep-3"]


@pytest.mark.parametrize(
    ("name", "changes", "size", "status", "words"),
    [
        ("taken", {}, 8, 409, "'taken-7'"),
        ("sweep", {"gpus": 100}, 2, 422, "no configuration"),
        ("sweep", {"types": ("h100",)}, 2, 422, "h100"),
        ("sweep", {"after": ("nobody",)}, 2, 422, "'nobody'"),
        ("x" * 61, {}, 11, 422, "at most 63 characters"),
        ("sweep", {}, 10, 503, "at most 10 jobs"),
    ],
)
def test_an_array_of_which_one_job_is_refused_is_refused(tmp_path, name, changes, size, status, words):
    service = make_service(tmp_path, cluster=CLUSTER.model_copy(update={"max_jobs": 10}))
    service.admission.submit(named(RIGID, "taken-7"))
    before = events(service)
    with pytest.raises(RefusedError, match=words) as raised:
        service.admission.submit(named(RIGID, name, **changes), array=size)
    assert raised.value.status == status and events(service) == before
    assert service.admission.submit(named(RIGID, "sweep"), array=9)


@pytest.mark.parametrize("program", ["é", "./ß-x.py", "-_-", "٣", "/bin/true", "日本"])
def test_names_that_are_made_from_a_command_are_names(tmp_path, program):
    service = make_service(tmp_path)
    file = JobFile(command=(program,))
    names = [*service.admission.submit(file), *service.admission.submit(file, array=2)]
    service.close()
    again = make_service(tmp_path)
    assert list(again.record.state.jobs) == names and all(re.fullmatch(NAME, name) for name in names)


def test_a_thousand_jobs_are_one_transaction(service):
    written = []
    add = service.record.journal.add
    service.record.journal.add = lambda *these, **more: (written.append(these), add(*these, **more))
    assert len(service.admission.submit(named(RIGID, "a"), array=1000)) == 1000
    assert [len(one) for one in written] == [1000]
    assert len(service.admission.cancel("a-*")) == 1000
    assert [len(one) for one in written] == [1000, 1000] and not service.record.state.jobs


def test_an_array_that_would_fill_the_journal_is_refused(service):
    large, before = named(RIGID, "a", command=("x", *["y" * 4000] * 60)), events(service)
    with pytest.raises(RefusedError, match="array = 1000: .* at most 16777216 bytes") as raised:
        service.admission.submit(large, array=1000)
    assert raised.value.status == 422 and events(service) == before
    assert len(service.admission.submit(large, array=50)) == 50


def test_over_http(service, client):
    ask = client._http.post
    answer = ask("/v1/jobs?array=2", json={"command": ["true"], "name": "a"})
    assert answer.status_code == 201 and answer.json() == {"names": ["a-0", "a-1"]}
    before = events(service)
    for size, body, words in (
        ("0", {"command": ["true"]}, "array"),
        ("1001", {"command": ["true"]}, "array"),
        ("x", {"command": ["true"]}, "array"),
        ("2", {"command": "true"}, "command"),
        ("2", {"command": ["true"], "array": 2}, "array"),
    ):
        answer = ask(f"/v1/jobs?array={size}", json=body)
        assert answer.status_code == 422 and words in answer.json()["error"], body
    assert events(service) == before


@pytest.mark.parametrize(("error", "sent"), [(httpx.ReadTimeout, 1), (httpx.ConnectError, 2)])
def test_a_request_that_may_have_had_its_effect_is_not_repeated(client, monkeypatch, error, sent):
    usual, asked = client._http.request, []

    def lose_the_first(*arguments, **more):
        asked.append(arguments)
        if len(asked) == 1:
            raise error("no answer")
        return usual(*arguments, **more)

    monkeypatch.setattr(client._http, "request", lose_the_first)
    monkeypatch.setattr("copter.live.client.time.sleep", lambda _: None)
    if sent == 1:
        with pytest.raises(ServiceError, match="no answer; the request may have had its effect"):
            client.submit_array({"command": ["true"], "name": "a"}, 3)
    else:
        assert client.submit_array({"command": ["true"], "name": "a"}, 3) == ["a-0", "a-1", "a-2"]
    assert len(asked) == sent


def test_on_the_command_line(tmp_path, service, client, command):
    def call(*words):
        code, shown = command(service, *words)
        return code, shown.splitlines()

    file = tmp_path / "job.toml"
    file.write_text('command = ["true"]\nname = "sweep"\n')
    assert call("submit", str(file), "--array", "3") == (0, ["sweep-0", "sweep-1", "sweep-2"])
    code, names = call(
        *("submit", str(file), "--name", "last", "--after", "sweep-0,sweep-2", "--time-limit", "1h30m")
    )
    assert (code, names) == (0, ["last"])
    assert call("submit", "--gpus", "2", "--name", "plain", "--", "python", "x", "--json") == (0, ["plain"])
    stored = client.job("plain")["file"]
    assert (stored["command"], stored["gpus"]) == (["python", "x", "--json"], 2)
    assert stored["directory"] == os.getcwd()
    stored = client.job("last")["file"]
    assert stored["after"] == ["sweep-0", "sweep-2"] and stored["time_limit_seconds"] == 5400.0
    assert call("cancel", "sweep-?") == (0, ["sweep-0", "sweep-1", "sweep-2"])
    assert call("submit", str(file), "--array", "0")[0] == 2
    assert call("submit", str(file), "--time-limit", "2")[0] == 2
    found = {job["name"]: job["reason"] for job in json.loads("".join(call("jobs", "--ended", "--json")[1]))}
    assert found["last"] == "it was to start after 'sweep-0', which was cancelled"
    assert found["sweep-1"] == "cancelled by admin"


def test_names_may_be_as_long_as_those_of_other_jobs(service):
    assert service.admission.submit(named(RIGID, "x" * 61), array=10)[-1] == "x" * 61 + "-9"
