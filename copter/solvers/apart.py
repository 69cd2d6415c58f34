"""Calls in a separate process, so that the crash of a library does not end the caller.

HiGHS' branch and bound can crash the process that it runs in, without a Python exception.  A service that
must not stop runs it in a new interpreter, which reads the pickled call and writes the pickled result.
Starting the process takes about one second.
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
    """Raised if the process of a call ended without a result."""


def call_apart(
    function: Callable[..., T], *arguments: Any, clock: Clock | None = None, reserve: float = 0.0
) -> T:
    """Call ``function(*arguments)`` in a separate process and return the result.

    `function` must be importable from a module, because ``pickle`` transfers the function, its arguments, and
    its result or error. The process is killed `reserve` seconds before the deadline of `clock`. Raise
    ProcessDied, with the signal's name, if the process ended without a result, and Interrupted if the clock
    ran out.
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
    """Run the call that standard input contains, and write its result to standard output."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # prints of the function must not mix with the result
    function, arguments = pickle.load(sys.stdin.buffer)
    try:
        answer = True, function(*arguments)
    except Exception as error:  # noqa: BLE001 - the caller raises it again
        answer = False, error
    pickle.dump(answer, out)
    out.flush()


if __name__ == "__main__":
    _main()
