"""A worker script in another interpreter: arrays there and back, errors, deadlines."""

import sys
from pathlib import Path

import numpy as np
import pytest

from copter.clock import Interrupted
from copter.errors import SolverError
from copter.solvers.baselines.other_python import OtherPython

WORKER = """
import sys, time
import numpy as np

class Worker:
    def __init__(self, factor="1"):
        self.factor = float(factor)

    def scale(self, values, offset, names):
        print("this is no answer")
        return {"values": self.factor * values + offset, "names": names, "sum": float(values.sum())}

    def nothing(self):
        pass

    def fail(self):
        raise ValueError("a wrong number")

    def crash(self):
        sys.stderr.write("the last words")
        sys.stderr.flush()
        import os
        os._exit(3)

    def sleep(self):
        time.sleep(60.0)
"""


@pytest.fixture
def start(tmp_path):
    """A function that starts a worker; all are ended after the test."""
    made = []

    def start(text=WORKER, **given):
        script = tmp_path / "script.py"
        script.write_text(text)
        made.append(OtherPython(Path(sys.executable), script, "Other", **given))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_arrays_and_numbers_go_there_and_back(start):
    worker = start(arguments=("2.5",))
    values = np.array([[1.0, -np.inf], [3.0, 4.0]])
    found = worker.ask("scale", {"values": values, "offset": np.float64(1.0), "names": ["a", None]}, 60.0)
    assert np.array_equal(found["values"], 2.5 * values + 1.0)
    assert found["names"] == ["a", None] and found["sum"] == -np.inf
    again = worker.ask("scale", {"values": np.arange(3), "offset": 0, "names": []})
    assert np.array_equal(again["values"], [0.0, 2.5, 5.0])
    assert worker.ask("nothing") == {} and not worker.ended


def test_an_error_is_told_and_the_worker_lives(start):
    worker = start()
    with pytest.raises(SolverError, match="Other: ValueError: a wrong number"):
        worker.ask("fail")
    with pytest.raises(SolverError, match="Other: AttributeError"):
        worker.ask("unknown")
    assert worker.ask("nothing") == {}


def test_a_worker_that_ends_is_told_with_the_end_of_its_errors(start):
    worker = start()
    for _ in range(2):
        with pytest.raises(SolverError, match="Other: .* ended with status 3; .*: the last words"):
            worker.ask("crash")
    assert worker.ended


def test_the_process_is_ended_at_the_deadline(start):
    worker = start()
    with pytest.raises(Interrupted):
        worker.ask("sleep", seconds=0.05)
    assert worker.ended


def test_what_cannot_start_is_told(start, tmp_path):
    with pytest.raises(SolverError, match="Other: ModuleNotFoundError: .*no_such_package"):
        start("import no_such_package")
    with pytest.raises(SolverError, match="Other: did not start within 0.05 s"):
        start("import time; time.sleep(60.0)", start_seconds=0.05)
    with pytest.raises(SolverError, match="cannot be started"):
        OtherPython(tmp_path / "nowhere", tmp_path / "script.py", "Other")
    no_worker = tmp_path / "true"
    no_worker.write_text("#!/bin/sh\necho no python >&2; exit 7\n")
    no_worker.chmod(0o755)
    with pytest.raises(SolverError, match="ended with status 7; .*: no python"):
        OtherPython(no_worker, tmp_path / "script.py", "Other")
