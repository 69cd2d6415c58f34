"""Calls in a process of their own: what a library that dies takes with it is not the caller.

HiGHS' branch and bound can end the process that it runs in, by a fault that no exception tells of.  A service
that must not stop calls it apart: a fresh interpreter reads the call, pickled, and writes what it returned.
It takes a second or so to start.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from copter.clock import Clock, Interrupted
from copter.errors import SolverError
from copter.native import run_apart

T = TypeVar("T")


class ProcessDied(SolverError):
    """The process of a call ended without an answer."""


def call_apart(
    function: Callable[..., T], *arguments: Any, clock: Clock | None = None, reserve: float = 0.0
) -> T:
    """Return ``function(*arguments)``, called in a process of its own.

    The function is one of a module; ``pickle`` must find it, its arguments, and its result or error. The
    process is killed `reserve` seconds before the deadline of the clock. Raise ProcessDied, with the signal,
    if it ended without returning, Interrupted if the clock was over.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "copter.solvers.apart"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    call = pickle.dumps((function, arguments))
    try:
        out, _ = run_apart(
            lambda: process.communicate(call), clock or Clock(), reserve=reserve, stop=process.kill
        )
    except Interrupted:
        process.kill()
        raise
    if process.returncode or not out:
        raise ProcessDied(f"the process of branch and bound died: {_how(process.returncode)}")
    worked, answer = pickle.loads(out)
    if not worked:
        raise answer
    result: T = answer
    return result


def _how(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _main() -> None:
    """Answer the call that is written to standard input."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # nobody else writes to where the answer goes
    function, arguments = pickle.load(sys.stdin.buffer)
    try:
        answer = True, function(*arguments)
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        answer = False, error
    pickle.dump(answer, out)
    out.flush()


if __name__ == "__main__":
    _main()
