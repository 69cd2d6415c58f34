"""Tokens of users, each with a name and a role.

The service generates one token, whose name is ``admin``.  A file may give the hashes of further tokens::

    [[tokens]]
    name = "alice"
    role = "user"
    sha256 = "..."

The author of a request has the name and the role of the request's token.  :mod:`.admission` decides what each
role may do.
"""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from copter.extras import extra
from copter.live.files import JobFileError, Name, Strict, read_toml

with extra("live"):
    from pydantic import Field

Role: TypeAlias = Literal["admin", "user", "read"]


@dataclass(frozen=True)
class Author:
    """The name and the role of the token of a request."""

    name: str
    role: Role


ADMIN = Author("admin", "admin")
"""The author of requests with the generated token."""


class TokenEntry(Strict):
    """A token in a file of tokens, by its hash."""

    name: Name
    role: Role
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TokensFile(Strict):
    """A file of tokens."""

    tokens: Annotated[tuple[TokenEntry, ...], Field(max_length=10_000, strict=False)] = ()


class Tokens:
    """The generated token of a service, and the tokens of a file.

    Raises JobFileError if other users can write to the file, it cannot be read, or an entry is invalid.
    """

    def __init__(self, generated: str, path: Path | None) -> None:
        self._authors = {_digest(generated): ADMIN}
        for one in () if path is None else _read(path):
            former = self._authors.get(one.sha256)
            if former is not None:
                raise JobFileError(f"{path}: {former.name!r} and {one.name!r}: must not be the same token")
            if one.name in (author.name for author in self._authors.values()):
                why = f"must occur once, and not be {ADMIN.name!r}, which is generated"
                raise JobFileError(f"{path}: name {one.name!r}: {why}")
            self._authors[one.sha256] = Author(one.name, one.role)

    def author(self, shown: str) -> Author | None:
        """Return the author with a token; None if the token is invalid."""
        return self._authors.get(_digest(shown))


def _read(path: Path) -> tuple[TokenEntry, ...]:
    """Return the entries of a file that no other user can change."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise JobFileError(f"{path}: {error.strerror}") from None
    if mode & 0o022:
        raise JobFileError(f"{path}: mode {mode:04o}: no other user may write to it; chmod 644 {path}")
    return read_toml(path, TokensFile).tokens


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
