"""A program that does not fit into one process is solved by actors that hold it, each with as much memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from copter import ContinualProgram
from support import limited_memory

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by RLIMIT_DATA of Linux"),
]
MEGABYTES = 400
TESTS = Path(__file__).parents[1]


def played(actors: int) -> subprocess.CompletedProcess[str]:
    """The program in a new process, or on actors; each process may take MEGABYTES more."""
    code = f"from support.limited_memory import main; main({actors}, {MEGABYTES})"
    environment = os.environ | {"PYTHONPATH": str(TESTS)}  # of the actors, too
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300
    )


def test_actors_hold_what_one_process_cannot():
    alone, spread = played(0), played(4)
    assert alone.returncode and "Unable to allocate" in alone.stderr
    assert not spread.returncode, spread.stderr
    assert json.loads(spread.stdout) == limited_memory.play(ContinualProgram(), 0)
