"""Bodies and connections without end: what one job sends costs the others little."""

import asyncio
import http.client
import resource
import socket
import threading
import time

import pytest

from copter.live.connections import bound_socket
from copter.live.http import MOST_BYTES, _WholeRequests, make_app
from copter.live.process import ServiceProcess
from support.live_cases import make_service

SECONDS = 60.0


@pytest.fixture
def service(tmp_path):
    made = make_service(tmp_path / "live")
    yield made
    made.close()


def asked(headers, *messages):
    """Send a request to the check of requests; return what came to the application, and the answer."""
    came, answer, left = [], [], list(messages)

    async def app(scope, receive, send):
        came.append(await receive())

    async def receive():
        return left.pop(0)

    async def send(message):
        answer.append(message)

    scope = {"type": "http", "method": "POST", "headers": headers}
    asyncio.run(_WholeRequests(app)(scope, receive, send))
    return came, answer


def part(body, more):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_request_is_handed_on_as_a_whole_or_not_at_all():
    length = [(b"content-length", b"4")]
    assert asked(length, part(b"ab", True), part(b"cd", False)) == ([part(b"abcd", False)], [])
    assert asked(length, part(b"ab", True), {"type": "http.disconnect"}) == ([], [])
    assert asked([], part(b"", False)) == ([part(b"", False)], [])


@pytest.mark.parametrize(
    ("headers", "status", "closes"),
    [
        ([(b"transfer-encoding", b"chunked")], 411, True),
        ([(b"content-length", b"%d" % (MOST_BYTES + 1))], 413, False),
        ([(b"content-length", b"%d" % 10**12)], 413, True),
        ([(b"content-length", b"1" * 100)], 413, True),
        ([(b"content-length", b"-1")], 413, True),
    ],
)
def test_the_connection_of_a_body_without_end_is_closed(headers, status, closes):
    came, (start, _) = asked(headers)
    assert not came and start["status"] == status
    assert ((b"connection", b"close") in start["headers"]) == closes


@pytest.mark.cluster
def test_a_body_without_end_is_not_read(tmp_path):
    (tmp_path / "cluster.toml").write_text('gpus = [{ type = "a100", gpus_per_node = 2 }]')
    with (
        ServiceProcess(tmp_path / "live", tmp_path / "cluster.toml") as service,
        socket.create_connection(("127.0.0.1", service.port), SECONDS) as one,
    ):
        one.sendall(b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        began = time.monotonic()
        with pytest.raises(OSError, match="reset|[Bb]roken"):
            while time.monotonic() - began < SECONDS:
                one.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        assert time.monotonic() - began < 5.0  # not when a waiting connection is closed


@pytest.mark.cluster
def test_many_new_connections_do_not_keep_out_the_next_one():
    """The system drops a connection that finds the queue full, and the client tries again seconds later."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    server, held, began = bound_socket("127.0.0.1", 0), [], time.monotonic()
    try:
        server.listen()
        for _ in range(2000):
            held.append(socket.create_connection(server.getsockname(), SECONDS))
        assert time.monotonic() - began < 5.0
    finally:
        for one in (server, *held):
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.cluster
def test_half_of_a_request_holds_up_no_other(service, tmp_path):
    """Half of a request never comes to a route, over a real connection."""
    import uvicorn

    app = make_app(service)
    config = uvicorn.Config(app, lifespan="off", log_level="error", ws="none")
    server, bound = uvicorn.Server(config), bound_socket("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        host, port = bound.getsockname()
        half = b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab"
        held = [socket.create_connection((host, port), SECONDS) for _ in range(50)]
        for one in held:
            one.sendall(half)
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        for one in held:
            one.close()
    finally:
        server.should_exit = True
        thread.join()
