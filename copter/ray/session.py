"""Connection to Ray, which the first program or task joins or starts, and the last one ends.

Ray itself waits for more than a minute for a cluster that does not exist, and forever for processors that no
node has. This module checks both first.
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
    """There is no Ray cluster at an address; check the address, or leave it out for a local cluster."""

    def __init__(self, address: str, why: str) -> None:
        self.address = address
        self.why = why
        super().__init__(address, why)

    def __str__(self) -> str:
        return (
            f"no Ray cluster answers at {self.address!r}: {self.why}; check whether its head node runs and "
            "can be reached, or leave the address out for a Ray on this machine"
        )


class Session:
    """Connection to Ray with a count of the programs that use it; made by :meth:`join`.

    If copter `started` or joined Ray, the last program ends the connection.
    """

    _now: ClassVar[Session | None] = None

    def __init__(self, started: bool) -> None:
        self._started, self._programs = started, 0
        self._node = _node()

    @classmethod
    def join(cls, address: str | None, processors: int | None = None) -> Session:
        """Use the Ray that this process is connected to, else the Ray at an address, else a new Ray.

        A new Ray has `processors` processors, by default those of this machine. The caller must leave the
        session. Raise NoClusterError if there is no cluster at the address.
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
        """Leave the session; the last user ends the connection if copter started or joined it."""
        with _LOCK:
            self._programs -= 1
            if self._programs or not self._started:
                return
            if ray.is_initialized() and self._node == _node():  # not a Ray that the user started meanwhile
                ray.shutdown()
            if Session._now is self:
                Session._now = None


def check_room(
    actors: int, needs: Mapping[str, float], setting: tuple[str, str] = ("RayProgram", "actors")
) -> None:
    """Raise SettingError if the idle cluster would not have enough resources for the actors.

    `needs` has the resources that Ray reserves for each actor; ``CPU`` means processors. The error names
    `setting`, the subject and the setting of the number of actors.
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
            f"each needs {asked}, and Ray has {has}, on {len(nodes)} nodes with room for {fit}; use fewer "
            "actors, a smaller num_cpus (0 lets them share processors), or a larger Ray"
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
    """Raise NoClusterError if an address has a host and a port and nothing listens there."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise NoClusterError(address, str(error)) from error
