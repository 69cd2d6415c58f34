"""Files that a job can write, read as untrusted: regular files only, of bounded size, without blocking.

A job runs as the user of the service, so it can write into the folders of its runs.  It may replace a file
by a FIFO, a socket, a folder or a symbolic link, or by a file that is huge, deeply nested or not text.  In
all these cases, reading raises :class:`UntrustedFileError`, which affects that run only.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from copter.errors import CopterError

MOST_RECORD_BYTES = 64 * 1024
"""Largest size of a record that an agent writes, in bytes."""
MOST_WORDS, MOST_SENTENCE = 500, 10_000
"""Largest numbers of characters of a job's text in a reason, and of a policy's sentence about a job."""
_BELOW = 4
"""Number of folders below the service's, down to a run's: ``jobs/NAME/runs/NUMBER``.  None may be a link."""
_THE_JOBS = frozenset(
    (errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
    + (errno.ENOTDIR, errno.ENXIO, errno.EPERM)
)
"""Error numbers that a folder's contents cause; others, such as a full disk, are errors of the machine."""
_QUIET = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link"}


class UntrustedFileError(CopterError, OSError):
    """A file or a folder that a job can write is not of the expected kind or form."""


class SharedFolderError(CopterError, OSError):
    """The folder of all jobs cannot be entered; the job whose file was to be read did not cause this."""


@contextmanager
def blamed_on(path: Path) -> Iterator[None]:
    """Turn errors that the contents of a run's folder cause into an UntrustedFileError with the path.

    A missing file still raises FileNotFoundError, and an error of the machine OSError.
    """
    try:
        yield
    except (UntrustedFileError, SharedFolderError):
        raise
    except OSError as error:
        if error.errno not in _THE_JOBS:
            raise
        why = os.strerror(error.errno).lower()
        raise UntrustedFileError(f"{_shown(path)}: {why}") from error


def read_record(path: Path, *, unfinished: bool = False) -> dict[str, Any] | None:
    """Read a JSON object of at most :data:`MOST_RECORD_BYTES`; return None if there is no such file.

    If the file may still be `unfinished`, a text that is not JSON counts as an empty object.  Raises
    UntrustedFileError for anything else.
    """
    try:
        content = read_bytes(path, MOST_RECORD_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(content) > MOST_RECORD_BYTES:
        raise UntrustedFileError(f"{_shown(path)}: must have at most {MOST_RECORD_BYTES} bytes")
    try:
        found = json.loads(content.decode("utf-8"))
    except RecursionError:
        raise UntrustedFileError(f"{_shown(path)}: too deeply nested") from None
    except ValueError as error:
        if unfinished:
            return {}
        raise UntrustedFileError(f"{_shown(path)}: must be JSON: {words(str(error))}") from None
    if not isinstance(found, dict):
        raise UntrustedFileError(f"{_shown(path)}: must be a JSON object")
    return found


def read_bytes(path: Path, most: int, *, begin: int = 0) -> bytes:
    """Read at most `most` bytes of a regular file, from byte `begin` on."""
    with blamed_on(path), os.fdopen(_opened(path, os.O_RDONLY), "rb", buffering=0) as file:
        file.seek(begin)
        content = b""
        while len(content) < most and (part := file.read(most - len(content))):
            content += part
        return content


def size_of(path: Path) -> int | None:
    """Return the size of a regular file; None if there is no such file."""
    try:
        with os.fdopen(_opened(path, os.O_RDONLY), "rb", buffering=0) as file:
            return os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder; an empty list if the folder does not exist."""
    try:
        with blamed_on(folder), _folder(folder) as handle:
            return os.listdir(handle)
    except FileNotFoundError:
        return []


def open_to_append(path: Path) -> int:
    """Open a regular file that only its owner can read, for appending; create it if needed."""
    return _opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def words(text: str, most: int = MOST_WORDS) -> str:
    """Return a text of a job or a policy as one printable line; the text is cut to `most` characters."""
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    """Open a run's folder, or a folder above it; fail if a folder below the service's folder is a link.

    Raises SharedFolderError if the folder of all jobs cannot be entered.
    """
    below = path.parts[-_BELOW:] if len(path.parts) > _BELOW else path.parts[1:]
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    above = Path(*path.parts[: len(path.parts) - len(below)])
    check_shared(above / below[0])
    handle = os.open(above, flags)
    try:
        for name in below:
            inner = os.open(name, flags | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def check_shared(folder: Path) -> None:
    """Raise SharedFolderError if a folder exists that the service cannot read or enter."""
    try:
        os.stat(f"{folder}/.")
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except PermissionError as error:
        raise SharedFolderError(f"{folder}: {os.strerror(error.errno or 0).lower()}") from None
    except OSError:  # the folder does not exist, or is not a folder: the caller finds out
        return


def _opened(path: Path, flags: int) -> int:
    """Open a file; raise UntrustedFileError if it is not regular."""
    with blamed_on(path), _folder(path.parent) as folder:
        handle = os.open(path.name, flags | _QUIET, 0o600, dir_fd=folder)
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            os.close(handle)
            kind = _KINDS.get(stat.S_IFMT(mode), "a device")
            raise UntrustedFileError(f"{_shown(path)}: must be a file, not {kind}")
        return handle


def _shown(path: Path) -> str:
    """Return the end of a path, for messages."""
    return str(Path(*path.parts[-2:]))
