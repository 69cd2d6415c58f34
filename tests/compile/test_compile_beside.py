"""What another process compiles beside a first solve is what that solve uses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from copter.compile.beside import ASIDE, NEWTON, SHIM

EXAMPLE = """
import collections, sys
from numba.core import event
from copter import ChooseOneShim, ContinualProgram, make_solver
from copter.compile.first_calls import compile_at_once

class Listener(event.Listener):
    def on_start(self, event):
        print(event.data["dispatcher"].py_func.__module__)
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
compile_at_once()
program = ContinualProgram()
program.add_resource("gpu", upper=3.0)
for job in range(6):
    program.add_request(job, [-1.0, -1.5 - 0.1 * job], {"gpu": [1.0, 2.0]}, total=1.0)
solver = make_solver("copter")
for scale in (1.0, 2.0):
    program.update_request(0, scale=scale)
    ChooseOneShim().round(program, solver.solve(program))
"""


@pytest.mark.long
def test_newton_and_the_shim_are_not_compiled_again(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), ASIDE: "1"}
    ahead = [sys.executable, "-m", "copter.solvers.proximal.ahead", SHIM, NEWTON]
    subprocess.run(ahead, env=environment, check=True, cwd=Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLE], env=environment, check=True, capture_output=True, text=True
    )
    compiled = set(done.stdout.split())
    assert "copter.solvers.inner.scaling" in compiled  # that process leaves these to the solve
    assert not {each for each in compiled if "newton" in each or "shims" in each}
