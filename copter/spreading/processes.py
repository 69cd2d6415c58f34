"""Tasks in processes of their own, a fresh one for each: its peak memory is the task's."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from copter.spreading.outcomes import Outcome, outcome
from copter.spreading.tasks import Ended, Hear, Held, HeldHere, InOrder, Kept, LostTaskError, Spread, Task

_TOLD, _ENDED = "told", "ended"


@dataclass
class _Running:
    number: int
    task: Task
    process: SpawnProcess
    pipe: Connection


class Processes(Spread):
    """In processes on this machine.

    Parameters
    ----------
    count : int
        At most so many at a time.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"processes = {count}: must be at least 1")
        self.count = count

    def each(
        self, tasks: Sequence[Task], hear: Hear | None = None, *, alone: bool = False
    ) -> Iterator[Ended]:
        """Run tasks; see :meth:`copter.spreading.tasks.Spread.each`.

        Parameters
        ----------
        tasks : sequence of Task
        """
        order, waiting = InOrder(tasks), deque(enumerate(tasks))
        running: list[_Running] = []
        try:
            while not order.complete:
                while waiting and len(running) < (1 if alone else self.count):
                    running.append(_start(*waiting.popleft(), hear is not None))
                heard = wait([one.pipe for one in running])
                for one in [one for one in running if one.pipe in heard]:
                    ended = _receive(one, hear)
                    if ended is not None:
                        order.put(one.number, ended)
                        running.remove(one)
                yield from order.ready()
        finally:
            for one in running:
                one.process.terminate()
            for one in running:
                _leave(one)

    def hold(self, makers: Sequence[Callable[[], Kept]]) -> Held[Kept]:
        """Make objects in this process, which has what they are called with at hand."""
        return HeldHere(makers)


def _start(number: int, task: Task, telling: bool) -> _Running:
    context = get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(task, theirs, telling), name=task.name, daemon=False)
    process.start()
    theirs.close()
    return _Running(number, task, process, mine)


def _work(task: Task, pipe: Connection, telling: bool) -> None:
    """What a process does."""

    def tell(message: object) -> None:
        pipe.send((_TOLD, message))

    done = outcome(task, tell if telling else None)
    try:
        pipe.send((_ENDED, done))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        pipe.send((_ENDED, Outcome(None, TypeError(f"the answer cannot be sent: {error}"))))


def _receive(one: _Running, hear: Hear | None) -> Ended | None:
    """Take what a process sent; return the end of its task, if that is it."""
    try:
        kind, what = one.pipe.recv()
    except EOFError:
        _leave(one)
        lost = LostTaskError(f"{one.task.name}: its process ended with exit code {one.process.exitcode}")
        return Ended(one.task, error=lost)
    if kind == _TOLD:
        assert hear is not None
        hear(one.task, what)
        return None
    _leave(one)
    ended: Ended = what.ended(one.task)
    return ended


def _leave(one: _Running) -> None:
    one.pipe.close()
    one.process.join()
