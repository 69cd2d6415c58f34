"""Processes of a run (threads here): they find each other, sum in order, and fail together."""

import json
import os
import socket
import threading

import numpy as np
import pytest

from copter.live.training import group
from copter.live.training.group import PeerError, join, local_name

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


def test_processes_of_another_user_do_not_get_in(tmp_path, monkeypatch):
    own, users = os.geteuid(), []
    monkeypatch.setattr(os, "geteuid", lambda: users.pop() if users else own)

    def work(rank):
        return join(tmp_path, rank, 2).reduce(np.zeros(3), b"", lambda notes: b"decided")

    with socket.socket(socket.AF_UNIX) as other:
        other.bind(local_name(tmp_path))
        other.listen()
        users.append(own + 1)
        with pytest.raises(PeerError, match="a process of another user listens"):
            join(tmp_path, 1, 2)

    def second():
        users.append(own + 1)
        with socket.socket(socket.AF_UNIX) as other:
            while other.connect_ex(local_name(tmp_path)):
                continue
            assert other.recv(1) == b""  # the first process has closed the connection
        return work(1)

    assert together(2, lambda rank: second() if rank else work(0)) == [b"decided", b"decided"]


def test_a_first_process_on_another_machine_is_named(tmp_path):
    (tmp_path / "begun-0.json").write_text(json.dumps({"pid": 1, "ticks": "1", "boot": "another"}))
    with pytest.raises(PeerError, match="on another machine: jobs on several machines need TorchTraining"):
        join(tmp_path, 1, 2)


def test_gradients_of_other_lengths_and_peers_that_leave_are_named(tmp_path):
    def work(rank):
        group = join(tmp_path, rank, 2)
        try:
            group.reduce(np.zeros(3 + rank), b"", lambda notes: b"")
        finally:
            group.close()

    first, second = together(2, work)
    assert str(first) == "process 1 has a gradient of 32 bytes, this process expects 24"
    assert isinstance(second, PeerError) and str(second).startswith("process 0 has ended")


def test_a_peer_that_hangs_is_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(group, "SILENCE_SECONDS", 0.1)
    done = threading.Event()

    def work(rank):
        group = join(tmp_path, rank, 2)
        if rank == 1:
            return done.wait(60)
        try:
            group.reduce(np.zeros(3), b"", lambda notes: b"")
        finally:
            done.set()

    first, _ = together(2, work)
    assert isinstance(first, PeerError) and "process 1 does not answer" in str(first)
