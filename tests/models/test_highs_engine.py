"""HiGHS writes nothing on standard output, and survives forks and threads."""

import json
import os
import signal
import subprocess
import sys
import threading

import highspy
import numpy as np
import pytest

from copter import Model, from_arrays, linprog, milp, read_model
from copter.models.highs import HighsEngine
from copter.models.linear_program import checked

MODELS = """
import numpy as np
import copter
from copter.models.files import write_mps
from copter.models.highs import HighsEngine
c, rows = [-1.0, -2.0], ([[2.0, 2.0], [1.0, 3.0]], -np.inf, [7.0, 6.0])
options = {"mip_feasibility_tolerance": 1e-7}
assert copter.milp(c, integrality=1, constraints=rows, options=options).status == 0
assert copter.linprog(c, rows[0], rows[2], options={"presolve": False}).status == 0
program = copter.ContinualProgram()
program.add_resource("r", upper=3.0)
program.add_request("q", [-1.0, -2.0], {"r": [1.0, 2.0]}, total=1, integral=True)
for solver in ("highs-simplex", "highs-hot", "highs-milp", "copter-exact"):
    assert copter.make_solver(solver).solve(program).status is copter.Status.OPTIMAL
program.write("program.mps")
copter.Model(copter.read_model("program.mps")).solve()
assert HighsEngine(1, presolve="off").run() is not None
"""


def test_models_of_highs_write_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MODELS], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    command = [sys.executable, "-m", "copter", "solve", "program.mps", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert json.loads(done.stdout)["status"] == "optimal", done.stderr


def optimum(threads):
    c, rows = [-1, -2], ([[2, 2], [1, 3]], -np.inf, [7, 6])
    whole = milp(c, integrality=1, constraints=rows, options={"threads": threads}).fun
    return whole, linprog(c, *rows[::2], options={"threads": threads}).fun


def in_thread(function, *arguments):
    found = []
    thread = threading.Thread(target=lambda: found.append(function(*arguments)))
    thread.start()
    thread.join()
    return found[0]


def in_fork(function, *arguments):
    """Whether a forked process gives the answer that this process gives."""
    here = function(*arguments)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # if the child hangs
        os._exit(0 if function(*arguments) == here else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_process_that_used_highs_can_fork(threads):
    assert in_fork(optimum, threads)
    assert in_fork(in_thread, optimum, threads)
    in_thread(optimum, threads)
    assert in_fork(optimum, threads)


@pytest.mark.filterwarnings("ignore")
def test_threads_that_others_left_do_not_matter():
    other = highspy.Highs()
    other.silent()
    other.setOptionValue("threads", 2)
    other.addVar(0.0, 1.0)
    other.run()
    assert optimum(1) == optimum(4)


@pytest.mark.filterwarnings("ignore")
def test_a_process_can_fork_while_another_thread_runs_highs():
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            optimum(2)

    thread = threading.Thread(target=busy)
    thread.start()
    forked = [in_fork(optimum, 2) for _ in range(5)]
    stop.set()
    thread.join()
    assert all(forked)


@pytest.mark.filterwarnings("ignore")
def test_runs_of_highs_in_several_threads_do_not_end_each_other():
    found = []
    threads = [threading.Thread(target=lambda: found.extend(optimum(2) for _ in range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == 80 * [optimum(1)]


@pytest.mark.parametrize(
    "order",
    [
        "highspy, ortools.linear_solver.pywraplp as pywraplp",
        "ortools.linear_solver.pywraplp as pywraplp, highspy",
    ],
)
def test_highs_loads_beside_ortools(order):
    pytest.importorskip("ortools")
    use = "assert highspy.Highs().run() is not None and pywraplp.Solver.CreateSolver('GLOP')"
    subprocess.run([sys.executable, "-c", f"import {order}\n{use}"], check=True, capture_output=True)


UNSORTED = """NAME
ROWS
 N  cost
 L  a
 G  b
COLUMNS
    x  b  {small}  cost  1
    x  a  2
    y  a  1  b  3
RHS
    r  a  4  b  1
BOUNDS
ENDATA
"""


@pytest.mark.parametrize("small", [1.0, 1e-10])
def test_highs_gets_the_entries_of_a_file_in_their_order_and_drops_none(tmp_path, small):
    path = tmp_path / "model.mps"
    path.write_text(UNSORTED.format(small=small))
    passed = HighsEngine.loaded(checked(read_model(path)), 1)
    A = passed.getLp().a_matrix_
    assert list(A.index_) == [1, 0, 0, 1]
    assert list(A.value_) == [small, 2.0, 1.0, 3.0]
    read = highspy.Highs()
    read.setOptionValue("output_flag", False)
    read.readModel(str(path))
    assert (list(read.getLp().a_matrix_.index_) == [1, 0, 0, 1]) == (small == 1.0)
    dropped = [each.getOptionValue("small_matrix_value")[1] for each in (read, passed)]
    assert (dropped[0] == dropped[1]) == (small == 1.0)  # the default, on which the path of HiGHS depends
    model = Model(read_model(path))
    model.solve()
    assert model.lp.A.indices.tolist() == [1, 0, 0, 1]
    assert not any(model.update(read_model(path)))  # no difference, although scipy sorts entries at times


def test_after_a_long_run_from_a_basis_the_next_one_is_not_cut_in_two(monkeypatch):
    monkeypatch.setattr("copter.models.highs._AT_ONCE", 5 * 60)  # five iterations in the present thread
    rng = np.random.default_rng(8)
    A, c = rng.integers(1, 9, (20, 40)).astype(float), -rng.random(40)
    model = from_arrays(c, A, rng.integers(50, 90, 20), bounds=(0, 5))
    model.solve()
    parts, plain = [], HighsEngine.timed
    monkeypatch.setattr(HighsEngine, "timed", lambda self: parts.append(1) or plain(self))
    counts = []
    for long in (True, True, True, False, False):
        if long:
            model.update(c=-rng.random(40))
        parts.clear()
        counts.append((model.solve().iterations > 5, len(parts)))
    assert counts == [(True, 2), (True, 1), (True, 1), (False, 1), (False, 1)]
