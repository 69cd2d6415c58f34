"""Independent tasks, and the protocol of runners: in this process, in other processes, or on Ray.

::

    tasks = [Task(f"seed {seed}", play, (setup, seed)) for seed in range(10)]
    with runner:  # Here(), Processes(4) or OnRay("auto")
        outcomes = [ended.result() for ended in runner.each(tasks)]

Results are returned in the order of the tasks, each as soon as the task and all tasks before it have ended.
Results do not depend on the runner, because a task gets all its data as arguments. Functions and arguments
must be picklable, except for tasks that run in this process only.

A task can report its progress. With ``hear`` every function gets an additional argument ``tell``. A message
that the task passes to ``tell`` is passed to ``hear``, with the task, in this process, in order, and before
the result of the task.

Tasks that are timed must not share a machine with other tasks: ``alone=True``. Processes are then started one
after the other. On Ray each such task has a whole node, one of the largest nodes of the cluster.
"""

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

Tell: TypeAlias = Callable[[Any], None]
"""Function with which a task reports a message."""
Hear: TypeAlias = Callable[["Task", Any], None]
"""Function that receives a task and its message."""


@dataclass(frozen=True, eq=False)
class Task:
    """Task: a module-level function, or a partial of one, with arguments and a readable name."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class FinishedTask:
    """Task that ended, with the result or the error of its function; a note of the error names the task."""

    task: Task
    value: Any = None
    error: Exception | None = None

    def result(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class LostTaskError(RuntimeError):
    """The process of a task ended without a result: it was killed, ran out of memory, or crashed."""


class StoppedTaskError(LostTaskError):
    """The runner killed the process of a task, which used too much memory or was silent for too long."""


class TaskRunner(ABC):
    """Runner of tasks, and a context manager that ends what the runner started."""

    @abstractmethod
    def each(
        self, tasks: Sequence[Task], hear: Hear | None = None, *, alone: bool = False
    ) -> Iterator[FinishedTask]:
        """Run tasks and yield their results in the order of the tasks.

        With `hear`, functions get an argument ``tell`` to report messages, which are passed to `hear`. With
        `alone`, no task shares its machine with another task. If the caller stops iterating, running tasks
        are ended.
        """

    def close(self) -> None:  # noqa: B027 - most runners start nothing that must end
        """End what the runner started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Here(TaskRunner):
    """Runner that runs tasks in this process, one after the other."""

    def each(
        self, tasks: Sequence[Task], hear: Hear | None = None, *, alone: bool = False
    ) -> Iterator[FinishedTask]:
        """Run tasks and yield their results in the order of the tasks."""
        for task in tasks:
            tell = None if hear is None else _teller(hear, task)
            try:
                ended = FinishedTask(task, _call(task, tell))
            except Exception as error:  # any exception of a task is its result
                ended = FinishedTask(task, error=_noted(error, task))
            yield ended


def _teller(hear: Hear, task: Task) -> Tell:
    return lambda message: hear(task, message)


def _call(task: Task, tell: Tell | None) -> Any:
    """Return the result of a task's function."""
    return task.function(*task.arguments) if tell is None else task.function(*task.arguments, tell=tell)


def _noted(error: Exception, task: Task) -> Exception:
    """Add the name of its task to an error as a note, and return the error."""
    error.add_note(f"in {task.name}")
    return error


@dataclass
class InOrder:
    """Buffer that sorts results into the order of their tasks; `given` is the number of returned results."""

    tasks: Sequence[Task]
    given: int = 0
    _waiting: dict[int, FinishedTask] = field(default_factory=dict)

    def put(self, number: int, ended: FinishedTask) -> None:
        """Add the result of the task with a number."""
        self._waiting[number] = ended

    def ready(self) -> Iterator[FinishedTask]:
        """Iterate over the results that are next in the order."""
        while self.given in self._waiting:
            yield self._waiting.pop(self.given)
            self.given += 1

    @property
    def complete(self) -> bool:
        """True if all results were returned."""
        return self.given == len(self.tasks)


class _RemoteTraceback(Exception):
    """Traceback of a task in its own process; it is the cause of the error that is raised in this process."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:
        return f"\n{self.text}"


class TaskError(RuntimeError):
    """A task raised an error that cannot be pickled; the message has its type and text."""


class TaskResult(NamedTuple):
    """Result or error that a task sends, with the traceback `where` of the error."""

    value: Any = None
    error: Exception | None = None
    where: str = ""

    def ended(self, task: Task) -> FinishedTask:
        """Return the finished task with this result."""
        if self.error is None:
            return FinishedTask(task, self.value)
        self.error.__cause__ = _RemoteTraceback(self.where)
        return FinishedTask(task, error=_noted(self.error, task))


def outcome(task: Task, tell: Tell | None) -> TaskResult:
    """Run a task in the present process and return its result."""
    try:
        return TaskResult(_call(task, tell))
    except Exception as error:  # any exception of a task is its result
        return TaskResult(None, _sendable(error), traceback.format_exc())


def _sendable(error: Exception) -> Exception:
    """Return the error if it can be pickled, else a TaskError."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:  # a class may raise any exception when it is pickled
        pass
    return TaskError(f"{type(error).__name__}: {error}")
