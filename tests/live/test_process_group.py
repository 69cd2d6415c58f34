"""Processes of a run (threads here): they find each other, sum in order, and fail together."""

import json
import os
import threading

import numpy as np
import pytest

from copter.live.training import group
from copter.live.training.group import PeerError, join

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
    monkeypatch.setattr(group, "JOIN_SECONDS", 0.5)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    first, second = together(2, lambda rank: join(tmp_path, rank, 2))
    assert isinstance(first, PeerError) and "processes 1 did not connect" in str(first)
    assert isinstance(second, PeerError) and "another user" in str(second)


def test_a_first_process_on_another_machine_or_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(group, "JOIN_SECONDS", 0.2)
    with pytest.raises(PeerError, match="process 0 was not found"):
        join(tmp_path, 1, 2)
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
