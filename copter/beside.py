"""Another process that compiles what rounds need; this one loads it from the cache."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys

from copter.parallel import available_threads

ASIDE = "COPTER_COMPILES_ASIDE"
"""In the environment of a process that compiles for another one."""
LAST, ROUNDS = "what a first solve needs last", "what small rounds need"
"""What another process can compile: see :mod:`copter.solvers.proximal.ahead`."""
_started: dict[str, subprocess.Popen[bytes]] = {}


def compile_beside(what: str = LAST) -> bool:
    """Have another process compile kernels, once, if there is a core for it; whether it still does.

    Parameters
    ----------
    what : str
        :data:`LAST` or :data:`ROUNDS`.
    """
    if what not in _started:
        if ASIDE in os.environ or available_threads() < 2:
            return False
        _started[what] = subprocess.Popen(
            [sys.executable, "-m", "copter.solvers.proximal.ahead", what],
            env=os.environ | {ASIDE: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(_end, _started[what])
    return _started[what].poll() is None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
