"""The client and the commands `jobs` and `logs`: what they ask for, and what they print."""

import contextlib
import http.server
import shutil
import ssl
import subprocess
import threading
from functools import partial

import pytest

from copter.live.client import Client, ServiceError
from copter.live.tokens import Author
from support.live_cases import RIGID, begin, client_of, step

ALICE, BOB = Author("alice", "user"), Author("bob", "user")
MIB = 1024 * 1024


@pytest.fixture
def asked():
    """What a client has asked for."""
    return []


@pytest.fixture
def client(service, asked):
    with client_of(service) as made:
        usual = made._ask
        made._ask = lambda method, path, **more: (asked.append(path), usual(method, path, **more))[1]
        yield made


def write_log(service, text, run=1):
    path = service.folder / "jobs" / "one" / "runs" / str(run) / "log-0.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


@pytest.fixture
def job(service):
    begin(service, RIGID, "one")


def test_a_long_log_takes_one_request_for_each_megabyte(service, client, asked, job):
    text = b"0123456789abcde\n" * (3 * MIB // 16)
    write_log(service, text)
    assert client.log("one").encode() == text
    assert asked == ["/v1/jobs/one/log"] * 4


def test_a_log_is_followed_to_the_end_of_the_job(service, client, asked, job, monkeypatch):
    write_log(service, b"first\n")
    monkeypatch.setattr("copter.live.client.time.sleep", lambda _: steps.pop(0)())

    def second_run():
        service.backend.end("one.1", "lost")
        step(service)
        step(service, 10.0)
        with (service.folder / "jobs/one/runs/1/log-0.txt").open("ab") as log:
            log.write(b"last words\n")
        write_log(service, b"second\n", run=2)

    def end():
        write_log(service, b"second\nthird\n", run=2)
        service.backend.end("one.2")
        step(service)

    steps = [lambda: None, second_run, end]
    assert "".join(client.parts("one", follow=True)) == "first\nlast words\nsecond\nthird\n"
    assert not steps and set(asked) == {"/v1/jobs/one/log"}


@pytest.mark.parametrize("lines", [1, 2, 7, 100_000])
@pytest.mark.parametrize("text", ["", "one\n", "a\n\nb\r\u2028\nend", "é" * 50 + "\n", "word\n" * 400_000])
def test_the_last_lines_of_a_log(service, client, job, lines, text):
    write_log(service, text.encode())
    kept = text.removesuffix("\n").split("\n")[-lines:]
    assert client.log("one", tail=lines) == "\n".join(kept) + "\n" * text.endswith("\n")


@pytest.fixture
def run(service, command):
    """Call `copter jobs` or `copter logs`, and return the exit code and the output."""
    return partial(command, service)


def test_the_end_of_a_log_is_printed(service, run, job):
    write_log(service, b"a\nb\nc\n")
    assert run("logs", "one", "--tail", "2") == (0, "b\nc\n")
    service.admission.cancel("one")
    step(service)
    assert run("logs", "-f", "one", "--tail", "1") == (0, "c\n")
    assert run("logs", "one") == (0, "a\nb\nc\n")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("first#", "name: String should match pattern"),
        ("first?x=", "name: String should match pattern"),
        ("\x1b[31m", "name: String should match pattern"),
        ("../cluster", "name = '../cluster'"),
        ("", "name = ''"),
    ],
)
def test_an_odd_name_is_a_name(client, name, problem):
    for ask in (client.job, client.why, client.log):
        with pytest.raises(ServiceError, match=problem):
            ask(name)


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        ("http://[::1", "token", "must be a URL"),
        ("http://x", "\u00e9", "token: must be printable ASCII text"),
        ("http://x", "a\nb", "token: must be printable ASCII text"),
    ],
)
def test_an_address_or_a_token_that_cannot_be_used_is_said(url, token, words):
    with pytest.raises(ServiceError, match=words):
        Client(url, token)


class Proxy(http.server.BaseHTTPRequestHandler):
    """A proxy that answers with some statuses, and then with an empty list of jobs."""

    statuses: list[int]
    seen: list[str]

    def do_GET(self):
        self.seen.append(self.command)
        status = self.statuses.pop(0) if self.statuses else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"[]" if status == 200 else b"<html>no service</html>")

    do_POST = do_GET

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def proxy_of(*statuses, context=None):
    """A running proxy; its port, and the requests that it has seen."""
    kind = type("OwnProxy", (Proxy,), {"statuses": list(statuses), "seen": []})
    server = http.server.HTTPServer(("127.0.0.1", 0), kind)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], kind.seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_patient_client_waits_for_a_service_behind_a_proxy():
    with (
        proxy_of(502, 504) as (port, seen),
        contextlib.closing(Client(f"http://127.0.0.1:{port}", "t", patience=30.0)) as client,
    ):
        assert client.jobs() == []
        assert len(seen) == 3


@pytest.mark.parametrize(
    ("patience", "status", "asks"), [(0.0, 502, "jobs"), (30.0, 500, "jobs"), (30.0, 502, "cancel")]
)
def test_what_is_not_repeated(patience, status, asks):
    """Without patience, other errors, and requests that may have changed something."""
    with (
        proxy_of(status) as (port, seen),
        contextlib.closing(Client(f"http://127.0.0.1:{port}", "t", patience=patience)) as client,
        pytest.raises(ServiceError, match=str(status)),
    ):
        client.jobs() if asks == "jobs" else client.cancel("one")
    assert len(seen) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_of_ones_own_is_trusted_by_a_variable(tmp_path, monkeypatch):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    made = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", *files, *names]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with proxy_of(context=context) as (port, seen):
        url = f"https://127.0.0.1:{port}"
        with contextlib.closing(Client(url, "t")) as client, pytest.raises(ServiceError, match="certificate"):
            client.jobs()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with contextlib.closing(Client(url, "t")) as client:
            assert client.jobs() == []
    assert len(seen) == 1
