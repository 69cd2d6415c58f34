"""Tokens of users, each with a name and a role.

The service generates one token, whose name is ``admin``.  A file may give further tokens::

    [[tokens]]
    name = "alice"
    role = "user"
    sha256 = "..."  # or token = "..."

The author of a request is the name and the role of its token.  :mod:`.admission` decides what each role may
do.
"""

from __future__ import annotations

import hashlib
import hmac
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from copter.extras import extra
from copter.live.files import JobFileError, Name, Strict, read_toml

with extra("live"):
    from pydantic import Field, model_validator

Role: TypeAlias = Literal["admin", "user", "read"]


@dataclass(frozen=True)
class Author:
    """The name and the role of the token of a request."""

    name: str
    role: Role


ADMIN = Author("admin", "admin")
"""The author of requests with the generated token."""


class TokenEntry(Strict):
    """A token in a file of tokens; `sha256` is the hash of a token that the file does not have."""

    name: Name
    role: Role
    token: Annotated[str | None, Field(pattern=r"^[\x21-\x7e]{16,256}$")] = None
    sha256: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$")] = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.token is None) == (self.sha256 is None):
            raise ValueError(f"{self.name}: must have either token or sha256")
        if self.name == ADMIN.name:
            raise ValueError(f"name = {ADMIN.name!r}: is the name of the token that the service generates")
        return self

    @property
    def digest(self) -> bytes:
        """SHA-256 of the token."""
        return bytes.fromhex(self.sha256) if self.sha256 is not None else _digest(self.token or "")


class TokensFile(Strict):
    """A file of tokens."""

    tokens: Annotated[tuple[TokenEntry, ...], Field(max_length=10_000, strict=False)] = ()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names, digests = set[str](), dict[bytes, str]()
        for one in self.tokens:
            if one.name in names:
                raise ValueError(f"tokens: name {one.name!r}: must occur once")
            if one.digest in digests:
                raise ValueError(
                    f"tokens: {digests[one.digest]!r} and {one.name!r}: must not be the same token"
                )
            names.add(one.name)
            digests[one.digest] = one.name
        return self


def read_tokens(path: Path) -> TokensFile:
    """Read a file of tokens.

    Raises
    ------
    JobFileError
        If other users can read the file or write to it, it cannot be read, or an entry is invalid.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise JobFileError(f"{path}: {error.strerror}") from None
    if mode & 0o027:
        raise JobFileError(
            f"{path}: mode {mode:04o}: must give no access to other users, and no write access to the group;"
            f" chmod 600 {path}"
        )
    return read_toml(path, TokensFile)


class Tokens:
    """The generated token of a service, and the tokens of a file, which is read again when it changes.

    Raises JobFileError if the file cannot be read or is invalid.
    """

    def __init__(self, generated: str, path: Path | None) -> None:
        self._path, self._seen = path, _version(path)
        self._generated = _digest(generated), ADMIN
        self._known = tuple(self._read())

    def refresh(self) -> str:
        """Read the file again if it has changed, and return a sentence about that; empty if it has not.

        If the file cannot be read or is invalid, the former tokens stay valid.
        """
        now = _version(self._path)
        if now == self._seen:
            return ""
        self._seen = now
        try:
            self._known = tuple(self._read())
        except JobFileError as error:
            return f"the file of tokens has changed and is not used; the former tokens stay valid: {error}"
        return f"the file of tokens has been read again: {len(self._known) - 1} tokens"

    def author(self, shown: str) -> Author | None:
        """Return the author with a token; None if the token is invalid.

        The running time does not depend on how much of a token is right.
        """
        digest, found = _digest(shown), None
        for known, author in self._known:
            if hmac.compare_digest(digest, known):
                found = author
        return found

    def _read(self) -> Iterator[tuple[bytes, Author]]:
        yield self._generated
        if self._path is None:
            return
        for one in read_tokens(self._path).tokens:
            if one.digest == self._generated[0]:
                raise JobFileError(f"{self._path}: {one.name!r}: must not be the service's generated token")
            yield one.digest, Author(one.name, one.role)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _version(path: Path | None) -> tuple[int, ...]:
    """Return numbers that differ after a change of a file; empty if there is no file."""
    if path is None:
        return ()
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
