"""Limits of a server's connections, so that clients without a token cannot use up its file descriptors.

A connection *waits* while the server is not answering a complete request on it: before a request, during the
transmission of a request, and between two requests.  A connection that has been waiting for too long is
closed.  If too many connections wait, those that have waited longest are closed to make room for new clients.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from typing import Any

from copter.errors import CopterError
from copter.extras import extra

with extra("live"):
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

IDLE_SECONDS = 10.0
"""Seconds within which a request must be complete."""
_MOST_WAITING = 1024
"""Largest number of connections that wait."""


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket for a server; raise CopterError if the address cannot be used."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error  # 0 or less: a lookup
        raise CopterError(f"address {host}:{port}: {why}") from None


def connection_limits() -> dict[str, Any]:
    """Return uvicorn's settings for this process, which may open a limited number of files.

    At most a quarter of the files is for connections that wait, and at most a sixteenth for new connections
    that the server has not accepted yet.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_WAITING if files == resource.RLIM_INFINITY else min(files // 4, _MOST_WAITING)
    waiting = max(most, 8)
    return {"http": limited_protocol(waiting, IDLE_SECONDS), "backlog": max(waiting // 4, 2), "ws": "none"}


def limited_protocol(most: int, seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol for HTTP with at most `most` waiting connections, for `seconds` each."""
    waiting: dict[Any, asyncio.TimerHandle] = {}  # the connection that has been waiting longest is first
    usual: Any = AutoHTTPProtocol

    class LimitedProtocol(usual):
        """A connection that is closed if it waits for too long."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _look(self) -> None:
            cycle = self.cycle
            if cycle is not None and not cycle.more_body and not cycle.response_complete:
                self._forget()  # the request is being answered
            elif self not in waiting and not self.transport.is_closing():
                waiting[self] = self.loop.call_later(seconds, self._end)
                while len(waiting) > most:
                    next(iter(waiting))._end()

        def _forget(self) -> None:
            timer = waiting.pop(self, None)
            if timer is not None:
                timer.cancel()

        def _end(self) -> None:
            self._forget()
            self.transport.abort()

    return LimitedProtocol
