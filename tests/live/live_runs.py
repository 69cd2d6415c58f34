"""Runs for tests of backends: commands that print, wait, stop and fail."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from copter.live.backends.base import Backend, Run, RunState

SECONDS = 60.0
WORKER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
names = ("COPTER_NODE", "COPTER_RANK", "COPTER_RANKS", "CUDA_VISIBLE_DEVICES")
print(*(os.environ.get(name, "-") for name in names), flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(int(sys.argv[2]))
"""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("begun", flush=True)
time.sleep(600)
"""
"""A process that ignores SIGTERM."""


def worker(seconds: float = 600.0, code: int = 0) -> tuple[str, ...]:
    """A process that says who it is, ends with 75 on SIGTERM, and otherwise after some time."""
    return (sys.executable, "-S", "-c", WORKER, str(seconds), str(code))


def run_of(
    folder: Path,
    *command: str,
    job: str = "job",
    number: int = 1,
    gpus: tuple[int, ...] = (1,),
    **fields: object,
) -> Run:
    """A run on nodes of the type t4 with so many GPUs each; its file is written."""
    home = folder / "jobs" / job
    place = {"type": "t4", "hosts": tuple(f"t4-{node}" for node in range(len(gpus))), "gpus": gpus}
    own = {"directory": str(folder), "folder": home / "runs" / str(number)} | place | fields
    run = Run(job=job, number=number, command=command, **own)  # type: ignore[arg-type]
    run.write()
    return run


class Runs:
    """Makes runs, each with a folder, and waits for what becomes of them."""

    def __init__(self, folder: Path, type: str = "a100") -> None:
        self.folder, self._type, self._number = folder, type, 0

    def make(self, hosts: dict[str, int], command: tuple[str, ...], **fields: object) -> Run:
        """A run on nodes with so many GPUs each."""
        self._number += 1
        run = Run(
            "job",
            self._number,
            command,
            str(self.folder),
            self.folder / f"run-{self._number}",
            self._type,
            tuple(hosts),
            tuple(hosts.values()),
            **fields,  # type: ignore[arg-type]
        )
        run.write()
        return run


def state(backend: Backend, run: Run) -> RunState:
    """What became of a run so far."""
    return backend.states([run])[run.id]


def until(backend: Backend, run: Run, reached: Callable[[RunState], object]) -> RunState:
    """Wait until a run is in some state."""
    deadline = time.monotonic() + SECONDS
    while not reached(now := state(backend, run)):
        assert time.monotonic() < deadline, (now, {f.name: f.read_text() for f in run.folder.glob("*.txt")})
        time.sleep(0.02)
    return now


def until_ended(backend: Backend, run: Run) -> RunState:
    """Wait until a run has ended."""
    return until(backend, run, lambda now: now.outcome)


def until_printed(run: Run, words: str, node: int = 0) -> None:
    """Wait until the log of a run's node has some words."""
    deadline, path = time.monotonic() + SECONDS, run.folder / f"log-{node}.txt"
    while not path.exists() or words not in path.read_text():
        assert time.monotonic() < deadline, words
        time.sleep(0.02)


def until_said(backend: Backend, run: Run) -> list[list[str]]:
    """Wait until every process of a run has said who it is; what they said, by node."""
    counts = [1, *(0 for _ in run.hosts[1:])] if run.once else run.gpus

    def said() -> list[list[str]]:
        paths = [run.folder / f"log-{node}.txt" for node in range(len(run.hosts))]
        return [sorted(path.read_text().splitlines()) if path.exists() else [] for path in paths]

    until(backend, run, lambda _: [len(lines) for lines in said()] == list(counts))
    return said()


def pids(run: Run) -> list[int]:
    """Process numbers of a run's agents, those that have begun."""
    agents = [json.loads(path.read_text()) for path in run.folder.glob("begun-*.json")]
    return [agent["pid"] for agent in agents if agent]


def until_gone(backend: Backend, *numbers: int) -> None:
    """Wait until processes are there no more, nor as children that the backend has not collected."""
    deadline = time.monotonic() + SECONDS
    while any(Path(f"/proc/{number}").exists() for number in numbers):
        assert time.monotonic() < deadline, numbers
        backend.states([])
        time.sleep(0.02)
