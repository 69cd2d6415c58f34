"""Runs as processes of this machine, on slots that stand for GPUs.

Every agent is a session of its own, so that it outlives the service, and is known by its process number and
start time: a service that was killed finds its runs by their folders.  To rehearse failures: a node whose
name is a file in ``failed/`` below the service's folder does not work, and what runs on it is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from copter.live.backends import agent
from copter.live.backends.base import (
    BackendError,
    Run,
    RunState,
    begun,
    claim,
    ended,
    merged,
)

BEGIN_SECONDS = 20.0
"""An agent that has not claimed its part by then, after it was started, never will."""


class LocalBackend:
    """Processes of this machine.

    Parameters
    ----------
    folder : Path
        The service's.
    """

    name = "local"
    picks_devices = False
    job_options: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        self._failed = folder / "failed"
        self._children: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self._asked: dict[str, float] = {}

    def down(self) -> Mapping[str, str]:
        """Nodes that are said to fail."""
        try:
            return {name: "it is rehearsed to have failed" for name in os.listdir(self._failed)}
        except FileNotFoundError:
            return {}

    def set_hosts(self, type: str, hosts: Sequence[str]) -> None:
        """Slots are there as soon as they are asked for."""

    def start(self, run: Run) -> None:
        """Start an agent for each node."""
        down = self.down()
        gone = [host for host in run.hosts if host in down]
        if gone:
            raise BackendError(f"run {run.id}: node {gone[0]}: {down[gone[0]]}")
        self._asked[run.id] = time.monotonic()
        for node in range(len(run.hosts)):
            with open(run.folder / f"agent-{node}.txt", "ab") as errors:
                self._children[run.id, node] = subprocess.Popen(
                    [sys.executable, "-I", "-S", agent.__file__, str(run.folder), str(node)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )

    def stop(self, run: Run) -> None:
        """SIGTERM for the agents, which hand it on; a part that has not begun never does."""
        for node in range(len(run.hosts)):
            if not claim(run.folder, node):
                self._signal(run, node, signal.SIGTERM)

    def kill(self, run: Run) -> None:
        """SIGKILL for the agents and, as their session, their processes."""
        for node in range(len(run.hosts)):
            if not claim(run.folder, node):
                self._signal(run, node, signal.SIGKILL)

    def states(self, runs: Sequence[Run]) -> Mapping[str, RunState]:
        """What the folders and the process table say."""
        self._reap()
        down, states = self.down(), {}
        for run in runs:
            parts = [self._state(run, node) for node in range(len(run.hosts))]
            state = merged(parts)
            failed = [host for host in run.hosts if host in down]
            if failed and state.outcome is None:
                self.kill(run)
                state = RunState("lost", f"node {failed[0]}: {down[failed[0]]}")
            elif state.outcome in ("failed", "lost"):  # what is left of it elsewhere goes too
                if any(part.outcome is None for part in parts):
                    self.kill(run)
            if state.outcome is not None:
                self._asked.pop(run.id, None)
            states[run.id] = state
        return states

    def close(self) -> None:
        """Agents go on."""
        self._reap()

    def _state(self, run: Run, node: int) -> RunState:
        state = ended(run.folder, node)
        if state is not None:
            return state
        who = begun(run.folder, node)
        if who is None:
            asked = self._asked.get(run.id)
            if asked is not None and time.monotonic() - asked < BEGIN_SECONDS:
                return RunState(waiting=True)
            if claim(run.folder, node):
                return RunState("lost", "it was never begun")
            return RunState(waiting=True)  # it began in between
        if not who:  # claimed: by kill, or by an agent that has not said who it is
            if time.time() - (run.folder / f"begun-{node}.json").stat().st_mtime < 2.0:
                return RunState(waiting=True)
            return RunState("lost", "it was ended before it began")
        if self._alive(who):
            return RunState()
        return ended(run.folder, node) or RunState("lost", "its agent was killed")

    def _alive(self, who: Mapping[str, object]) -> bool:
        try:
            pid = int(str(who["pid"]))
            same = agent.identity(pid) == dict(who)
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError, KeyError, ValueError, IndexError):
            return False
        return same and state not in "ZX"

    def _signal(self, run: Run, node: int, number: int) -> None:
        who = begun(run.folder, node)
        if not who or not self._alive(who):
            return
        pid = int(str(who["pid"]))
        try:
            if number == signal.SIGKILL:
                os.killpg(pid, number)
            else:
                os.kill(pid, number)
        except ProcessLookupError:
            return  # it ended just now

    def _reap(self) -> None:
        """Take the exit codes of agents that this process started, which are in the folders too."""
        for key, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[key]
