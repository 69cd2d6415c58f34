"""Processes of a run (threads here): they find each other, sum in order, and let nobody else in."""

import json
import socket
import threading
from contextlib import suppress

import numpy as np
import pytest

from copter.live.training import group
from copter.live.training.group import ADDRESS_FILE, Group, PeerError, ToldToStopError
from support.training_runs import until

pytestmark = pytest.mark.cluster


def together(ranks, work):
    """What work(rank) gives or raises, for all ranks at the same time."""
    found = [None] * ranks

    def run(rank):
        try:
            found[rank] = work(rank)
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    return found


def test_all_have_the_sum_in_the_order_of_the_ranks(tmp_path):
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(4, 3, 50_000)) * 10.0 ** rng.integers(-8, 8, (4, 3, 1))

    def work(rank):
        group = Group.join(tmp_path, rank, 4, "secret")
        start = group.spread(b"from the first" if rank == 0 else b"")
        sums = []
        for part in parts[rank]:
            total = part.copy()
            said = group.reduce(total, bytes([rank]), lambda notes: b"decided " + b"".join(notes))
            sums.append(total)
        group.close()
        return start, said, np.stack(sums)

    expected = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    for start, said, sums in together(4, work):
        assert (start, said) == (b"from the first", b"decided \0\1\2\3")
        assert np.array_equal(sums, expected)


def test_strangers_do_not_get_in(tmp_path, monkeypatch):
    monkeypatch.setattr(group, "_HANDSHAKE_SECONDS", 0.2)
    shut_out = []

    def intrude(said):
        port = json.loads((tmp_path / ADDRESS_FILE).read_text())["port"]
        with socket.create_connection(("127.0.0.1", port)) as stranger, suppress(ConnectionResetError):
            stranger.sendall(said)
            while stranger.recv(1000):
                pass
        shut_out.append(said)

    def work(rank):
        if rank == 1:
            until((tmp_path / ADDRESS_FILE).exists)
            intrude(b"")  # says nothing
            intrude(b"\1\0\0\0" + bytes(48))  # says that it is process 1, and has no proof
            monkeypatch.setattr(group, "_HANDSHAKE_SECONDS", 20.0)
        return Group.join(tmp_path, rank, 2, "secret").spread(b"hello" if rank == 0 else b"")

    assert together(2, work) == [b"hello"] * 2
    assert len(shut_out) == 2


def test_who_does_not_know_the_token_is_refused_on_both_sides(tmp_path, monkeypatch):
    monkeypatch.setattr(group, "JOIN_SECONDS", 0.5)
    first, second = together(2, lambda rank: Group.join(tmp_path, rank, 2, f"token {rank}"))
    assert isinstance(first, PeerError) and "processes 1 did not come" in str(first)
    assert isinstance(second, PeerError) and "process 0 was not found" in str(second)
    with pytest.raises(ValueError, match="no token"):
        Group.join(tmp_path, 0, 2, "")


def test_told_to_stop_all_that_have_come_do(tmp_path):
    told = threading.Event()

    def work(rank):
        if rank == 2:
            return told.set()  # it never comes
        try:
            return Group.join(tmp_path, rank, 3, "secret", told=told.is_set)
        except ToldToStopError:
            return "stopped"

    assert together(3, work) == ["stopped", "stopped", None]


def test_gradients_of_other_lengths_and_peers_that_leave_are_named(tmp_path):
    def work(rank):
        group = Group.join(tmp_path, rank, 2, "secret")
        try:
            group.reduce(np.zeros(3 + rank), b"", lambda notes: b"")
        finally:
            group.close()

    first, second = together(2, work)
    assert str(first) == "process 1 has a gradient of 32 bytes, this one of 24"
    assert isinstance(second, PeerError) and str(second).startswith("process 0 is gone")


def test_a_peer_that_hangs_is_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(group, "SILENCE_SECONDS", 0.1)
    done = threading.Event()

    def work(rank):
        group = Group.join(tmp_path, rank, 2, "secret")
        if rank == 1:
            return done.wait(60)
        try:
            group.reduce(np.zeros(3), b"", lambda notes: b"")
        finally:
            done.set()

    first, _ = together(2, work)
    assert isinstance(first, PeerError) and "process 1 is silent" in str(first)
