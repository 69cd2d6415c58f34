"""Compilation of kernels in another process; this process loads them from the cache."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys

from copter.parallel import available_threads

ASIDE = "COPTER_COMPILES_ASIDE"
"""Environment variable of a process that compiles for another process."""
SHIM, NEWTON, PROOF = "one column a request", "Newton's method", "certificates"
"""Names of what a first round needs last (:data:`copter.solvers.proximal.ahead.BESIDE`)."""
ROUNDS = (SHIM, "rounds")
"""Names of what small rounds need."""
_started: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}


def compile_last() -> None:
    """Start a process that compiles what the first round needs last.

    If the module of the shim is imported, its kernels come first, because the round will probably call it.
    """
    last = (NEWTON, PROOF)
    compile_beside((SHIM, *last) if "copter.shims.choose_one" in sys.modules else last)


def compile_beside(parts: tuple[str, ...]) -> bool:
    """Start a process that compiles parts, once, if there are two processors; return whether it runs."""
    if parts not in _started:
        if ASIDE in os.environ or available_threads() < 2:
            return False
        _started[parts] = subprocess.Popen(
            [sys.executable, "-m", "copter.solvers.proximal.ahead", *parts],
            env=os.environ | {ASIDE: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(_end, _started[parts])
    return _started[parts].poll() is None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
