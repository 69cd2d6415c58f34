"""Files that are either whole or not there: written beside their place, synced, moved into it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".part"
"""Suffix of a file that is being written; one that a crash left behind is of no use."""


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that whoever opens ``path``, after a crash too, finds the old file or the new one.

    Parameters
    ----------
    write : callable
        Is given a file to write to, in the same folder.

    Raises
    ------
    OSError
        It could not be written; names the folder if that is missing, or in the file's place.
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
