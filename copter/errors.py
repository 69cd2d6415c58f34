"""Exceptions that copter raises.

The message of a rejected edit names the subject, the argument and the rejected value. A rejected edit leaves
the program unchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable
from typing import Any


class CopterError(Exception):
    """Base class of all exceptions that copter raises; catch it to handle any of them."""


class EditError(CopterError, ValueError):
    """An edit method rejected an argument; the program is unchanged, so correct the argument and call again.

    Attributes
    ----------
    subject : Hashable
        Id of the request or resource that the edit concerns, or the name of the edit method.
    field : str
        Name of the invalid argument, for example ``"costs"``.
    value : object
        Invalid value, or the first one of several.
    why : str
        Condition that the value does not meet.
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
    """An argument has a type that the call cannot use; pass an argument of a documented type.

    This error is also a TypeError, which scipy raises for wrong types. An unknown keyword raises a plain
    TypeError.
    """


class UnknownIdError(EditError, KeyError):
    """An edit or a look-up names an unknown request, resource or column; check the id.

    This error is an EditError, because the edit was rejected, and a KeyError, because the id is unknown.
    """

    def __init__(self, id: Hashable, why: str) -> None:
        super().__init__(id, "id", id, why)

    def __reduce__(self) -> tuple[type[UnknownIdError], tuple[Hashable, str]]:
        return type(self), (self.subject, self.why)


class SettingError(EditError):
    """A setting was rejected; give a value that the documentation of the setting allows.

    The subject is the name of the solver, class or function, and the field is the name of the setting.
    """


class ConcurrentUseError(CopterError, RuntimeError):
    """A program or a solver is in use by another thread or by a running solve; call again after that use."""


class UnusableError(CopterError, RuntimeError):
    """A program was closed, or an edit reached only some of its workers; load or build the program again."""


class TermError(CopterError, TypeError):
    """A class of convex terms cannot be used; correct the method that the error names.

    Attributes
    ----------
    kind : type
        Class of the convex term.
    method : str
        Name of the invalid method.
    why : str
        Condition that the method does not meet.
    """

    def __init__(self, kind: type, method: str, why: str) -> None:
        self.kind = kind
        self.method = method
        self.why = why
        super().__init__(kind, method, why)

    def __str__(self) -> str:
        return f"{self.kind.__qualname__}.{self.method}: {self.why}"


class UnknownSolverError(CopterError, ValueError):
    """No solver has this name, or it cannot be loaded; correct the name or install its packages."""


class UnsupportedError(CopterError, ValueError):
    """A program has a feature that the solver or function does not support; use another solver."""


class SolverError(CopterError, RuntimeError):
    """A solver failed without a usable solution; the caller can solve again, cold or with another solver."""


class NotOptimalError(SolverError):
    """A solve with ``raise_error=True`` ended with a status other than optimal; read `solution` for details.

    Attributes
    ----------
    solution : Solution
        Solution with its status and reason, and its allocation, bound and ray if they exist.
    """

    def __init__(self, solution: Any) -> None:
        self.solution = solution
        super().__init__(solution)

    def __str__(self) -> str:
        return f"not optimal: {self.solution.status}: {self.solution.reason}"


class NoAllocationError(SolverError):
    """A solution without an allocation was read or rounded; keep the last allocation and solve again.

    The program is infeasible, or the solver found no allocation, for example before the deadline.

    Attributes
    ----------
    status, reason : str
        Status and reason of the solution.
    """

    def __init__(self, status: str, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(status, reason)

    def __str__(self) -> str:
        return f"there is no allocation: {self.status}: {self.reason}"


class UnplacedError(SolverError):
    """A shim found no feasible column for requests that must have one; use `rounded` for all other requests.

    Attributes
    ----------
    requests : tuple of hashable
        Ids of the requests without a column.
    rounded : Rounded
        Allocation of all other requests. Its objective is infinite.
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
    """A snapshot, journal or recording is damaged, incomplete or not written by copter; use an older file.

    Attributes
    ----------
    path : str
        Path of the file.
    why : str
        Description of the problem.
    """

    def __init__(self, path: object, why: str) -> None:
        self.path = str(path)
        self.why = why
        super().__init__(self.path, why)

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class InputError(FileError):
    """An input file (jobs, loads, profiles, a model) has an invalid entry; correct the place `where`.

    Attributes
    ----------
    where : str
        Place in the file: a line, a job or a field.
    why : str
        Description of the problem.
    """

    def __init__(self, path: object, where: str, why: str) -> None:
        super().__init__(path, why)
        self.where = where
        self.args = self.path, where, why

    def __str__(self) -> str:
        return f"{self.path}, {self.where}: {self.why}"


def choices(wrong: str, known: Iterable[str]) -> str:
    """Return a text about an unknown name: the most similar known name, and all known names.

    If exactly one known name begins with the unknown name, and the unknown name has at least 3 characters,
    that known name is the most similar one.
    """
    names = list(known)
    near = [name for name in names if len(wrong) > 2 and name.startswith(wrong)]
    if len(near) != 1:
        near = difflib.get_close_matches(wrong, names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}there are: {', '.join(names)}"


class DomainError(CopterError, RuntimeError):
    """A domain violates the protocol of :class:`copter.Domain`; correct the method that the error names."""


class DomainNameError(CopterError, ValueError):
    """A text does not name a domain; correct the part that the error names."""


class MissingExtraError(CopterError, ImportError):
    """A package of an optional extra of copter is not installed; install the extra that the error names.

    Attributes
    ----------
    package : str
        Name of the missing package.
    extra : str
        Name of the extra, as in ``python -m pip install '.[extra]'``.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(package, extra)

    def __str__(self) -> str:
        return f"{self.package} is not installed; in a checkout: python -m pip install '.[{self.extra}]'"
