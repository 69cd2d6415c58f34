"""The folder of a service: the service's files are private, and other files in it are not changed."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from copter.durable.files import write_whole
from copter.errors import CopterError
from copter.live.journal import JOURNAL

TOKEN, JOBS, LOG = "token", "jobs", "service.log"
_OWN = (TOKEN, JOBS, LOG, "id", "lock", JOURNAL, f"{JOURNAL}-shm", f"{JOURNAL}-wal")


def make_folder(folder: Path) -> None:
    """Make a service's folder, which only its user can read; an existing folder keeps its mode.

    The service's own files and folders are private even if other users can read the folder.  Raises
    CopterError if one of them is a link or belongs to another user.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise CopterError(f"{folder}: must be a folder, not a file") from None
    for name in _OWN:
        _make_private(folder / name)


def open_private(path: Path) -> int:
    """Open a file that only its owner can read, for appending; create it if needed."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def first_content(path: Path, make: Callable[[], str]) -> str:
    """Return the content of a private file; the first call creates the file."""
    if not path.exists():
        write_whole(path, lambda file: file.write(make().encode()), mode=0o600)
    text = path.read_text().strip()
    if not text:
        raise CopterError(f"{path}: must not be empty; remove the file")
    return text


def service_id(folder: Path) -> str:
    """Return a permanent id that distinguishes this service's runs from those of other services."""
    return first_content(folder / "id", lambda: secrets.token_hex(3))


def run_token(token: str, job: str, number: int) -> str:
    """Return the token that a run needs to report; it is derived from the service's token."""
    return hmac.new(token.encode(), f"{job}.{number}".encode(), hashlib.sha256).hexdigest()


def _make_private(path: Path) -> None:
    """Remove the permissions of other users from an existing file or folder of this user."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        raise CopterError(f"{path}: must not be a link, because the service writes it")
    if found.st_uid != os.geteuid():
        raise CopterError(f"{path}: belongs to another user; use a folder of your own")
    if found.st_mode & 0o077:
        path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
