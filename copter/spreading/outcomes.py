"""What a task sends home from another process: its value, or an error that can be read there."""

from __future__ import annotations

import pickle
import traceback
from typing import Any, NamedTuple

from copter.spreading.tasks import Ended, Task, Tell, call, noted


class RemoteTraceback(Exception):
    """Where in its own process a task failed; the cause of the error that is raised here."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:
        return f"\n{self.text}"


class TaskError(RuntimeError):
    """An error of a task that cannot be sent: its type and what it said."""


class Outcome(NamedTuple):
    """What a task sends.

    Attributes
    ----------
    where : str
        Traceback of the error.
    """

    value: Any = None
    error: Exception | None = None
    where: str = ""

    def ended(self, task: Task) -> Ended:
        """Return it as the end of its task."""
        if self.error is None:
            return Ended(task, self.value)
        self.error.__cause__ = RemoteTraceback(self.where)
        return Ended(task, error=noted(self.error, task))


def outcome(task: Task, tell: Tell | None) -> Outcome:
    """Run a task, in the process where it is."""
    try:
        return Outcome(call(task, tell))
    except Exception as error:  # whatever somebody's task raises is its answer
        return Outcome(None, _sendable(error), traceback.format_exc())


def _sendable(error: Exception) -> Exception:
    """The error itself, if it comes out of a pickle as it went in."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:  # whatever its class does when it is pickled
        pass
    return TaskError(f"{type(error).__name__}: {error}")
