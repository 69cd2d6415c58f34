"""Many programs in many threads and processes; one program in two threads is refused."""

import copy
import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from copter import ContinualProgram, make_solver
from copter.errors import ConcurrentUseError, CopterError
from copter.program.guard import Guard


def program_of(seed, requests=300, columns=40):
    """Enough columns that passes go to several threads."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    for row in range(5):
        program.add_resource(row, requests / 8)
    template = program.share_columns({row: rng.uniform(0, 1, columns) for row in range(5)}, columns)
    costs, sizes = -rng.uniform(0, 1, requests * columns), np.full(requests, columns)
    program.add_requests(list(range(requests)), costs, sizes, template, totals=np.ones(requests))
    return program


def objective_of(seed, name="copter", threads=2):
    program = program_of(seed, requests=2_000 if name == "copter" else 200)
    solution = make_solver(name, threads=threads).solve(program)
    assert solution.status == "optimal", solution.reason
    return solution.objective


def refused_while_solving(use):
    """What ``use(program, solver)`` raises while another thread solves the program with the solver."""
    program = program_of(0)
    solving, go_on = threading.Event(), threading.Event()

    def wait(iterations, certificate):
        solving.set()
        assert go_on.wait(120)

    solver = make_solver("copter", callback=wait)
    with ThreadPoolExecutor(1) as pool:
        solution = pool.submit(solver.solve, program)
        assert solving.wait(120)
        try:
            with pytest.raises(ConcurrentUseError) as raised:
                use(program, solver)
        finally:
            go_on.set()
        assert solution.result(60).status == "optimal"
    program.update_resources(0, upper=7.0)  # nobody has it now
    return str(raised.value)


def test_an_edit_while_another_thread_solves_is_refused():
    clock = []

    def edit(program, solver):
        clock.append(program.store.clock)
        try:
            program.update_resources(0, upper=1.0)
        finally:
            assert program.store.clock == clock[0]

    assert refused_while_solving(edit).startswith("update_resources: another thread")


def test_a_second_solve_of_the_program_is_refused():
    why = refused_while_solving(lambda program, solver: make_solver("highs-simplex").solve(program))
    assert why.startswith("solver 'highs-simplex': another thread")


def test_a_solver_serves_one_thread():
    assert "is solving already" in refused_while_solving(lambda program, solver: solver.solve(program_of(1)))


def test_a_callback_cannot_edit_what_is_being_solved():
    program = program_of(0)
    solver = make_solver("copter", callback=lambda iterations, certificate: program.remove_request(0))
    with pytest.raises(ConcurrentUseError, match="remove_request: the program is being solved"):
        solver.solve(program)
    assert 0 in program
    solver.callback = None
    assert solver.solve(program).status == "optimal"


def test_every_verb_is_guarded():
    program = program_of(0)
    taken, done = threading.Event(), threading.Event()

    def hold():
        with program.guard.solving("test"):
            taken.set()
            done.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(120)
    kinds = ("add", "update", "remove", "share", "forget", "price")
    verbs = [name for name in vars(ContinualProgram) if name.split("_")[0] in kinds]
    assert len(verbs) == 20
    for verb in verbs:
        with pytest.raises(ConcurrentUseError, match=f"{verb}: another thread"):
            getattr(program, verb)()
    done.set()
    thread.join()


def test_a_guard_is_copied_as_a_free_one():
    guard = Guard()
    with guard.solving("test"):
        for other in (copy.deepcopy(guard), pickle.loads(pickle.dumps(guard))):
            with other.solving("test"):
                pass
    assert issubclass(ConcurrentUseError, CopterError)


@pytest.mark.parametrize("name", ["copter", "highs-hot", "highs-ipm", "glop"])
def test_many_programs_in_many_threads(name):
    alone = [objective_of(seed, name) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(objective_of, range(6), [name] * 6)) == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_forked_and_spawned_processes_solve_too(method):
    before = objective_of(0)  # threads are running now
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(objective_of, [0, 0, 0])) == [before] * 3
    assert objective_of(0) == before
