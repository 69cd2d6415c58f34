"""Many programs at once: in threads, in forked and in spawned processes, each answers as it does alone."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from copter import ContinualProgram, ProximalPoint
from support.journal_rounds import essence, make_round

PROGRAMS, ROUNDS = 4, 3


def answers(seed: int) -> list:
    """Rounds of a program that differs from seed to seed."""
    program, solver, found = ContinualProgram(), ProximalPoint(), []
    for number in range(ROUNDS):
        make_round(program, number)
        program.update_resources("a", upper=3.0 + seed)
        found.append(essence(solver.solve(program)))
    return found


def go_on(pair):
    program, solver = pair
    make_round(program, ROUNDS)
    return essence(solver.solve(program))


@pytest.fixture(scope="module")
def alone():
    return [answers(seed) for seed in range(PROGRAMS)]


def test_in_threads(alone):
    with ThreadPoolExecutor(PROGRAMS) as pool:
        assert list(pool.map(answers, range(PROGRAMS))) == alone


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_in_processes_also_warm_pairs_that_are_sent_there(alone, start):
    program, solver = ContinualProgram(), ProximalPoint()
    for number in range(ROUNDS):
        make_round(program, number)
        solver.solve(program)
    with ProcessPoolExecutor(2, mp_context=get_context(start)) as pool:
        assert list(pool.map(answers, range(PROGRAMS))) == alone
        there = pool.submit(go_on, (program, solver)).result()
    assert there == go_on((program, solver))
