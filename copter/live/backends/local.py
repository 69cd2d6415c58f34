"""Runs as processes of this machine, on slots that are real or simulated GPUs.

Every agent has its own session, so it outlives the service.  The backend identifies an agent by its command
line, which has the folder of the run, so a service finds its runs again after it was killed.  A job can write
to the folder of its run; if folder and process table differ, the process table counts.

A run has ended when its agents and all other processes of the run have ended.  If an agent was killed, the
backend finds the processes that are left by their environment (:func:`.agent.kill_part`), and kills them.
Where the service may make cgroups (:mod:`.cgroups`), each part of a run has one, and the processes in it are
killed at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, takewhile
from pathlib import Path

from copter.live.backends import agent
from copter.live.backends.base import (
    LATE_SECONDS,
    Run,
    RunState,
    begun,
    claim,
    ended,
    environment_of,
    merged,
    passed_on,
)
from copter.live.backends.cgroups import AUTO, find_cgroups
from copter.live.untrusted import UntrustedFileError, open_to_append

_AGENT = os.fsencode(os.path.basename(agent.__file__))
_MOST_PIDS = 2**31


class LocalBackend:
    """Backend that runs processes on this machine.

    Parameters
    ----------
    folder : Path
        Folder of the service.
    environment : sequence of str
        Names of variables of the service that jobs get in addition to :data:`.base.PASSED_ON`.
    cgroup : str
        ``"auto"`` for the service's own cgroup, if it is delegated; the absolute path of the folder of a
        cgroup; or ``"off"``.
    """

    name = "local"
    picks_devices = False

    def __init__(self, folder: Path, *, environment: Sequence[str] = (), cgroup: str = AUTO) -> None:
        self._passed = passed_on(environment)
        self._since: dict[tuple[str, int], float] = {}
        self._children: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self._cgroups, self.notice = find_cgroups(cgroup, folder)

    def down(self) -> Mapping[str, str]:
        """Return no node, because all nodes are this machine."""
        return {}

    def start(self, run: Run) -> None:
        """Start an agent for each node."""
        cgroups = [self._cgroups.make(run, node) for node in range(len(run.hosts))] if self._cgroups else []
        for node in range(len(run.hosts)):
            inside = {agent.CGROUP: str(cgroups[node])} if cgroups else {}
            with os.fdopen(open_to_append(run.folder / f"agent-{node}.txt"), "ab") as errors:
                child = subprocess.Popen(
                    [sys.executable, "-I", "-S", agent.__file__, str(run.folder), str(node)],
                    env=environment_of(self._passed) | self._gpus(run, node) | inside,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )
            self._children[run.id, node] = child

    def _gpus(self, run: Run, node: int) -> dict[str, str]:
        """Return the variable with the names of a part's GPUs; the run numbers the visible GPUs from 0."""
        if not run.devices:
            return {}
        visible, numbers = visible_devices(), run.devices[node]
        names = map(str, numbers) if visible is None else (visible[one] for one in numbers)
        return {agent.DEVICES: ",".join(names)}

    def stop(self, run: Run) -> None:
        """Send SIGTERM to the agents, which forward it; a part that has not begun will never begin."""
        for node in range(len(run.hosts)):
            if not claim(run.folder, node) and (pid := self._agent(run, node)) is not None:
                agent.send(pid, signal.SIGTERM)

    def kill(self, run: Run) -> None:
        """Kill the processes of the run, also those in other sessions, and then the agents."""
        for node in range(len(run.hosts)):
            with suppress(UntrustedFileError):  # no agent can begin in this folder, but one may have begun
                claim(run.folder, node)
            self._end(run, node)

    def states(self, runs: Sequence[Run]) -> Mapping[str, RunState]:
        """Return the states that follow from the folders and the process table."""
        self.close()
        return {run.id: self._state_of(run) for run in runs}

    def close(self) -> None:
        """Collect the exit codes of agents that have ended; the other agents continue."""
        self._children = {key: child for key, child in self._children.items() if child.poll() is None}

    def _state_of(self, run: Run) -> RunState:
        try:
            state = merged([self._state(run, node) for node in range(len(run.hosts))])
        except UntrustedFileError as error:
            state = RunState("failed", str(error))
        if state.outcome is None:
            return state
        if state.outcome in ("failed", "lost"):  # kill its parts on other nodes too
            self.kill(run)
        nodes = range(len(run.hosts))
        # An agent leaves processes behind only if it was killed, or if the job wrote the agent's last file.
        if not all([self._end(run, node) for node in nodes]):
            return RunState()
        for node in nodes:
            self._since.pop((run.id, node), None)
        return state

    def _end(self, run: Run, node: int) -> bool:
        """Kill what is left of a part; return whether nothing is left."""
        cgroup = str(self._cgroups.path(run, node)) if self._cgroups else ""
        ended = agent.kill_part(str(run.folder), node, self._agent(run, node), cgroup=cgroup)
        if ended and self._cgroups:
            self._cgroups.remove(run, node)
        return ended

    def _state(self, run: Run, node: int) -> RunState:
        agent_lives = self._agent(run, node) is not None
        state = ended(run.folder, node)
        if state is not None:
            if not agent_lives:
                return state
            now = time.monotonic()
            if now - self._since.setdefault((run.id, node), now) < LATE_SECONDS:
                return RunState()  # an agent writes this file shortly before it ends
            raise UntrustedFileError(f"ended-{node}.json: reports an end, but the agent still runs")
        noted = begun(run.folder, node)
        if agent_lives:
            return RunState(waiting=not noted)
        if noted:
            return ended(run.folder, node) or RunState("lost", "its agent was killed", by_itself=True)
        if noted is None and not claim(run.folder, node):
            return RunState(waiting=True)  # an agent has claimed the part in the meantime
        return RunState("lost", "it was ended before it began")

    def _agent(self, run: Run, node: int) -> int | None:
        """Return the process number of a part's agent, or None if the agent does not run.

        The folder suggests the number; only the process table decides whether that process is the agent.
        """
        child = self._children.get((run.id, node))
        if child is not None:
            return child.pid if child.poll() is None else None
        try:
            said = (begun(run.folder, node) or {}).get("pid")
        except UntrustedFileError:
            said = None
        likely = [said] if type(said) is int and 0 < said < _MOST_PIDS else []
        others = (int(name) for name in os.listdir("/proc") if name.isdecimal())
        return next((pid for pid in chain(likely, others) if _is_agent(pid, run, node)), None)


def visible_devices() -> list[str] | None:
    """Return the GPUs in this process's CUDA_VISIBLE_DEVICES; None if it can see all of them.

    As in CUDA, the list ends before the first number that no GPU has, such as -1.
    """
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    names = (one.strip() for one in text.split(","))
    return list(takewhile(lambda name: name.isdecimal() or name.startswith(("GPU-", "MIG-")), names))


def _is_agent(pid: int, run: Run, node: int) -> bool:
    """Return whether a process is the agent of a part: by its command line, and by its real user."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read().split(b"\0")  # empty for a process that has ended
        if command[-3:] != [os.fsencode(word) for word in (run.folder, str(node), "")]:
            return False
        if os.path.basename(command[-4]) != _AGENT:  # an upgrade may have moved the agent's folder
            return False
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            users = next(line.split() for line in file if line.startswith("Uid:"))
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(users[1]) == os.getuid()
