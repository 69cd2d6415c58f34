"""Connections without a complete request: they are closed, and lock out no client."""

import contextlib
import http.client
import socket
import threading
import time

import pytest
import uvicorn

from copter.live.connections import limited_protocol
from support.service_process import ServiceProcess, free_port

SECONDS = 60.0


async def app(scope, receive, send):
    """Say what was sent."""
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.contextmanager
def server(most, seconds):
    port = free_port()
    limited = limited_protocol(most, seconds)
    config = uvicorn.Config(app, port=port, lifespan="off", log_level="error", http=limited, ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield port
    finally:
        running.should_exit = True
        thread.join()


def connect(port, said=b""):
    one = socket.create_connection(("127.0.0.1", port), SECONDS)
    one.sendall(said)
    return one


def asked(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", "/")
    answer = connection.getresponse()
    return answer.status, answer.read()


def closed(one):
    """Wait until the other side has closed a connection."""
    one.settimeout(SECONDS)
    try:
        while one.recv(1024):
            continue
    except ConnectionResetError:
        pass
    return True


@pytest.mark.cluster
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab",
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HT",
    ],
)
def test_a_connection_without_a_complete_request_is_closed(said):
    with server(most=100, seconds=0.2) as port, connect(port, said) as one:
        assert closed(one)
        assert asked(port) == (200, b"ok")


@pytest.mark.cluster
def test_the_connections_that_have_waited_longest_make_room():
    with server(most=4, seconds=SECONDS) as port:
        held = [connect(port) for _ in range(12)]
        assert all(closed(one) for one in held[:8])
        assert asked(port) == (200, b"ok")
        for one in held:
            one.close()


@pytest.mark.cluster
def test_idle_connections_lock_nobody_out_of_a_service_with_few_files(tmp_path):
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('gpus = [{ type = "a100", gpus_per_node = 2 }]')
    service = ServiceProcess(tmp_path / "live", cluster, ("--round-seconds", "1", "--soon-seconds", "0.2"))
    service._command = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *service._command]
    with service:
        held = [connect(service.port) for _ in range(300)]
        for _ in range(3):
            with service.client() as client:
                assert client.cluster()["nodes"]
        with service.client() as client:
            client.submit({"command": ["true"], "name": "one"})
            assert client.wait(["one"], timeout=SECONDS)["one"]["status"] == "completed"
        assert all(closed(one) for one in held)
