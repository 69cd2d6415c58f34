"""The interface of backends, which start and stop runs and report run states and failed nodes.

A run is one attempt of a job: its processes under one allocation, from their start to their end.  Every run
has a folder on a file system that all nodes see.  On every node of the run an agent (:mod:`.agent`) starts
the processes and writes into the folder how they ended.  So a backend needs no memory, and a service finds
its runs again after it was killed.

A run is never started twice.  An agent must claim its part in the folder, which is possible once.  To kill a
run that has not begun, the backend claims the part itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from copter.durable.files import write_whole
from copter.errors import CopterError
from copter.live.backends import agent
from copter.live.untrusted import UntrustedFileError, blamed_on, read_record, words

STOPPED = agent.STOPPED
_UNTOLD = f"exit code {STOPPED} without a stop signal"
LATE_SECONDS = 5.0
"""Largest delay, in seconds, between the end of a process on a node and the visibility of its files."""
PASSED_ON = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
) + ("CONDA_PREFIX", "VIRTUAL_ENV")
"""Variables of the service or of a node that jobs get; a backend's option `environment` adds others."""
LOG_BYTES = 1_000_000_000
"""Default of the largest number of bytes that a log of a run may take."""
Outcome: TypeAlias = Literal["completed", "stopped", "failed", "lost"]


class BackendError(CopterError, RuntimeError):
    """A backend did not answer or refused a call; the service repeats the call later."""


class BackendSettingError(CopterError, ValueError):
    """A backend does not exist, or does not have the given option."""


@dataclass(frozen=True)
class Run:
    """One attempt of a job.

    Attributes
    ----------
    job, number : str, int
        Name of the job and number of the attempt, counted from 1.
    command : tuple of str
        Program and arguments, passed without a shell.
    directory : str
        Working directory of the processes.
    folder : Path
        Folder of this run only, on a file system that all nodes see.
    type : str
        GPU type.
    hosts : tuple of str
        Names of the nodes, as the backend knows them.
    gpus : tuple of int
        Number of GPUs on each node of `hosts`.
    devices : tuple of tuple of int
        Numbers of the GPUs on each node, if the backend does not choose them itself.
    once : bool
        If true, start one process, on the first node; otherwise start one process for each GPU.
    environment : mapping of str to str
        Variables in addition to the node's own.
    log_bytes : int
        Largest number of bytes that the log of a node may take; the agent cuts a larger log.
    training : mapping
        Data for the training script; :mod:`copter.live.training.plan` reads it.
    """

    job: str
    number: int
    command: tuple[str, ...]
    directory: str
    folder: Path
    type: str
    hosts: tuple[str, ...]
    gpus: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...] = ()
    once: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    log_bytes: int = LOG_BYTES
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Unique name of the run."""
        return f"{self.job}.{self.number}"

    def write(self) -> None:
        """Write the file of the agents, which only the user of the service can read."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps(asdict(self) | {"folder": str(self.folder)}).encode()
        write_whole(self.folder / agent.RUN_FILE, lambda file: file.write(content), mode=0o600)


@dataclass(frozen=True)
class RunState:
    """Outcome of a run so far.

    Attributes
    ----------
    outcome : {"completed", "stopped", "failed", "lost"} or None
        None while the run waits or runs.  A stopped run wrote a checkpoint because of a stop signal, or ended
        as if it had got such a signal; in the second case there is a reason.  A lost run cannot run any more,
        and its end is unknown.
    reason : str
        Why the run failed or was lost, as a text for users.
    waiting : bool
        True if the run has not begun.
    by_itself : bool
        True if a lost run had begun and may have ended by itself.  False if it never began, or its node
        failed.
    exit_code : int or None
        Exit code of the first process that failed; if none failed, of all processes; None if unknown.
    """

    outcome: Outcome | None = None
    reason: str = ""
    waiting: bool = False
    by_itself: bool = False
    exit_code: int | None = None


class Backend(Protocol):
    """A cluster that executes runs.

    Every method may raise :class:`BackendError` if the backend does not answer.  No method takes longer than
    a few seconds.  The service calls all methods from one thread, except for `close`.

    Attributes
    ----------
    name : str
        Name of the backend, as in :data:`.registry.BACKENDS`.
    picks_devices : bool
        True if the backend chooses the GPUs of a run on each node.  Otherwise the run names them.
    notice : str
        Information about the backend for the operator, logged at the start; may be empty.
    """

    name: str
    picks_devices: bool
    notice: str

    def down(self) -> Mapping[str, str]:
        """Return the reason why each failed host does not work; working hosts are left out."""

    def start(self, run: Run) -> None:
        """Start a run whose file has been written; the run may wait for its nodes before it begins."""

    def stop(self, run: Run) -> None:
        """Tell the processes of a run to write a checkpoint and end (SIGTERM)."""

    def kill(self, run: Run) -> None:
        """End all processes of a run at once; a run that has not begun never begins."""

    def states(self, runs: Sequence[Run]) -> Mapping[str, RunState]:
        """Return the state of each run, by its id; a run has ended when all its processes have ended."""

    def close(self) -> None:
        """Release the backend; its runs continue."""


# ---- files that agents write into a run's folder ------------------------------------------------


def claim(folder: Path, node: int) -> bool:
    """Claim a node's part of a run, so that no agent can begin it; return False if one has.

    The folder of the run is missing after a restore from a backup without the folders of jobs.
    """
    with blamed_on(folder):
        for above in (folder.parents[2], folder.parents[1]):  # the folder of all jobs, and that of the job
            above.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        return agent.claim(str(folder), node, {})


def begun(folder: Path, node: int) -> dict[str, Any] | None:
    """Return what an agent wrote at its start; empty for a part that was only claimed, None if not begun."""
    return read_record(folder / f"begun-{node}.json", unfinished=True)


def has_begun(run: Run) -> bool:
    """Return whether an agent has claimed a part of a run."""
    return any(begun(run.folder, node) for node in range(len(run.hosts)))


def ended(folder: Path, node: int) -> RunState | None:
    """Return how an agent's part ended; None if this is not known yet.

    Raises UntrustedFileError if no agent can have written the file.
    """
    path = folder / f"ended-{node}.json"
    outcome = read_record(path)
    if outcome is None:
        return None
    code, reason = outcome.get("code"), outcome.get("reason", "")
    if type(code) is not int or not isinstance(reason, str):
        what = words(f"code = {code!r}, reason = {reason!r}")
        raise UntrustedFileError(f"{path.name}: {what}: must be an integer and a string")
    if code == 0:
        return RunState("completed", exit_code=code)
    if code == STOPPED:
        return RunState("stopped", "" if outcome.get("told", True) else _UNTOLD, exit_code=code)
    return RunState("failed", words(reason) or f"exit code {code}", exit_code=code)


def merged(parts: Sequence[RunState]) -> RunState:
    """Return the state of a run from the states of its parts: failed if a part failed, ended if all ended."""
    for outcome in ("failed", "lost"):
        for part in parts:
            if part.outcome == outcome:
                return part
    if any(part.outcome is None for part in parts):
        return RunState(waiting=all(part.waiting for part in parts))
    stopped = [part for part in parts if part.outcome == "stopped"]
    return min(stopped, key=lambda part: bool(part.reason)) if stopped else parts[0]


def passed_on(more: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the variables that jobs get: :data:`PASSED_ON` and the option `environment`."""
    if isinstance(more, str) or not all(isinstance(name, str) and name.isidentifier() for name in more):
        raise BackendSettingError(f"options: environment = {more!r}: must be a list of variable names")
    own = [name for name in more if name.startswith("COPTER_")]
    if own:
        raise BackendSettingError(f"options: environment: {own[0]}: the service sets this variable itself")
    return (*PASSED_ON, *more)


def environment_of(names: Sequence[str]) -> dict[str, str]:
    """Return the variables with these names that this process has."""
    return {name: os.environ[name] for name in names if name in os.environ}
