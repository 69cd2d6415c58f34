"""Errors that copter raises; each names what was wrong and leaves the program as it was."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable
from typing import Any


class CopterError(Exception):
    """Base class of every error that copter raises on purpose."""


class EditError(CopterError, ValueError):
    """An edit was rejected; the program is exactly as it was before the call.

    Attributes
    ----------
    subject : Hashable
        Id of the request or resource that the edit was about.
    field : str
        The argument that was wrong, for example ``"costs"``.
    value : object
        The offending value, or the first of them.
    """

    def __init__(self, subject: Hashable, field: str, value: object, why: str) -> None:
        self.subject = subject
        self.field = field
        self.value = value
        self.why = why
        super().__init__(subject, field, value, why)

    def __str__(self) -> str:
        return f"{self.subject!r}: {self.field} = {self.value!r}: {self.why}"


class ArgumentTypeError(EditError, TypeError):
    """An argument is of a type that the call cannot use; a TypeError as well, as scipy raises it.

    A keyword that a call does not have is a plain TypeError: no argument was looked at.
    """


class UnknownIdError(EditError, KeyError):
    """An edit or a look-up names a request or resource that does not exist.

    As an EditError it means that the edit was rejected; as a KeyError that there is no such entry.
    """

    def __init__(self, id: Hashable, why: str) -> None:
        super().__init__(id, "id", id, why)

    def __reduce__(self) -> tuple[type[UnknownIdError], tuple[Hashable, str]]:
        return type(self), (self.subject, self.why)


class SettingError(EditError):
    """A setting of a solver was rejected; its subject is the solver's name, its field the setting's."""


class ConcurrentUseError(CopterError, RuntimeError):
    """A program or a solver was used while another thread, or a solve under way, was using it."""


class UnusableError(CopterError, RuntimeError):
    """A program was used that was closed, or whose columns do not have all edits."""


class TermError(CopterError, TypeError):
    """A class of convex terms cannot be used.

    Attributes
    ----------
    kind : type
        The class.
    method : str
        The function that is wrong.
    """

    def __init__(self, kind: type, method: str, why: str) -> None:
        self.kind = kind
        self.method = method
        self.why = why
        super().__init__(kind, method, why)

    def __str__(self) -> str:
        return f"{self.kind.__qualname__}.{self.method}: {self.why}"


class UnknownSolverError(CopterError, ValueError):
    """A solver name that is not registered, or whose solver cannot be loaded."""


class UnsupportedError(CopterError, ValueError):
    """A program has something that the solver, or the function, cannot do."""


class SolverError(CopterError, RuntimeError):
    """A solver failed in a way that leaves no usable answer."""


class AuditError(SolverError):
    """A solver's data kept between rounds contradict the program: a fault of the solver."""


class NotOptimalError(SolverError):
    """A solve with ``raise_error=True`` did not end optimal.

    Attributes
    ----------
    solution : Solution
        The answer, with its status, reason, and allocation, bound and ray if it has any.
    """

    def __init__(self, solution: Any) -> None:
        self.solution = solution
        super().__init__(solution)

    def __str__(self) -> str:
        return f"not optimal: {self.solution.status}: {self.solution.reason}"


class NoAllocationError(SolverError):
    """A solver's answer has no allocation (the program has none, or none was found in time): a missed round.

    Shims raise it instead of rounding an answer that does not exist.

    Attributes
    ----------
    status, reason : str
        Of the answer.
    """

    def __init__(self, status: str, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(status, reason)

    def __str__(self) -> str:
        return f"there is no allocation: {self.status}: {self.reason}"


class UnplacedError(SolverError):
    """A shim found no column for requests that must have one.

    Attributes
    ----------
    requests : tuple of hashable
        Their ids.
    rounded : Rounded
        The allocation of all others; its objective is infinite.
    """

    def __init__(self, requests: Iterable[Hashable], rounded: Any) -> None:
        self.requests = tuple(requests)
        self.rounded = rounded
        super().__init__(self.requests, rounded)

    def __str__(self) -> str:
        some = ", ".join(repr(id) for id in self.requests[:3])
        more = f" and {len(self.requests) - 3} more" if len(self.requests) > 3 else ""
        return f"no column fits for {some}{more}, which must have one"


class FileError(CopterError, ValueError):
    """A snapshot, journal or recording that is damaged, incomplete or not copter's.

    Attributes
    ----------
    why : str
        The problem.
    """

    def __init__(self, path: object, why: str) -> None:
        self.path = str(path)
        self.why = why
        super().__init__(self.path, why)

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class InputError(FileError):
    """A file of inputs (jobs, loads, profiles) that cannot be used.

    Attributes
    ----------
    where : str
        Place in the file: a line, a job, a field.
    why : str
        The problem there.
    """

    def __init__(self, path: object, where: str, why: str) -> None:
        super().__init__(path, why)
        self.where = where
        self.args = self.path, where, why

    def __str__(self) -> str:
        return f"{self.path}, {self.where}: {self.why}"


def choices(wrong: str, known: Iterable[str]) -> str:
    """Return a text about an unknown name: the nearest known one, and all."""
    names = list(known)
    near = difflib.get_close_matches(wrong, names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}there are: {', '.join(names)}"
