"""Runner of tasks in processes: a new process for each task, so that its peak memory is that of the task.

A process ignores Ctrl-C, and ends when its parent ends, even if the parent is killed. A process that uses too
much memory, or reports nothing for too long, is killed.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from ctypes import CDLL
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from time import perf_counter

from copter.errors import SettingError
from copter.tasks.tasks import (
    FinishedTask,
    Hear,
    InOrder,
    LostTaskError,
    StoppedTaskError,
    Task,
    TaskResult,
    TaskRunner,
    outcome,
)

_TOLD, _ENDED = "told", "ended"
_LOOK_SECONDS = 0.1
_END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


@dataclass
class _Running:
    number: int
    task: Task
    process: SpawnProcess
    pipe: Connection
    heard: float = field(default_factory=perf_counter)


class Processes(TaskRunner):
    """Runner that runs tasks in at most `count` processes on this machine.

    A process is killed if it uses more than `memory_mb` MB, or reports nothing for `silence()` seconds.
    """

    def __init__(
        self, count: int, *, memory_mb: float = math.inf, silence: Callable[[], float] | None = None
    ) -> None:
        if count < 1:
            raise SettingError("Processes", "processes", count, "must be at least 1")
        self.count, self._memory_mb, self._silence = count, memory_mb, silence
        watched = silence is not None or math.isfinite(memory_mb)
        self._look = _LOOK_SECONDS if watched else None

    def each(
        self, tasks: Sequence[Task], hear: Hear | None = None, *, alone: bool = False
    ) -> Iterator[FinishedTask]:
        """Run tasks and yield their results in the order of the tasks."""
        order, waiting = InOrder(tasks), deque(enumerate(tasks))
        running: list[_Running] = []
        try:
            while not order.complete:
                while waiting and len(running) < (1 if alone else self.count):
                    running.append(_start(*waiting.popleft(), hear is not None))
                heard = wait([one.pipe for one in running], self._look)
                for one in list(running):
                    ended = _receive(one, hear) if one.pipe in heard else self._stopped(one)
                    if ended is not None:
                        order.put(one.number, ended)
                        running.remove(one)
                yield from order.ready()
        finally:
            for one in running:
                one.process.kill()
            for one in running:
                _leave(one)

    def _stopped(self, one: _Running) -> FinishedTask | None:
        """Kill a process that uses too much memory or is silent for too long."""
        why = ""
        if math.isfinite(self._memory_mb) and _held_mb(one.process) > self._memory_mb:
            why = f"it used more than {self._memory_mb / 1e3:.1f} GB of memory"
        elif self._silence is not None and perf_counter() - one.heard > (most := self._silence()):
            why = f"no answer within {most:.0f} s"
        if not why:
            return None
        one.process.kill()
        _leave(one)
        return FinishedTask(one.task, error=StoppedTaskError(why))


def _start(number: int, task: Task, telling: bool) -> _Running:
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(task, sender, telling), name=task.name, daemon=False)
    process.start()
    sender.close()
    return _Running(number, task, process, receiver)


def _work(task: Task, pipe: Connection, telling: bool) -> None:
    """Run a task in its process and send its messages and its result."""
    _belong()

    def tell(message: object) -> None:
        pipe.send((_TOLD, message))

    done = outcome(task, tell if telling else None)
    try:
        pipe.send((_ENDED, done))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        pipe.send((_ENDED, TaskResult(None, TypeError(f"the result cannot be sent: {error}"))))


def _belong() -> None:
    """Ignore Ctrl-C, which the parent handles, and end when the parent ends, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    if sys.platform == "linux":  # ends at once, also while native code holds the interpreter lock
        CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _receive(one: _Running, hear: Hear | None) -> FinishedTask | None:
    """Receive a message of a process; return the finished task if the task ended, else None."""
    one.heard = perf_counter()
    try:
        kind, what = one.pipe.recv()
    except EOFError:
        _leave(one)
        lost = LostTaskError(f"{one.task.name}: its process ended with exit code {one.process.exitcode}")
        return FinishedTask(one.task, error=lost)
    if kind == _TOLD:
        assert hear is not None
        hear(one.task, what)
        return None
    _leave(one)
    ended: FinishedTask = what.ended(one.task)
    return ended


def _leave(one: _Running) -> None:
    one.pipe.close()
    one.process.join()


def _held_mb(process: SpawnProcess) -> float:
    """Return the resident memory of a process in MB, or 0 if it is unknown."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6
