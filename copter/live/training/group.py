"""The processes of a run on one machine: how they average gradients and agree on the next step.

They form a star of local sockets: the first process (rank 0) listens, and the other processes connect.
Messages are those of :mod:`multiprocessing.connection`, as bytes and never pickled, and only between
processes of one user. To sum vectors, all processes send them to the first process, which adds them in the
order of the ranks and sends the sum to all.  So all processes get identical bits, in every run.  A run on
several machines needs torch.distributed instead: see `torch.py`.

A process that ends closes its connections, and all others then fail at once.
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

SILENCE_SECONDS = 300.0
"""Seconds for which a process waits for a message of another process, or for its own to be received."""
_CREDENTIALS = struct.Struct("iII")
"""Process, user and group at the other end of a socket."""


class PeerError(CopterError, RuntimeError):
    """Another process of the run has ended, does not answer, or sent data of the wrong size."""


class ProcessGroup:
    """The processes of a run; `peers`: all other processes if this is the first one, else the first one."""

    def __init__(self, rank: int = 0, peers: Mapping[int, Connection] | None = None) -> None:
        self.rank, self._peers = rank, dict(sorted((peers or {}).items()))

    def spread(self, content: bytes) -> bytes:
        """Return the content that the first process gives; other processes' content is ignored."""
        if self.rank:
            with _of_peer(0):
                return self._peers[0].recv_bytes()
        for rank, peer in self._peers.items():
            with _of_peer(rank):
                peer.send_bytes(content)
        return content

    def reduce(self, vector: NDArray[Any], note: bytes, decide: Callable[[list[bytes]], bytes]) -> bytes:
        """Sum a vector of equal length over all processes, in place, and agree on a decision.

        Once the vector is summed, the first process calls `decide` with the notes of all processes.  Every
        process returns the result.  Raises PeerError if a process has ended or is silent, or its vector has
        another length.
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
        """Close the connections."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()


def join(folder: Path, rank: int, ranks: int) -> ProcessGroup:
    """Connect with all other processes of the run that has this folder.

    The service ends a run whose processes do not find each other, because such a run sends no reports.
    Raises PeerError if the first process is on another machine, or belongs to another user.
    """
    if ranks == 1:
        return ProcessGroup()
    if rank:
        return ProcessGroup(rank, {0: _find_first(folder, rank)})
    joined: dict[int, Connection] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(local_name(folder))
        listener.listen(ranks)
        while len(joined) < ranks - 1:
            peer = _connection(listener.accept()[0])
            if peer is None:
                continue
            try:
                joined[int.from_bytes(peer.recv_bytes(), "little")] = peer
            except (OSError, EOFError):  # the process has just ended, and its agent ends the run
                peer.close()
    return ProcessGroup(0, joined)


def local_name(folder: Path) -> str:
    """Return the name, in Linux's abstract namespace, at which a run's first process listens."""
    return "\0copter-" + hashlib.sha256(os.fsencode(folder)).hexdigest()


def _find_first(folder: Path, rank: int) -> Connection:
    here = identity()["boot"]
    while True:
        first = begun(folder, 0)
        if first and first.get("boot") != here:
            raise PeerError("process 0 is on another machine: jobs on several machines need TorchTraining")
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(local_name(folder))
        except ConnectionRefusedError:  # process 0 does not listen yet
            found.close()
            time.sleep(0.02)
            continue
        peer = _connection(found)
        if peer is None:
            raise PeerError("a process of another user listens at the address of process 0")
        peer.send_bytes(rank.to_bytes(4, "little"))
        return peer


def _connection(connected: socket.socket) -> Connection | None:
    """Return a connection over a socket, or None if the other process belongs to another user."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(credentials)[1] != os.geteuid():
        connected.close()
        return None
    limit = struct.pack("ll", int(SILENCE_SECONDS), int(SILENCE_SECONDS % 1 * 1e6))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    return Connection(connected.detach())


def _receive(peer: Connection, rank: int, like: NDArray[Any]) -> NDArray[Any]:
    """Receive a vector with the length and type of `like`."""
    content = peer.recv_bytes()
    if len(content) != like.nbytes:
        what = f"has a gradient of {len(content)} bytes, this process expects {like.nbytes}"
        raise PeerError(f"process {rank} {what}")
    return np.frombuffer(content, like.dtype)


@contextmanager
def _of_peer(rank: int) -> Iterator[None]:
    """Turn errors of a connection into a PeerError that names the process."""
    try:
        yield
    except BlockingIOError as error:
        raise PeerError(f"process {rank} does not answer: {error}") from error
    except (OSError, EOFError) as error:
        raise PeerError(f"process {rank} has ended: {error or 'connection closed'}") from error
