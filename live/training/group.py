"""The processes of a run: how they find each other, average gradients and agree on what to do next.

A star over TCP.  The first process (rank 0) listens and writes where into ``address.json`` in the run's
folder, which all of them see; the others connect.  Both sides prove that they know the run's token
(HMAC-SHA256 over fresh random bytes of both), so a stranger on the port cannot take part, nor be taken for
the first process.  What follows is neither encrypted nor signed: like the collectives of other frameworks it
is for a cluster's own network.

To sum vectors, all send theirs to the first process, which adds them up in the order of the ranks and sends
the sum to all: every process has the same bits, every time.  With K processes and vectors of d bytes
2 (K - 1) d bytes go through the first process' network for each sum, where a ring would send 2 d (K - 1) / K
through everyone's: it is for models of some million parameters.  `torch.py` leaves
vectors to torch.distributed and only agrees here.

A process that ends takes its connections with it, and all others fail at once.  A node that is gone is
noticed by TCP's keepalive within `_GONE_SECONDS`, a process that hangs after `SILENCE_SECONDS`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from copter.durable.files import write_whole
from copter.errors import CopterError

ADDRESS_FILE = "address.json"
JOIN_SECONDS = 300.0
"""How long processes wait for each other at the beginning."""
SILENCE_SECONDS = 300.0
"""How long one waits for another's part of a step, or for it to take what it is sent."""
_GONE_SECONDS = 30
"""After which a node that does not answer TCP is gone."""
_HANDSHAKE_SECONDS = 5.0
_NONCE, _DIGEST = 16, 32
_LENGTH = struct.Struct("<Q")
_GO, _STOP = b"G", b"S"


class PeerError(CopterError, RuntimeError):
    """Another process of the run is gone, does not answer, or says what does not fit."""


class ToldToStopError(CopterError, RuntimeError):
    """The run was told to stop before its processes had found each other."""


class Group:
    """The processes of a run, connected; made by :meth:`join`.

    Parameters
    ----------
    rank : int
        Of this process.
    peers : sequence of (int, socket)
        The first process has all others, in the order of their ranks; every other has the first.
    """

    def __init__(self, rank: int = 0, peers: Sequence[tuple[int, socket.socket]] = ()) -> None:
        self.rank, self._peers = rank, list(peers)
        for _, peer in self._peers:
            _configure(peer)

    @classmethod
    def join(
        cls,
        folder: Path,
        rank: int,
        ranks: int,
        token: str,
        nodes: int = 1,
        told: Callable[[], bool] = lambda: False,
    ) -> Group:
        """Connect with all other processes of a run.

        Parameters
        ----------
        folder : Path
            The run's own, empty of other runs' files.
        nodes : int
            Of the run; on a single one nobody listens to the network.
        told : callable
            Whether this process has been told to stop meanwhile.

        Raises
        ------
        PeerError
            The others did not come in time, or are gone.
        ToldToStopError
            The run has been told to stop.
        ValueError
            There is no token, and so nothing to know each other by.
        """
        if ranks == 1:
            return cls()
        if not token:
            raise ValueError("the run has no token: its processes cannot know each other")
        key = token.encode()
        if rank:
            return _follow(cls, folder, rank, key, told)
        return _lead(cls, folder, ranks, key, "127.0.0.1" if nodes == 1 else "", told)

    @property
    def first_host(self) -> str:
        """Address of the first process's node, as it was reached from here."""
        return self._peers[0][1].getpeername()[0] if self.rank else "127.0.0.1"

    def spread(self, content: bytes) -> bytes:
        """What the first process gives; the others' own is left out."""
        if self.rank:
            ((rank, first),) = self._peers
            with _of_peer(rank):
                return _receive(first)
        for rank, peer in self._peers:
            with _of_peer(rank):
                peer.sendall(_LENGTH.pack(len(content)) + content)
        return content

    def reduce(self, vector: NDArray[Any], note: bytes, decide: Callable[[list[bytes]], bytes]) -> bytes:
        """Sum a vector over all processes, in place, and agree.

        Parameters
        ----------
        vector : (d,) array
            One of as many bytes in every process.
        note : bytes
            What this process has to say.
        decide : callable
            Called in the first process, where the vector is summed, with the notes of all.

        Returns
        -------
        bytes
            What `decide` returned, in every process.

        Raises
        ------
        PeerError
            A process is gone or silent, or its vector has another length.
        """
        raw = vector.data.cast("B") if vector.size else memoryview(b"")
        if self.rank:
            ((rank, first),) = self._peers
            with _of_peer(rank):
                _send(first, note, raw)
                decision = _receive(first)
                _receive_into(first, raw, rank)
            return decision
        notes = [note]
        other = vector.copy()
        into = other.data.cast("B") if other.size else memoryview(bytearray())
        for rank, peer in self._peers:
            with _of_peer(rank):
                notes.append(_receive(peer))
                _receive_into(peer, into, rank)
            vector += other
        decision = decide(notes)
        for rank, peer in self._peers:
            with _of_peer(rank):
                _send(peer, decision, raw)
        return decision

    def close(self) -> None:
        """Leave the others."""
        for _, peer in self._peers:
            peer.close()
        self._peers.clear()


# ---- finding each other -------------------------------------------------------------------------


def _lead(
    make: type[Group], folder: Path, ranks: int, key: bytes, interface: str, told: Callable[[], bool]
) -> Group:
    joined: dict[int, socket.socket] = {}
    with socket.create_server((interface, 0), backlog=ranks) as listener:
        listener.settimeout(0.1)
        address = {"hosts": _own_names(), "port": listener.getsockname()[1]}
        write_whole(folder / ADDRESS_FILE, lambda file: file.write(json.dumps(address).encode()))
        deadline = time.monotonic() + JOIN_SECONDS
        while len(joined) < ranks - 1 and not told():
            if time.monotonic() > deadline:
                missing = ", ".join(str(rank) for rank in range(1, ranks) if rank not in joined)
                raise PeerError(f"processes {missing} did not come within {JOIN_SECONDS:g} s")
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            rank = _admit(peer, key, range(1, ranks))
            if rank is None or rank in joined:
                peer.close()
            else:
                joined[rank] = peer
    group = make(0, sorted(joined.items()))
    stop = told()
    for rank, peer in sorted(joined.items()):
        with _of_peer(rank):
            peer.sendall(_STOP if stop else _GO)
    if stop:
        group.close()
        raise ToldToStopError("told to stop before all processes had come")
    return group


def _admit(peer: socket.socket, key: bytes, ranks: range) -> int | None:
    """The rank of a process that knows the token; None for anybody else."""
    peer.settimeout(_HANDSHAKE_SECONDS)
    ours = secrets.token_bytes(_NONCE)
    try:
        peer.sendall(ours)
        said = _exactly(peer, 4 + _NONCE + _DIGEST)
        named = said[:4] + ours + said[4 : 4 + _NONCE]
        rank = int.from_bytes(said[:4], "little")
        if rank not in ranks or not hmac.compare_digest(_proof(key, b"join", named), said[-_DIGEST:]):
            return None
        peer.sendall(_proof(key, b"lead", named))
    except (OSError, EOFError):
        return None
    return rank


def _follow(make: type[Group], folder: Path, rank: int, key: bytes, told: Callable[[], bool]) -> Group:
    deadline, pause, why = time.monotonic() + JOIN_SECONDS, 0.01, "it did not write its address"
    while time.monotonic() < deadline:
        if told():
            raise ToldToStopError("told to stop before the first process was found")
        for host, port in _addresses(folder / ADDRESS_FILE):
            try:
                peer = socket.create_connection((host, port), _HANDSHAKE_SECONDS)
            except OSError as error:
                why = f"{host}:{port}: {error}"
                continue
            try:
                _prove(peer, key, rank)
            except (OSError, EOFError, PeerError) as error:
                why = f"{host}:{port}: {error or 'it hung up'}"
                peer.close()
                continue
            peer.settimeout(max(deadline - time.monotonic(), 1.0))
            with _of_peer(0):
                word = _exactly(peer, 1)
            if word == _STOP:
                peer.close()
                raise ToldToStopError("told to stop before all processes had come")
            return make(rank, [(0, peer)])
        time.sleep(pause)
        pause = min(2 * pause, 0.2)
    raise PeerError(f"process 0 was not found within {JOIN_SECONDS:g} s: {why}")


def _prove(peer: socket.socket, key: bytes, rank: int) -> None:
    """Say who this is, and see that the other side knows the token as well."""
    theirs = _exactly(peer, _NONCE)
    number, ours = rank.to_bytes(4, "little"), secrets.token_bytes(_NONCE)
    named = number + theirs + ours
    peer.sendall(number + ours + _proof(key, b"join", named))
    if not hmac.compare_digest(_exactly(peer, _DIGEST), _proof(key, b"lead", named)):
        raise PeerError("who listens there does not know the run's token")


def _proof(key: bytes, role: bytes, named: bytes) -> bytes:
    return hmac.digest(key, role + named, hashlib.sha256)


def _own_names() -> list[str]:
    """Names of this machine that other nodes may know: of the host, and of the way out of it."""
    names = [socket.gethostname()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: only asks which interface would be used
            names.append(probe.getsockname()[0])
        except OSError:  # a machine with no way out has its name only
            return names
    return names


def _addresses(path: Path) -> list[tuple[str, int]]:
    try:
        address = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    here = ["127.0.0.1"] if socket.gethostname() in address["hosts"] else []
    return [(host, address["port"]) for host in (*here, *address["hosts"])]


# ---- bytes --------------------------------------------------------------------------------------


def _configure(peer: socket.socket) -> None:
    peer.settimeout(SILENCE_SECONDS)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _GONE_SECONDS // 3)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _GONE_SECONDS // 6)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _GONE_SECONDS)


@contextmanager
def _of_peer(rank: int) -> Iterator[None]:
    """Say whose connection it was that failed."""
    try:
        yield
    except TimeoutError as error:
        raise PeerError(f"process {rank} is silent: {error}") from error
    except (OSError, EOFError) as error:
        raise PeerError(f"process {rank} is gone: {error or 'it hung up'}") from error


def _send(peer: socket.socket, words: bytes, raw: memoryview) -> None:
    peer.sendall(_LENGTH.pack(len(words)) + words + _LENGTH.pack(len(raw)))
    peer.sendall(raw)


def _receive(peer: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(peer, _LENGTH.size))
    return bytes(_exactly(peer, length))


def _receive_into(peer: socket.socket, raw: memoryview, rank: int) -> None:
    (length,) = _LENGTH.unpack(_exactly(peer, _LENGTH.size))
    if length != len(raw):
        raise PeerError(f"process {rank} has a gradient of {length} bytes, this one of {len(raw)}")
    _fill(peer, raw)


def _exactly(peer: socket.socket, length: int) -> bytes:
    content = bytearray(length)
    _fill(peer, memoryview(content))
    return bytes(content)


def _fill(peer: socket.socket, raw: memoryview) -> None:
    while raw:
        if not (got := peer.recv_into(raw)):
            raise EOFError
        raw = raw[got:]
