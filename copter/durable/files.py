"""Atomic writes of files: write a temporary file in the same folder, sync it, and rename it."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from copter.errors import CopterError

TEMPORARY = ".part"
"""Suffix of a temporary file; after a crash such a file can be deleted."""


def write_whole(path: Path, write: Callable[[BinaryIO], object], *, mode: int = 0o666) -> None:
    """Write a file atomically: also after a crash, ``path`` is either the old file or the new file.

    `write` gets a temporary file in the same folder, made with this `mode` and the process's umask. Raise
    OSError if the file cannot be written. The error names the folder if the folder is missing or ``path`` is
    a folder.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "must be a file, and is a folder", str(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that new file names survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_file(path: Path, taken: str) -> int:
    """Lock a file and return a handle; create the file if it is missing.

    The lock ends when the handle is closed or the process ends. Raise CopterError with the text `taken` if
    the file is locked already.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise CopterError(taken) from None
    return handle
