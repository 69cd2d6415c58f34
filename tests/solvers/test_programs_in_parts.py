"""A program in parts is solved bit by bit as in one process, whatever the number of parts."""

from __future__ import annotations

from itertools import count

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ProximalPoint, make_solver
from copter.problems.sia.steady import steady_simulator
from copter.problems.traffic import TrafficEngineering
from copter.problems.traffic.search import k_shortest_paths
from copter.problems.traffic.topology import Topology
from copter.solvers.proximal.tuning import PartialTuning, ProximalTuning, ScreeningTuning
from support.amounts import examples
from support.in_parts import made
from support.large_programs import edit as edit_large
from support.large_programs import large
from support.random_programs import random_edits, random_program
from support.rich_program import edit, rich

PARTS = (1, 3, 8)
SCREENED = ProximalTuning(screening=ScreeningTuning(screen_from=0))
PARTIAL = ProximalTuning(partial=PartialTuning(columns_from=0, rows_from=0))


def answer(solution):
    """All that a solve came to, to be compared bit by bit."""
    ray = solution.ray and solution.ray.value
    figures = (
        solution.status,
        solution.objective,
        solution.bound,
        solution.gap_denominator,
        solution.relative,
    )
    figures += (solution.absolute, solution.iterations, solution.churn, ray)
    return repr(figures), *(part.tobytes() for part in (*solution.nonzeros, solution.y))


def rounded(solution):
    return (
        solution.choice.of(np.arange(solution.choice._columns.size)).tobytes(),
        solution.objective,
        solution.gap,
    )


def same_for_all(play, parts=PARTS):
    """What a play comes to in one process, which is what it comes to in parts."""
    alone = made(0, play)
    for number in parts:
        there = made(number, play)
        assert there == alone, number
    return alone


def rounds_of_random(seed, tuning):
    program, rng, fresh = random_program(seed), np.random.default_rng(seed), count(100)
    solver = ProximalPoint(tuning=tuning)
    answers = [answer(solver.solve(program))]
    for _ in range(2):
        random_edits(program, rng, fresh)
        answers.append(answer(solver.solve(program)))
    return answers


@given(seed=st.integers(0, 2**32), tuning=st.sampled_from([ProximalTuning(), SCREENED, PARTIAL]))
@settings(max_examples=examples(20), deadline=None)
def test_random_programs(seed, tuning):
    same_for_all(lambda: rounds_of_random(seed, tuning), parts=(1, 5))


def test_many_requests_on_threads_and_screened():
    def play():
        program, solver = large(small=6_000), ProximalPoint()
        answers = []
        for seed in range(2):
            answers.append(answer(solver.solve(program)))
            edit_large(program, seed)
        return answers

    same_for_all(play, parts=(3,))


def test_everything_that_a_program_can_have():
    def play():
        program, solver = rich(), ProximalPoint(tolerance=1e-7)
        answers = [answer(solver.solve(program))]
        edit(program)
        return [*answers, answer(solver.solve(program))]

    same_for_all(play)


def test_sia_with_its_shim():
    def play():
        solver, seen = make_solver("copter"), []
        simulator = steady_simulator(512, 60, 3, solver, seed=2)
        for _ in zip(range(3), simulator.run(), strict=False):
            decided = simulator.policy.last
            seen.append((answer(decided.solution), rounded(decided.answer.rounded)))
        return seen

    assert len(same_for_all(play, parts=(4,))) == 3


@pytest.mark.parametrize("objective", ["max-flow", "min-mlu"])
def test_traffic_with_its_shim(objective):
    graph = nx.random_geometric_graph(14, 0.45, seed=3).to_directed()
    nx.set_edge_attributes(graph, 10.0, "capacity")
    topology = Topology.from_networkx(graph, name="plane")
    paths = k_shortest_paths(topology, k=3, cache=False)
    size = paths.first.size - 1

    def play():
        traffic, seen = TrafficEngineering(topology, paths, objective), []
        rng, solver = np.random.default_rng(0), ProximalPoint(tuning=PARTIAL)
        for _ in range(3):
            traffic.set_volumes(rng.uniform(0.1, 2.0, size))
            done = traffic.play(solver)
            nonzeros = (part.tobytes() for part in done.flows.nonzeros)
            seen.append((answer(done.solution), *nonzeros, done.flows.objective, done.flows.gap))
        return seen

    same_for_all(play)
