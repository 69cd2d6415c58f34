"""Files that are either whole or not there: written beside their place, synced, moved into it."""

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
"""Suffix of a file that is being written; one that a crash left behind is of no use."""


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that, after a crash too, ``path`` is the old file or the new one.

    `write` is given a file in the same folder. Raise OSError if it could not be written; the error names the
    folder if that is missing, or in the file's place.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no folder to write to", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is in the place of the file", str(path))
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with open(beside, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of files in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_file(path: Path, taken: str) -> int:
    """Lock a file, made if needed, and return a handle; the lock ends with it, or with the process.

    Raise CopterError with the text `taken` if it is locked already.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise CopterError(taken) from None
    return handle
