"""The loop beneath the class: a state is data, to be held, gone on from twice, and saved."""

import numpy as np

from copter import ProximalPoint
from copter.clock import Clock
from copter.solvers.proximal.loop import init, solve
from copter.solvers.proximal.run import Options
from copter.solvers.proximal.state import State
from support.random_programs import random_edits, random_program

TOLERANCE = 1e-6


def go_on(program, state):
    """The solution as bytes and figures, and the state after it."""
    solution, state = solve(program, state, Options(TOLERANCE), Clock(), program.take_starts())
    return figures(solution), state


def figures(solution):
    assert solution.status == "optimal"
    arrays = (each.tobytes() for each in (*solution.nonzeros, solution.y))
    return (*arrays, solution.objective, solution.bound, solution.iterations, solution.churn, solution.start)


def edit(program, seed):
    random_edits(program, np.random.default_rng(seed), iter(range(1000 * seed, 1000 * seed + 1000)))


def test_the_class_holds_a_state_between_rounds():
    program, twin, state = random_program(3), random_program(3), init()
    solver = ProximalPoint(tolerance=TOLERANCE)
    for seed in range(1, 4):
        found, state = go_on(program, state)
        assert found == figures(solver.solve(twin))
        edit(program, seed)
        edit(twin, seed)


def test_a_state_can_be_gone_on_from_twice():
    program = random_program(5)
    _, state = go_on(program, init())
    edit(program, 1)
    once, after = go_on(program, state)
    again, _ = go_on(program, state)
    assert again == once
    unchanged, _ = go_on(program, after)
    assert unchanged[:4] == once[:4] and unchanged[-3] == 0


def test_a_state_that_was_saved_leads_to_the_same():
    program = random_program(8)
    _, state = go_on(program, init())
    saved = State.from_arrays(program, state.to_arrays(program))
    edit(program, 2)
    assert go_on(program, saved)[0] == go_on(program, state)[0]
    assert state.to_arrays(random_program(8)) is None
