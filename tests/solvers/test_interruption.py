"""Deadlines, cancel, Ctrl-C, failing callbacks: a solve ends, program and solver are as good as before."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from large_programs import wide

from copter import ContinualProgram
from copter.clock import Clock, Interrupted, check, ctrl_c_cancels, current, running
from copter.parallel import run_chunks
from copter.solution import Status
from copter.solvers.features import Feature
from copter.solvers.native import run_apart
from copter.solvers.registry import SOLVERS, make_solver
from copter.store.compiled import compile_program


@pytest.fixture(scope="module")
def program():
    program = wide()
    make_solver("copter").solve(program)  # compiles
    return program


def test_a_clock_is_over_with_its_parent():
    whole = Clock(60.0)
    part = Clock(None, parent=whole)
    assert 59 < part.left() <= 60 and 49 < part.left(10.0) <= 50 and not part.over()
    part.check()
    whole.cancel()
    assert part.over() and part.cancelled and part.why() == "cancelled"
    with running(part), pytest.raises(Interrupted, match="cancelled"):
        check()
    assert current() is None
    check()
    late = Clock(0.0)
    time.sleep(0.05)
    with pytest.raises(Interrupted, match="deadline of 0 s"):
        late.check()


@pytest.mark.parametrize("threads", [1, 2])
def test_no_chunk_is_under_way_when_a_pass_ends(threads):
    clock, at_work, seen = Clock(), [], []

    def task(k):
        at_work.append(k)
        if k == 3:
            clock.cancel()
        time.sleep(0.01)
        at_work.remove(k)
        seen.append(k)

    with running(clock), pytest.raises(Interrupted):
        run_chunks(task, 40, threads)
    assert not at_work and 3 in seen and len(seen) < 10


def test_a_native_call_that_is_late_is_left_alone():
    release, asked = threading.Event(), []
    begin = time.perf_counter()
    with pytest.raises(Interrupted):
        run_apart(lambda: release.wait(30), Clock(0.05), stop=lambda: asked.append(1))
    assert time.perf_counter() - begin < 5 and asked == [1]
    release.set()
    assert run_apart(lambda: 7, Clock()) == 7
    with pytest.raises(ZeroDivisionError):
        run_apart(lambda: 1 / 0, Clock())


def test_a_build_is_given_up(program):
    clock = Clock()
    clock.cancel()
    with running(clock), pytest.raises(Interrupted):
        compile_program(program)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_deadline_is_kept(program, name):
    solver = make_solver(name, tolerance=1e-8, threads=1)
    for deadline in (0.005, 0.2):
        begin = time.perf_counter()
        solution = solver.solve(program, deadline=deadline)
        seconds = time.perf_counter() - begin
        assert seconds < deadline + 2.0  # copter.bench.deadlines has the narrow margin
        assert solution.status in (Status.DEADLINE, Status.OPTIMAL, Status.NUMERICAL_ERROR), solution.reason
        assert solution.found or np.isnan(solution.objective)


@pytest.mark.parametrize("name", [name for name in SOLVERS if Feature.CANCEL in make_solver(name).features])
def test_cancel_from_another_thread(program, name):
    solver = make_solver(name, tolerance=1e-9, threads=1)
    timer = threading.Timer(0.1, solver.cancel)
    timer.start()
    begin = time.perf_counter()
    solution = solver.solve(program)
    seconds = time.perf_counter() - begin
    timer.join()
    if solution.status is not Status.OPTIMAL:  # it was quicker
        assert solution.status is Status.CANCELLED and solution.reason == "cancelled", solution.reason
        assert seconds < 5.0
    assert solution.found or solution.x is None
    program.set_capacity(0, program.capacity(0)[1])  # it can be edited again
    small = ContinualProgram()
    small.add_resource("r", 1.0)
    small.add_request("a", [-1.0, -2.0], {"r": 1.0}, total=1.0)
    solver.cancel()  # nothing is under way
    assert solver.solve(small).objective == pytest.approx(-2.0)


def test_a_cancelled_solve_goes_on_from_its_best_answer():
    program = wide(1_500, 20)  # screened, so that there are more passes than two
    solver = make_solver("copter", tolerance=1e-9)
    passes = []
    solver.callback = lambda iterations, certificate: (
        passes.append(certificate.relative.gap),
        solver.cancel() if len(passes) == 2 else None,
    )
    cancelled = solver.solve(program)
    assert cancelled.status is Status.CANCELLED and len(passes) == 2
    assert cancelled.found and cancelled.gap <= max(passes)
    solver.callback = None
    rest = solver.solve(program)
    assert rest.status is Status.OPTIMAL and rest.warm_started
    best = make_solver("highs-simplex").solve(program).objective
    assert rest.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("name", ["copter", "copter-rebuild"])
def test_a_callback_that_fails_loses_nothing(name):
    def fail(iterations, certificate):
        raise OSError("no space left")

    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.add_request("a", [-1.0, -1.0], {"r": 1.0}, total=1.0, start={1: 1.0})
    solver = make_solver(name, callback=fail)
    with pytest.raises(OSError, match="no space"):
        solver.solve(program)
    solver.callback = None
    solution = solver.solve(program)
    assert solution.warm_reason == "starts that were given"
    assert solution.x["a"] == pytest.approx([0.0, 1.0])  # of all optima the one it starts from


def test_the_callback_is_called_after_every_pass_also_the_first():
    program = wide(50, 5)
    calls = []
    solver = make_solver("copter", callback=lambda iterations, certificate: calls.append(iterations))
    solver.solve(program)
    assert calls[0] == 0 and len(calls) >= 2
    calls.clear()
    assert solver.solve(program).iterations == 0
    assert calls == [0]


CTRL_C = """
import signal, sys, threading, time, os
sys.path.insert(0, {tests!r})
from large_programs import wide
from copter import make_solver
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
program = wide()
solver = make_solver({name!r}, tolerance=1e-9, threads=1)
make_solver("copter", tolerance=1e-9).solve(program)  # compiles all: numba swallows Ctrl-C
solver.solve(program, deadline=0.5)
solver.reset()
threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    while True:
        solver.solve(program)
        solver.reset()
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - begin < 5)
program.remove_requests(list(range(10, 2000)))
print(solver.solve(program).status)
"""


@pytest.mark.parametrize("name", ["copter", "highs-simplex", "highs-hot", "glop"])
def test_ctrl_c_leaves_program_and_solver_usable(name, request):
    code = CTRL_C.format(tests=str(request.path.parents[1]), name=name)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["interrupted", "True", "optimal"], result.stdout + result.stderr


def test_ctrl_c_is_not_lost_in_another_exception():
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as raised, ctrl_c_cancels(clock := Clock()):
            signal.raise_signal(signal.SIGINT)
            assert clock.cancelled
            raise ValueError("the solve failed")
        assert isinstance(raised.value.__cause__, ValueError)
        with pytest.raises(ValueError), ctrl_c_cancels(Clock()):
            raise ValueError
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
