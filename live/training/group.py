"""The processes of a run on one machine: how they average gradients and agree on what to do next.

A star of local sockets: the first process (rank 0) listens, and the others connect.  Messages are those of
:mod:`multiprocessing.connection`, as bytes and never pickled, and only between processes of one user.  To sum
vectors, all send theirs to the first process, which adds them up in the order of the ranks and sends the sum
to all: every process has the same bits, every time.  The processes of a run on several machines need
torch.distributed: see `torch.py`.

A process that ends closes its connections, and all others fail at once.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.live.backends.agent import identity
from copter.live.backends.base import begun

JOIN_SECONDS = 300.0
"""How long processes wait for each other at the beginning."""
SILENCE_SECONDS = 300.0
"""How long a process waits for another's part of a step, or until it takes what it is sent."""
_CREDENTIALS = struct.Struct("iII")
"""Process, user and group at the other end of a socket."""


class PeerError(CopterError, RuntimeError):
    """Another process of the run is gone, does not answer, or sends what does not fit."""


class ProcessGroup:
    """The processes of a run; the first one has all others as `peers`, every other one has the first."""

    def __init__(self, rank: int = 0, peers: Mapping[int, Connection] | None = None) -> None:
        self.rank, self._peers = rank, dict(sorted((peers or {}).items()))

    def spread(self, content: bytes) -> bytes:
        """Return what the first process gives; what the others give is left out."""
        if self.rank:
            with _of_peer(0):
                return self._peers[0].recv_bytes()
        for rank, peer in self._peers.items():
            with _of_peer(rank):
                peer.send_bytes(content)
        return content

    def reduce(self, vector: NDArray[Any], note: bytes, decide: Callable[[list[bytes]], bytes]) -> bytes:
        """Sum a vector of equal length over all processes, in place, and agree.

        The first process calls `decide` with the notes of all processes once the vector is summed, and every
        process returns what that returned.  Raises PeerError if a process is gone or silent, or its vector
        has another length.
        """
        if self.rank:
            first = self._peers[0]
            with _of_peer(0):
                first.send_bytes(note)
                first.send_bytes(vector.tobytes())
                decision = first.recv_bytes()
                vector[...] = _receive(first, 0, vector)
            return decision
        notes = [note]
        for rank, peer in self._peers.items():
            with _of_peer(rank):
                notes.append(peer.recv_bytes())
                vector += _receive(peer, rank, vector)
        decision = decide(notes)
        content = vector.tobytes()
        for rank, peer in self._peers.items():
            with _of_peer(rank):
                peer.send_bytes(decision)
                peer.send_bytes(content)
        return decision

    def close(self) -> None:
        """Leave the others."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()


def join(folder: Path, rank: int, ranks: int) -> ProcessGroup:
    """Connect with all other processes of the run that has a folder.

    Raises PeerError if they do not come in time, or the first one is on another machine.
    """
    if ranks == 1:
        return ProcessGroup()
    name, deadline = local_name(folder), time.monotonic() + JOIN_SECONDS
    if rank:
        return ProcessGroup(rank, {0: _find_first(folder, name, rank, deadline)})
    joined: dict[int, Connection] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen(ranks)
        while len(joined) < ranks - 1:
            listener.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                peer = _connection(listener.accept()[0])
            except TimeoutError:
                missing = ", ".join(str(each) for each in range(1, ranks) if each not in joined)
                raise PeerError(f"processes {missing} did not come within {JOIN_SECONDS:g} s") from None
            if peer is None:
                continue
            try:
                joined[int.from_bytes(peer.recv_bytes(), "little")] = peer
            except (OSError, EOFError):  # it has just ended, and its agent ends the run
                peer.close()
    return ProcessGroup(0, joined)


def local_name(folder: Path) -> str:
    """Return the name, in Linux's abstract namespace, at which a run's first process listens."""
    return "\0copter-" + hashlib.sha256(os.fsencode(folder)).hexdigest()


def _find_first(folder: Path, name: str, rank: int, deadline: float) -> Connection:
    here = identity(os.getpid())["boot"]
    while time.monotonic() < deadline:
        first = begun(folder, 0)
        if first and first.get("boot") != here:
            raise PeerError("process 0 is on another machine: a job there too needs PyTorch (TorchTraining)")
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(name)
        except ConnectionRefusedError:  # it does not listen yet
            found.close()
            time.sleep(0.02)
            continue
        peer = _connection(found)
        if peer is None:
            raise PeerError("another user listens in the place of process 0")
        peer.send_bytes(rank.to_bytes(4, "little"))
        return peer
    raise PeerError(f"process 0 was not found on this machine within {JOIN_SECONDS:g} s")


def _connection(connected: socket.socket) -> Connection | None:
    """Return a connection over a socket, or None if the other side is another user's."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(credentials)[1] != os.geteuid():
        connected.close()
        return None
    connected.setblocking(True)
    limit = struct.pack("ll", int(SILENCE_SECONDS), int(SILENCE_SECONDS % 1 * 1e6))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    return Connection(connected.detach())


def _receive(peer: Connection, rank: int, like: NDArray[Any]) -> NDArray[Any]:
    """Receive a vector of the form of another one."""
    content = peer.recv_bytes()
    if len(content) != like.nbytes:
        raise PeerError(f"process {rank} has a gradient of {len(content)} bytes, this one of {like.nbytes}")
    return np.frombuffer(content, like.dtype)


@contextmanager
def _of_peer(rank: int) -> Iterator[None]:
    """Turn errors of a connection into a PeerError that names the process."""
    try:
        yield
    except BlockingIOError as error:
        raise PeerError(f"process {rank} is silent: {error}") from error
    except (OSError, EOFError) as error:
        raise PeerError(f"process {rank} is gone: {error or 'it hung up'}") from error
