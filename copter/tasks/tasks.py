"""Tasks that know nothing of each other, and where they run: here, in processes, or on Ray.

::

    tasks = [Task(f"seed {seed}", play, (setup, seed)) for seed in range(10)]
    with where as spread:  # Here(), Processes(4) or OnRay("auto")
        outcomes = [ended.result() for ended in spread.each(tasks)]

Answers come in the order of the tasks, each as soon as it and all before it are there, and they are the same
wherever the tasks run: a task has all that it computes from in its arguments.  Functions and arguments are
picklable, except for those that only ever run here.

A task may tell how far it is.  With ``hear`` every function gets one more argument, ``tell``; what it tells
arrives at ``hear`` with the task, here and in order, before the task's answer.

Tasks that are timed must not share a machine with others: ``alone=True``.  Processes are then started one
after the other, and on Ray each task has a whole node, all of the largest size, to itself.
"""

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

Tell: TypeAlias = Callable[[Any], None]
"""How a task says something."""
Hear: TypeAlias = Callable[["Task", Any], None]
"""Receives a task's message."""
Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False)
class Task:
    """A computation: a function of a module, or a partial of one, with arguments and a readable name."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class FinishedTask:
    """A task that ended, with the value or the error of its function; a note in the error names the task."""

    task: Task
    value: Any = None
    error: Exception | None = None

    def result(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class LostTaskError(RuntimeError):
    """The process of a task ended without an answer: killed, out of memory, or crashed."""


class StoppedTaskError(LostTaskError):
    """The process of a task was killed by its starter: too much memory, or silent for too long."""


class RemoteObjects(ABC, Generic[Kept]):
    """Objects that stay where they were made, and are called there."""

    @abstractmethod
    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of some of the objects, in parallel if they are in other processes, and return the
        results.

        Arguments and results are by the number of the object.
        """


class TaskRunner(ABC):
    """Where tasks run.  A context manager: leaving it ends what it started."""

    @abstractmethod
    def each(
        self, tasks: Sequence[Task], hear: Hear | None = None, *, alone: bool = False
    ) -> Iterator[FinishedTask]:
        """Run tasks, and yield the end of each, in the order of the tasks.

        `hear` takes a task and what its function tells by an argument ``tell``. `alone`: no task may share
        its machine with another. A caller that stops iterating ends the tasks under way.
        """

    @abstractmethod
    def hold(self, makers: Sequence[Callable[[], Kept]]) -> RemoteObjects[Kept]:
        """Make objects that keep something between calls, such as a program between rounds."""

    def close(self) -> None:  # noqa: B027 - most have started nothing
        """End what was started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HeldHere(RemoteObjects[Kept]):
    """Objects in this process."""

    def __init__(self, makers: Sequence[Callable[[], Kept]]) -> None:
        self.objects = [make() for make in makers]

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of some of the objects, one after the other; see :meth:`RemoteObjects.each`."""
        return {k: getattr(self.objects[k], method)(*given) for k, given in arguments.items()}


class Here(TaskRunner):
    """In this process, one after the other."""

    def each(
        self, tasks: Sequence[Task], hear: Hear | None = None, *, alone: bool = False
    ) -> Iterator[FinishedTask]:
        """Run tasks; see :meth:`TaskRunner.each`."""
        for task in tasks:
            tell = None if hear is None else _teller(hear, task)
            try:
                ended = FinishedTask(task, _call(task, tell))
            except Exception as error:  # whatever somebody's task raises is its answer
                ended = FinishedTask(task, error=_noted(error, task))
            yield ended

    def hold(self, makers: Sequence[Callable[[], Kept]]) -> RemoteObjects[Kept]:
        """Make objects here; see :meth:`TaskRunner.hold`."""
        return HeldHere(makers)


def _teller(hear: Hear, task: Task) -> Tell:
    return lambda message: hear(task, message)


def _call(task: Task, tell: Tell | None) -> Any:
    """Return what a task's function returns."""
    return task.function(*task.arguments) if tell is None else task.function(*task.arguments, tell=tell)


def _noted(error: Exception, task: Task) -> Exception:
    """Return an error with the name of its task as a note."""
    error.add_note(f"in {task.name}")
    return error


@dataclass
class InOrder:
    """Puts answers that come in any order into that of their tasks; `given` counts those returned so far."""

    tasks: Sequence[Task]
    given: int = 0
    _waiting: dict[int, FinishedTask] = field(default_factory=dict)

    def put(self, number: int, ended: FinishedTask) -> None:
        """Take the answer of the task with a number."""
        self._waiting[number] = ended

    def ready(self) -> Iterator[FinishedTask]:
        """Iterate over the answers whose turn it is."""
        while self.given in self._waiting:
            yield self._waiting.pop(self.given)
            self.given += 1

    @property
    def complete(self) -> bool:
        """Whether all were given out."""
        return self.given == len(self.tasks)


class _RemoteTraceback(Exception):
    """Traceback of a task in its own process; the cause of the error that is raised in this one."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:
        return f"\n{self.text}"


class TaskError(RuntimeError):
    """An error of a task that cannot be sent: its type and what it said."""


class TaskResult(NamedTuple):
    """Result or error that a task sends; `where` is the traceback of the error."""

    value: Any = None
    error: Exception | None = None
    where: str = ""

    def ended(self, task: Task) -> FinishedTask:
        """Return it as the end of its task."""
        if self.error is None:
            return FinishedTask(task, self.value)
        self.error.__cause__ = _RemoteTraceback(self.where)
        return FinishedTask(task, error=_noted(self.error, task))


def outcome(task: Task, tell: Tell | None) -> TaskResult:
    """Run a task, in the process where it is."""
    try:
        return TaskResult(_call(task, tell))
    except Exception as error:  # whatever somebody's task raises is its answer
        return TaskResult(None, _sendable(error), traceback.format_exc())


def _sendable(error: Exception) -> Exception:
    """The error itself, if it comes out of a pickle as it went in."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:  # whatever its class does when it is pickled
        pass
    return TaskError(f"{type(error).__name__}: {error}")
