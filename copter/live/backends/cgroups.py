"""Control groups (cgroups, version 2) of the runs on this machine, one for each part of a run.

A process cannot leave its cgroup by a fork or a new session, and all processes in a cgroup are killed at
once.  The agent starts the processes of its part inside the cgroup (:mod:`.agent`) and stays outside.  This
module finds the folder in which the service may make cgroups, makes them, and removes them.

Without a setting the folder is the service's own cgroup, if that cgroup is delegated to the service.

Reference: Linux, Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from copter.live.backends import agent
from copter.live.backends.base import BackendError, BackendSettingError, Run
from copter.live.folder import service_id

_log = logging.getLogger("copter.live")

AUTO, OFF = "auto", "off"
_REMOVE_SECONDS = 2.0
"""Time that :func:`kill_all` waits for the end of the processes in a cgroup."""
_MARKS = ("trusted.delegate", "user.delegate")
"""Extended attributes with which systemd marks a cgroup that it has delegated."""


class RunCgroups:
    """The cgroups of a service's runs, in a folder that the service may write.

    Parameters
    ----------
    folder : Path
        Folder of a cgroup.
    service : str
        Id of the service.  Cgroups with other names in the folder are left alone.
    """

    def __init__(self, folder: Path, service: str) -> None:
        self.folder, self._prefix = folder, f"copter-{service}-"

    def path(self, run: Run, node: int) -> Path:
        """Return the folder of the cgroup of a part."""
        return self.folder / f"{self._prefix}{run.id}.{node}"

    def make(self, run: Run, node: int) -> Path:
        """Make the cgroup of a part; raise BackendError if it cannot be made."""
        path = self.path(run, node)
        try:
            path.mkdir(mode=0o755, exist_ok=True)
        except OSError as error:
            raise BackendError(f"run {run.id}: its cgroup cannot be made: {error}") from error
        return path

    def remove(self, run: Run, node: int) -> None:
        """Remove the cgroup of a part whose processes have ended, if there is one."""
        _remove(self.path(run, node))

    def check(self) -> None:
        """Raise OSError unless a process can be moved to a cgroup of the folder, and killed in it."""
        path = self.folder / f"{self._prefix}check"
        path.mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            agent.put(f"{path}/cgroup.procs", str(process.pid))
            if not kill_all(path):
                raise OSError(f"{path}: its processes cannot be killed")
        finally:
            process.kill()
            process.communicate()
            _remove(path)


def find_cgroups(setting: str, service: Path) -> tuple[RunCgroups | None, str]:
    """Return the cgroups of a service's runs, and a notice for the operator.

    Parameters
    ----------
    setting : str
        ``"auto"``, ``"off"`` or the absolute path of a folder.
    service : Path
        Folder of the service, which must exist.

    Returns
    -------
    RunCgroups or None
        None if runs have no cgroups.
    str
        Folder of the cgroups, or the reason why the service cannot make any.

    Raises
    ------
    BackendSettingError
        If the setting is a folder in which the service cannot make cgroups and move processes to them.
    """
    if setting == OFF:
        return None, "runs have no cgroups: the option cgroup is off"
    folder, why = _own() if setting == AUTO else (Path(str(setting)), "")  # a file's value may have any type
    if folder is None:
        return None, f"runs have no cgroups: {why}"
    try:
        if not (folder.is_absolute() and (folder / "cgroup.controllers").is_file()):
            raise OSError("must be auto, off or the absolute path of a cgroup of version 2")
        folder = folder.resolve()  # agents of an earlier service have this path, however it was written
        found = RunCgroups(folder, service_id(service))
        found.check()
    except OSError as error:
        if setting != AUTO:
            raise BackendSettingError(f"options: cgroup = {setting!r}: {error}") from error
        return None, f"runs have no cgroups: {error}"
    return found, f"runs have cgroups in {folder}"


def kill_all(path: Path) -> bool:
    """Kill the processes in a cgroup and wait for their end; return whether none is left."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while agent.kill_cgroup(str(path)):
        if time.monotonic() > deadline:
            return False
        time.sleep(agent.SCAN_SECONDS)
    return True


def _remove(path: Path) -> None:
    """Remove a cgroup without processes, and the cgroups in it."""
    try:
        for folder, _, _ in os.walk(path, topdown=False):
            os.rmdir(folder)
    except FileNotFoundError:  # it has been removed in the meantime
        pass
    except OSError as error:
        _log.warning("a cgroup is left: %s", error)


def _own() -> tuple[Path | None, str]:
    """Return the folder of this process's cgroup if it is delegated, otherwise the reason."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    mounts = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    mount = next((one[4] for one in mounts if one[one.index("-") + 1] == "cgroup2" and one[3] == "/"), None)
    if own is None or mount is None:
        return None, "there is no cgroup filesystem of version 2"
    folder = Path(mount, own)
    if os.geteuid() != 0 and os.access(folder, os.W_OK):
        return folder, ""
    for mark in _MARKS:
        try:
            if os.getxattr(folder, mark) == b"1":
                return folder, ""
        except OSError:  # there is no such attribute, or no such folder
            continue
    return None, f"the cgroup of the service, {folder}, is not delegated to it"
