"""Tokens with names and roles: who may do what, what the journal says of it, and which files are refused."""

import hashlib
import json

import pytest

from copter.live.files import JobFileError
from copter.live.tokens import Tokens
from support.live_cases import events, http_of, make_service, token_entry, write_tokens

SECRETS = {name: f"the-secret-of-{name}" for name in ("alice", "bob", "root", "eyes")}
ROLES = {"alice": "user", "bob": "user", "root": "admin", "eyes": "read"}
JOB = {"command": ["true"], "gpus": 1}


def hashed(token):
    return hashlib.sha256(token.encode()).hexdigest()


def entry(name, role=None, **fields):
    fields = {"sha256": hashed(SECRETS.get(name, name))} | fields
    return token_entry(name, role or ROLES[name], **fields)


@pytest.fixture
def path(tmp_path):
    return write_tokens(tmp_path / "tokens.toml", *map(entry, ROLES))


@pytest.fixture
def service(tmp_path, path):
    made = make_service(tmp_path / "service", tokens=path)
    yield made
    made.close()


@pytest.fixture
def http(service):
    """Send a request with somebody's token; return the status and the body."""
    client = http_of(service)
    secrets = SECRETS | {"admin": service.token}

    def call(who, method, path, **more):
        token = secrets.get(who, who)
        answer = client.request(method, path, headers={"Authorization": f"Bearer {token}"}, **more)
        return answer.status_code, answer.json()

    return call


def authors(service):
    written = [event for event in events(service) if getattr(event, "author", "")]
    return [(type(event).__name__, event.author) for event in written]


def test_the_author_of_each_request_is_in_the_journal(service, http):
    for who in ("alice", "bob", "root", "admin"):
        assert http(who, "POST", "/v1/jobs", json=JOB | {"name": f"of-{who}"})[0] == 201
    assert http("alice", "POST", "/v1/cancel", json={"jobs": ["of-alice"]})[0] == 200
    assert http("root", "POST", "/v1/cancel", json={"jobs": ["of-bob"]})[0] == 200
    assert http("root", "POST", "/v1/nodes/t4/0/drain")[0] == 200
    submitted = [("Submitted", who) for who in ("alice", "bob", "root", "admin")]
    assert authors(service) == [*submitted, ("Closed", "alice"), ("Closed", "root"), ("Drained", "root")]
    jobs = {one["name"]: one for one in http("eyes", "GET", "/v1/jobs?ended=true")[1]}
    assert {name: one["owner"] for name, one in jobs.items()} == {f"of-{who}": who for _, who in submitted}
    assert jobs["of-bob"]["reason"] == "cancelled by root"


@pytest.mark.parametrize(
    ("who", "method", "route", "words"),
    [
        ("bob", "POST", "/v1/cancel", ("of-alice", "belongs to 'alice'", "'bob'")),
        ("bob", "POST", "/v1/nodes/t4/0/drain", ("'bob'", "'user'", "drain nodes")),
        ("bob", "POST", "/v1/nodes/t4/0/drain?back=true", ("'bob'", "'user'", "drain nodes")),
        ("eyes", "POST", "/v1/dry-run", ("'eyes'", "'read'", "submit jobs")),
        ("eyes", "POST", "/v1/jobs", ("'eyes'", "'read'", "submit jobs")),
        ("eyes", "POST", "/v1/cancel", ("'eyes'", "'read'", "cancel jobs")),
        ("eyes", "POST", "/v1/nodes/t4/0/drain", ("'eyes'", "'read'", "drain nodes")),
    ],
)
def test_what_a_role_may_not_do_changes_nothing(service, http, who, method, route, words):
    http("alice", "POST", "/v1/jobs", json=JOB | {"name": "of-alice"})
    before = list(service.record.journal.events())
    bodies = {"/v1/jobs": JOB, "/v1/dry-run": JOB, "/v1/cancel": {"jobs": ["of-alice"]}}
    status, body = http(who, method, route, json=bodies.get(route))
    assert status == 403 and all(word in body["error"] for word in words)
    assert list(service.record.journal.events()) == before
    if route == "/v1/cancel":
        assert http("alice", method, route, json=bodies[route])[0] == 200


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry("alice"), entry("alice", sha256="0" * 64)], ("'alice'", "once")),
        ([entry("alice"), entry("bob", sha256=hashed(SECRETS["alice"]))], ("'alice'", "'bob'", "same token")),
        ([entry("alice", role="user", note="")], ("tokens.0.note", "no such field")),
        ([entry("alice", token="x" * 16)], ("tokens.0.token", "no such field")),
        ([entry("alice", sha256="0" * 63)], ("tokens.0.sha256",)),
        ([entry("alice", role="boss")], ("tokens.0.role",)),
        ([entry("admin", role="user")], ("'admin'", "once")),
        ([entry("alice", sha256=hashed("generated" * 3))], ("'alice'", "'admin'", "same token")),
        (["tokens = 3"], ("tokens",)),
    ],
)
def test_files_that_are_refused(tmp_path, entries, words):
    path = write_tokens(tmp_path / "tokens.toml", *entries)
    with pytest.raises(JobFileError) as raised:
        Tokens("generated" * 3, path)
    assert all(word in str(raised.value) for word in (*words, str(path)))
    assert "x" * 16 not in str(raised.value)


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_files_that_others_can_change_are_refused(tmp_path, mode):
    path = write_tokens(tmp_path / "tokens.toml", entry("alice"), mode=mode)
    with pytest.raises(JobFileError, match=rf"{path}: mode {mode:04o}.*chmod 644"):
        Tokens("generated", path)


def test_a_service_with_an_invalid_file_leaves_its_folder_to_the_next(tmp_path, path):
    path.chmod(0o666)
    with pytest.raises(JobFileError):
        make_service(tmp_path / "service", tokens=path)
    path.chmod(0o644)
    make_service(tmp_path / "service", tokens=path).close()


def test_commands_show_owners_and_authors(tmp_path, service, command):
    def call(who, *words):
        return command(service, *words, token=SECRETS[who])

    (tmp_path / "job.toml").write_text('command = ["true"]\n')
    for who in ("alice", "bob"):
        assert call(who, "submit", str(tmp_path / "job.toml"), "--name", f"of-{who}")[0] == 0
    code, said = call("alice", "cancel", "of-bob")
    assert code == 1 and "belongs to 'bob'" in said
    assert call("root", "cancel", "of-bob")[0] == 0
    found = json.loads(call("eyes", "jobs", "--ended", "--json")[1])
    assert {one["name"]: one["owner"] for one in found} == {"of-alice": "alice", "of-bob": "bob"}
    assert [one["reason"] for one in found] == ["", "cancelled by root"]
