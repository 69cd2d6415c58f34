"""Accounts as which jobs run, so that users cannot change each other's jobs or the service.

A token may name an account (:mod:`.tokens`).  Then the service must run as root, and the backend must have
:attr:`.backends.base.Backend.has_accounts`.  The log, the working directory and the checkpoints belong to the
account.  On the local backend, the agent of a run keeps the service's account, and starts the processes of
the job as the account of the run.  The folders of the run belong to the service, so the job cannot change
what the agent reads or how it ended.  With Slurm (:mod:`.backends.slurm`), the agent and the folder of the
run belong to the account.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from copter.live.backends.agent import account_of
from copter.live.backends.base import Backend, Run

CHECKPOINTS, WORK = "checkpoints", "work"
_ENTER = 0o711
"""Mode of folders that all users may enter, and only the service may list."""


def no_accounts(backend: Backend, folder: Path) -> str:
    """Return why a service with this folder cannot run jobs as other accounts; empty if it can."""
    if not backend.has_accounts:
        return f"the backend {backend.name!r} cannot run jobs as other accounts"
    if os.geteuid() != 0:
        return "the service does not run as root"
    for path in (folder, *folder.parents):
        found = path.stat()
        if not found.st_mode & stat.S_IXOTH:
            return f"other users cannot enter {path}; chmod o+x {path}"
        writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
        if found.st_uid != 0 or writable:
            return f"other users can replace what is in {path}; chown root {path}; chmod go-w {path}"
    return ""


def open_for(run: Run) -> None:
    """Let the account of a run enter its folders, and make the two folders to which the job can write.

    Raises OSError if the account does not exist.
    """
    account, home = account_of(run.account), run.folder.parents[1]
    for folder in (run.folder, run.folder.parent, home, home.parent):
        folder.chmod(_ENTER)
    for name in (CHECKPOINTS, WORK):
        own = home / name
        own.mkdir(mode=0o700, exist_ok=True)
        os.chown(own, account.user, account.group, follow_symlinks=False)
