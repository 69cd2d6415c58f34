"""Errors that copter raises; each names what was wrong and leaves the program as it was."""

from __future__ import annotations

from collections.abc import Hashable


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


class UnknownSolverError(CopterError, ValueError):
    """A solver name that is not registered."""


class SolverError(CopterError, RuntimeError):
    """A solver failed in a way that leaves no usable answer."""


class FileError(CopterError, ValueError):
    """A snapshot, journal or recording that is damaged, incomplete or none of copter's.

    Attributes
    ----------
    path : str
    why : str
        What is wrong with it.
    """

    def __init__(self, path: object, why: str) -> None:
        self.path = str(path)
        self.why = why
        super().__init__(self.path, why)

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"
