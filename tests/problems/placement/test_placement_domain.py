"""A round of a placement changes nothing until it is accepted, and places no task if it is late."""

from __future__ import annotations

from typing import Any

import pytest

from copter.problems.examples import placement as example


def waiting_tasks() -> Any:
    """Servers with tasks that run and tasks that wait, and a drained server."""
    placement = example()
    placement.submit([f"cpu {k}" for k in range(12)], [0] * 12)
    placement.play()
    placement.submit([f"whole {k}" for k in range(4)], [2] * 4)
    placement.submit([f"pair {k}" for k in range(3)], [3] * 3)
    placement.drain(["server 0"])
    return placement


def state(placement: Any) -> Any:
    running = placement.running
    places = {id: running.place_of(id) for id in running.all_ids()}
    free = running.free
    arrays = [array.tolist() for array in (free.cpu, free.memory, free.gpus, running.waiting)]
    return places, arrays, [list(queue) for queue in running._queue]


def test_an_error_in_the_middle_moves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    placement = waiting_tasks()
    before, real = state(placement), placement._start

    def broken(found: Any) -> Any:
        real(found)
        assert state(placement) != before
        raise RuntimeError("in the middle")

    monkeypatch.setattr(placement, "_start", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        placement.play("copter", ("limit_moves", 10))
    assert state(placement) == before
