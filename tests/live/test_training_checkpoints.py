"""Checkpoints: which is the latest, what is damaged, and when the next is due."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.errors import FileError
from copter.live.training.checkpoints import Checkpoints, CheckpointTimer


def one(value):
    return {"w": np.full(100, float(value)), "odd/name": np.array(value)}


def test_a_later_run_is_right_whatever_the_steps(tmp_path):
    said = []
    old, new = Checkpoints(tmp_path / "job", 9), Checkpoints(tmp_path / "job", 10)
    assert old.latest(said.append) is None
    new.write(5, one(1))
    old.write(1000, one(2))  # a run that was thought to be dead
    for who in (old, new):
        found = who.latest(said.append)
        assert found["w"][0] == 1 and found["odd/name"] == 1
    new.write(6, one(3))
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == [
        "checkpoint-10-5.npz",
        "checkpoint-10-6.npz",
    ]
    assert not said


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-50],
        lambda content: content[: len(content) // 2],
        lambda content: b"not at all",
        lambda content: content[:300] + bytes([content[300] ^ 1]) + content[301:],
    ],
)
def test_what_is_damaged_is_passed_over(tmp_path, damage):
    said, checkpoints = [], Checkpoints(tmp_path, 1)
    checkpoints.write(1, one(1))
    checkpoints.write(2, one(2))
    last = tmp_path / "checkpoint-1-2.npz"
    last.write_bytes(damage(last.read_bytes()))
    assert checkpoints.latest(said.append)["w"][0] == 1
    assert len(said) == 1 and "checkpoint-1-2.npz is damaged" in said[0]
    (tmp_path / "checkpoint-1-1.npz").write_bytes(b"")
    with pytest.raises(FileError, match="all 2 checkpoints are damaged"):
        checkpoints.latest(said.append)


def test_what_a_killed_run_left_half_written_goes(tmp_path):
    for name in (".checkpoint-1-7.npz.abcd.part", ".checkpoint-2-7.npz.abcd.part", "else.txt"):
        (tmp_path / name).write_bytes(b"half")
    Checkpoints(tmp_path, 2).write(1, one(1))  # of its own run, another thread's for all it knows
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {".checkpoint-2-7.npz.abcd.part", "else.txt", "checkpoint-2-1.npz"}


@given(st.floats(12, 100), st.lists(st.tuples(st.floats(1.0, 1.4), st.floats(0.5, 0.7)), max_size=200))
def test_no_checkpoint_gets_older_than_promised(promised, times):
    now = held = 0.0
    timer = CheckpointTimer(promised, lambda: now)
    for step, writing in times:
        now += step
        assert now - held <= promised
        if timer.step():
            began = now
            now += writing
            assert now - held <= promised
            # Nor is one written much sooner than it must be.
            assert began - held >= promised - 1.5 * (1.4 + max(0.7, promised / 10)) - 1e-9
            held = began
            timer.written(began)
