"""The Ray that programs and tasks use: joined or started for the first of them, ended by the last.

Ray itself waits for more than a minute for a cluster that is not there, and for ever for processors that no
node has; here both are looked at first.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Mapping
from typing import Any, ClassVar

from copter.errors import CopterError, SettingError
from copter.extras import extra

with extra("ray"):
    import ray

_CONNECT_SECONDS = 5.0
_LOCK = threading.Lock()


class NoClusterError(CopterError, ConnectionError):
    """There is no Ray cluster at an address."""

    def __init__(self, address: str, why: str) -> None:
        self.address = address
        self.why = why
        super().__init__(address, why)

    def __str__(self) -> str:
        return (
            f"no Ray cluster answers at {self.address!r}: {self.why}: look whether its head node runs and "
            "can be reached from here, or leave the address out for a Ray of this machine"
        )


class Session:
    """A connection to Ray, counted by programs that use it; made by :meth:`join`.

    If it was `started`, or joined, for a program, it ends with the last one.
    """

    _now: ClassVar[Session | None] = None

    def __init__(self, started: bool) -> None:
        self._started, self._programs = started, 0
        self._node = _node()

    @classmethod
    def join(cls, address: str | None, processors: int | None = None) -> Session:
        """Use the Ray that this process is connected to; without any, the one at an address, or a new one.

        A new one has `processors`, by default those of this machine. The caller must leave the session. Raise
        NoClusterError if there is none at the address.
        """
        with _LOCK:
            if not ray.is_initialized():
                _connect(address, processors)
                cls._now = cls(started=True)
            elif cls._now is None or cls._now._node != _node():
                cls._now = cls(started=False)
            cls._now._programs += 1
            return cls._now

    def leave(self) -> None:
        """Stop using it; the last user ends it if it was started."""
        with _LOCK:
            self._programs -= 1
            if self._programs or not self._started:
                return
            if ray.is_initialized() and self._node == _node():  # not one of the user's, made meanwhile
                ray.shutdown()
            if Session._now is self:
                Session._now = None


def check_room(
    actors: int, needs: Mapping[str, float], setting: tuple[str, str] = ("RayProgram", "actors")
) -> None:
    """Raise SettingError if the cluster's nodes would not have room for the actors even if they did nothing
    else.

    `needs`: what Ray sets aside for each actor, by resource; ``CPU`` is processors. `setting`: the setting of
    the number of actors, for the message.
    """
    wanted = {name: each for name, each in needs.items() if each > 0}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fit = sum(
        min(_times(node.get(name, 0.0), each) for name, each in wanted.items()) for node in nodes if wanted
    )
    if wanted and fit < actors:
        has = ", ".join(f"{sum(node.get(name, 0.0) for node in nodes):g} {name}" for name in wanted)
        asked = ", ".join(f"{each:g} {name}" for name, each in wanted.items())
        why = (
            f"each needs {asked}, and Ray has {has}, on {len(nodes)} nodes with room for {fit}: take fewer "
            "actors, a smaller num_cpus (0 lets them share processors), or a Ray with more"
        )
        raise SettingError(*setting, actors, why)


def _times(there: float, each: float) -> int:
    return math.floor(there / each + 1e-9)


def _node() -> str:
    node: str = ray.get_runtime_context().get_node_id()
    return node


def _connect(address: str | None, processors: int | None) -> None:
    own: dict[str, Any] = {} if address else {"num_cpus": processors, "include_dashboard": False}
    if address:
        probe(address)
    try:
        ray.init(address or "local", logging_level=logging.WARNING, log_to_driver=False, **own)
    except ConnectionError as error:
        raise NoClusterError(address or "local", str(error)) from error


def probe(address: str) -> None:
    """Raise NoClusterError if nothing listens at an address of a host and a port."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise NoClusterError(address, str(error)) from error
