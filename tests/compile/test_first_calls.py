"""Kernels in Python: when, and that they compute the same numbers as compiled ones, bit by bit."""

import gc
import inspect
import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba import NumbaError, int64
from numba.core.compiler import Flags

from copter import make_solver
from copter.clock import Clock, running
from copter.compile import first_calls
from copter.compile.first_calls import compile_at_once
from copter.compile.kernels import _Options, compile_seconds, kernel
from copter.terms import phi
from copter.terms.phi import Phi
from support.random_programs import random_edits, random_program


@pytest.fixture
def total(monkeypatch):
    """A kernel that was never compiled, in a process that does not compile at once."""
    monkeypatch.setattr(first_calls, "_at_once", ())
    monkeypatch.setattr(first_calls, "_has_files", lambda folder: False)

    def total(values, factor=2.0):
        found = 0.0
        for value in values:
            found += factor * value
        return found, values.size

    return kernel(total)


class Pair(NamedTuple):
    values: np.ndarray
    of: Phi


def test_first_calls_run_in_python(total):
    found, size = total(np.arange(4.0))
    assert (found, size) == (12.0, 4)
    assert type(found) is float and type(size) is int  # as machine code returns them
    assert total(np.arange(4.0), 1.0) == (6.0, 4)
    assert not total.signatures


def test_it_is_compiled_once_that_pays(total, monkeypatch):
    total(np.ones(4))
    monkeypatch.setattr(total, "_seconds", 0.0)
    assert total(np.ones(4)) == (8.0, 4)
    assert len(total.signatures) == 1


def test_with_a_deadline_another_process_compiles_it(total, monkeypatch):
    beside = iter([True, True, False])
    monkeypatch.setattr(first_calls, "compile_beside", lambda what: next(beside))
    total(np.ones(4))
    monkeypatch.setattr(total, "_seconds", 0.0)
    with running(Clock(1e9)):
        for _ in range(2):
            assert total(np.ones(4)) == (8.0, 4)
            assert not total.signatures
        assert total(np.ones(4)) == (8.0, 4)  # that process is done, without this kernel
    assert len(total.signatures) == 1


def test_long_arrays_are_compiled_at_once(total):
    assert total(np.ones(5000)) == (10_000.0, 5000)
    assert len(total.signatures) == 1


def test_so_is_everything_where_many_rounds_will_follow(total, monkeypatch):
    monkeypatch.setattr(first_calls, "_at_once", ("",))
    total(np.ones(4))
    assert len(total.signatures) == 1


@pytest.mark.parametrize(("modules", "compiled"), [((__name__, "other"), 1), (("other",), 0)])
def test_or_the_kernels_of_some_modules(total, monkeypatch, modules, compiled):
    monkeypatch.setattr(first_calls, "_at_once", ())
    compile_at_once(*modules)
    assert total(np.ones(4)) == (8.0, 4)
    assert len(total.signatures) == compiled


def test_what_is_kept_is_loaded_and_what_is_not_runs_in_python(total, monkeypatch):
    monkeypatch.setattr(first_calls, "_has_files", lambda folder: folder is not None)
    total(np.ones(5000))
    again, before = kernel(total.py_func), compile_seconds()
    assert again(np.ones(4)) == (8.0, 4)
    assert again.__call__ is again.dispatcher and sum(again.stats.cache_hits.values()) == 1
    other = kernel(total.py_func)
    assert other(np.ones(4, np.float32)) == (8.0, 4)
    assert not other.signatures
    assert compile_seconds() == pytest.approx(before, abs=1e-3) and gc.isenabled()


def test_a_kernel_makes_arrays_only_if_it_says_so():
    """numba's option that is not public (copter/compile/kernels.py) still has an effect."""

    def refused(n):
        return np.empty(n)

    def made(n):  # another function: the cache would have machine code for the first
        return np.empty(n)

    with pytest.raises(NumbaError):
        kernel(refused).compile((int64,))
    kernel(allocates=True)(made).compile((int64,))


def test_numba_compares_our_options_by_the_values_that_are_set():
    """The method that makes them is not public (copter/compile/kernels.py), but numba still calls it."""
    compiler = kernel(lambda: 0).dispatcher._compiler
    assert compiler._customize_flags is _Options
    assert "self._customize_flags(" in inspect.getsource(compiler._compile_core)
    flags = Flags()
    flags.nrt = True
    one, same = _Options(flags), _Options(flags)
    other = same.copy()
    assert one is not same and one == same and hash(one) == hash(same)
    other.nrt = False
    assert type(other) is _Options and one != other and hash(one) == hash(other)


def test_a_kernel_travels_by_its_name():
    assert pickle.loads(pickle.dumps(phi.value)) is phi.value


def test_functions_with_an_address_are_called_by_machine_code():
    assert first_calls._longest((Pair(np.ones(2), Phi(0, 0, 1.0)),)) == np.inf


ALL_IN_PYTHON = """
import pickle, sys
import numpy as np
from copter.compile import first_calls
first_calls._LONG, first_calls._SECONDS_A_BYTE = np.inf, 1e9
from test_first_calls import answers
sys.stdout.buffer.write(pickle.dumps(answers()))
"""


def answers():
    """Status, objective, bound, values and prices of rounds of random programs, by both inner solvers."""
    found = []
    for seed in range(6):
        for inner in ("newton", "cd"):
            program, rng = random_program(seed), np.random.default_rng(seed)
            fresh = itertools.count(100)
            solver = make_solver("copter", inner=inner)
            for _ in range(2):
                solution = solver.solve(program)
                x = solution.x.arrays()
                numbers = [solution.objective, solution.bound, *x.value, *solution.y]
                found.append((str(solution.status), x.slot.tolist(), np.array(numbers).tobytes()))
                random_edits(program, rng, fresh)
    return found


def test_answers_are_the_same_bit_by_bit(tmp_path):
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (here, here.parent)))
    done = subprocess.run(
        [sys.executable, "-c", ALL_IN_PYTHON],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
    assert pickle.loads(done.stdout) == answers()
    assert not list(tmp_path.rglob("*.nbi"))  # nothing was compiled there
