"""Deadlines, cancel, Ctrl-C, failing callbacks: a solve ends, program and solver are as good as before."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from copter import ContinualProgram
from copter.clock import Clock, Interrupted, check, ctrl_c_cancels, current, running
from copter.native import run_apart
from copter.parallel import run_chunks
from copter.solution import Status
from copter.solvers.features import Feature
from copter.solvers.registry import SOLVERS, make_solver
from copter.store.compiled import compile_program
from support.large_programs import wide
from support.ticking import tick

#: Looks at the clock between the deadline and the answer: a pass over the columns and its certificate.
LATE_LOOKS = 40

#: Solvers that price all columns once even if the deadline is over, so that they have an answer.
OWN_PASSES = {"copter", "copter-cd", "copter-newton", "copter-cold", "copter-exact"}


@pytest.fixture(scope="module")
def program():
    program = wide()
    make_solver("copter").solve(program)  # compiles
    return program


def test_a_clock_is_over_with_its_parent(monkeypatch):
    now = tick(monkeypatch)
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
    now.now += 0.05
    with pytest.raises(Interrupted, match="deadline of 0 s"):
        late.check()


@pytest.mark.parametrize("threads", [1, 2])
def test_no_chunk_is_under_way_when_a_pass_ends(threads):
    clock, at_work, seen, late = Clock(), [], [], []

    def task(k):
        at_work.append(k)
        if clock.cancelled:
            late.append(k)
        if k == 3:
            clock.cancel()
        at_work.remove(k)
        seen.append(k)

    with running(clock), pytest.raises(Interrupted):
        run_chunks(task, 40, threads)
    assert not at_work and 3 in seen
    assert len(late) < threads  # who had looked just before goes on with one more


def test_a_native_call_that_is_late_is_left_alone():
    release, asked, ended = threading.Event(), [], []
    with pytest.raises(Interrupted):
        run_apart(lambda: ended.append(release.wait(60)), Clock(0.05), stop=lambda: asked.append(1))
    assert asked == [1] and not ended
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
def test_a_deadline_that_is_over_has_an_answer_or_says_that_there_is_none(program, name, monkeypatch):
    solver = make_solver(name, tolerance=1e-8, threads=1)
    tick(monkeypatch)
    solution = solver.solve(program, time_limit=0.0)
    assert solution.status is Status.DEADLINE, solution.reason
    assert solution.found or name not in OWN_PASSES
    assert np.isnan(solution.objective) == (not solution.found)


@pytest.mark.long  # by the clock of the machine
@pytest.mark.parametrize("name", SOLVERS)
def test_a_deadline_amid_a_solve_has_an_answer_or_says_that_there_is_none(program, name):
    """By how much the last pass overruns is measured by tests/solve_deadlines.py."""
    solver = make_solver(name, tolerance=1e-8, threads=1)
    for time_limit in (0.005, 0.2):
        solution = solver.solve(program, time_limit=time_limit)
        assert solution.status in (Status.DEADLINE, Status.OPTIMAL, Status.NUMERICAL_ERROR), solution.reason
        if solution.status is Status.OPTIMAL:
            assert solution.found
        assert np.isnan(solution.objective) == (not solution.found)


@pytest.mark.parametrize("name", ["copter", "copter-newton", "copter-cd", "copter-cold"])
@pytest.mark.parametrize("time_limit", [0.004, 0.02])
def test_a_solve_of_ours_looks_at_the_clock_and_ends(program, name, time_limit, monkeypatch):
    """Time is looks at the clock, a millisecond each: the solve ends a few looks after its deadline."""
    looks = []
    solver = make_solver(name, tolerance=1e-12, threads=1)
    solver.callback = lambda iterations, certificate: looks.append(now.now)
    now = tick(monkeypatch)
    begin = now.now
    solution = solver.solve(program, time_limit=time_limit)
    assert solution.status is Status.DEADLINE and solution.found
    assert now.now - begin <= time_limit + LATE_LOOKS * now.step
    # passes that end late: the first, without which there is no answer, and the one under way
    assert sum(each - begin > time_limit for each in looks) <= 2


CANCELLABLE = [name for name in SOLVERS if Feature.CANCEL in make_solver(name).features]


@pytest.mark.parametrize("name", CANCELLABLE)
def test_cancel_from_another_thread_at_the_first_look_at_the_clock(program, name, monkeypatch):
    solver, left, threads = make_solver(name, tolerance=1e-9, threads=1), Clock.left, []

    def look(clock, reserve=0.0):
        if not threads:
            threads.append(threading.Thread(target=solver.cancel))
            threads[0].start()
            threads[0].join()
        return left(clock, reserve)

    monkeypatch.setattr(Clock, "left", look)
    solution = solver.solve(program)
    assert threads and solution.status is Status.CANCELLED and solution.reason == "cancelled"
    assert bool(solution.x) == solution.found


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


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_callback_that_fails_loses_nothing(error):
    def fail(iterations, certificate):
        raise error("no space left")

    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.add_request("a", [-1.0, -1.0], {"r": 1.0}, total=1.0, start={1: 1.0})
    solver = make_solver("copter", callback=fail)
    with pytest.raises(error, match="no space"):
        solver.solve(program)
    solver.callback = None
    solution = solver.solve(program)
    assert solution.warm_reason == "starts that were given"
    assert solution.x["a"] == pytest.approx([0.0, 1.0])  # of all optima the one it starts from


def test_the_callback_is_called_after_every_pass_also_the_first():
    program = wide(50, 5)
    calls = []
    note = {"callback": lambda iterations, certificate: calls.append(iterations)}
    solver = make_solver("copter", engine="proximal", **note)
    solver.solve(program)
    assert calls[0] == 0 and len(calls) >= 2
    calls.clear()
    assert solver.solve(program).iterations == 0
    assert calls == [0]
    calls.clear()
    make_solver("copter", **note).solve(program)
    assert calls == [0], "the simplex for small programs has one pass, at its end"


CTRL_C = """
import os, signal, sys, threading
from support.large_programs import wide
from copter import make_solver
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
make_solver("copter", tolerance=1e-9).solve(wide())  # compiles all: numba swallows Ctrl-C
for name in sys.argv[1:]:
    program = wide()
    solver = make_solver(name, tolerance=1e-9, threads=1)
    solver.solve(program, time_limit=0.5)
    solver.reset()
    threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            solver.solve(program)
            solver.reset()
    except KeyboardInterrupt:
        pass
    program.remove_requests(list(range(10, 2000)))
    print(name, solver.solve(program).status)
"""


@pytest.mark.long  # by the clock of the machine
def test_ctrl_c_leaves_program_and_solver_usable():
    names = ["copter", "highs-simplex", "highs-hot", "glop"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CTRL_C, *names]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"{name} optimal" for name in names], result.stdout + result.stderr


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
