"""The genetic algorithm: its matrices are allowed, worth what it says, and the best of a small cluster."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.pollux import AllocationProblem, evolve
from support.amounts import examples


def random_problem(seed, jobs, nodes, *, avoid=True, pinned=0.0):
    rng = np.random.default_rng(seed)
    capacity = rng.integers(1, 5, nodes)
    least = rng.choice([1, 1, 2, 3], jobs)
    most = least + rng.choice([0, 2, 8], jobs)
    held = np.zeros((jobs, nodes), np.int8)
    for job in rng.permutation(jobs)[: jobs // 2]:  # half of the jobs hold something on one node
        node = int(rng.integers(nodes))
        if capacity[node] - held[:, node].sum() >= least[job]:
            held[job, node] = least[job]
    largest = int(most.max())
    move = rng.normal(size=(jobs, largest + 1, min(nodes, largest) + 1)).cumsum(axis=1)
    stay = rng.normal(size=jobs) + 1.0
    keep = (rng.random(jobs) < pinned) & held.any(axis=1)
    return AllocationProblem(capacity, held, least, most, keep, stay, move, avoid=avoid)


def allowed(problem, matrix):
    gpus, spans = matrix.sum(axis=1), (matrix > 0).sum(axis=1)
    shared = ((matrix > 0) & (spans > 1)[:, None]).sum(axis=0)
    return (
        (matrix >= 0).all()
        and (matrix.sum(axis=0) <= problem.capacity).all()
        and ((gpus == 0) | ((gpus >= problem.least) & (gpus <= problem.most))).all()
        and (matrix[problem.pinned] == problem.held[problem.pinned]).all()
        and (not problem.avoid or (shared <= 1).all())
    )


def worth(problem, matrix):
    total = 0.0
    for job, row in enumerate(matrix):
        same = (row == problem.held[job]).all()
        total += problem.stay[job] if same else problem.move[job, row.sum(), (row > 0).sum()]
    return total


@given(
    seed=st.integers(0, 10_000),
    jobs=st.integers(1, 12),
    nodes=st.integers(1, 8),
    avoid=st.booleans(),
    pinned=st.sampled_from([0.0, 0.4]),
)
@settings(deadline=None, max_examples=examples(80))
def test_every_matrix_is_allowed_and_worth_what_it_says(seed, jobs, nodes, avoid, pinned):
    problem = random_problem(seed, jobs, nodes, avoid=avoid, pinned=pinned)
    start = np.random.default_rng(seed).integers(0, 7, (3, jobs, nodes)).astype(np.int8)
    rng = np.random.default_rng(1)
    matrices, values = evolve(problem, start, rng, generations=8, population=12)
    assert len(matrices) == 12 and (np.diff(values) <= 0).all()
    for matrix, value in zip(matrices, values, strict=True):
        assert allowed(problem, matrix)
        assert value == pytest.approx(worth(problem, matrix))
        assert value == pytest.approx(problem.value(matrix))


@pytest.mark.parametrize("avoid", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_it_finds_the_best_of_all_matrices_of_a_small_cluster(seed, avoid):
    problem = random_problem(seed, 3, 2, avoid=avoid)
    rows = list(product(*(range(gpus + 1) for gpus in problem.capacity)))
    every = (np.array(matrix, np.int8) for matrix in product(rows, repeat=3))
    best = max(worth(problem, matrix) for matrix in every if allowed(problem, matrix))
    _, values = evolve(problem, problem.held[None], np.random.default_rng(0))
    assert values[0] == pytest.approx(best)


def test_nodes_of_several_sizes_count_by_the_smallest():
    """Eight GPUs of one node count as two nodes of four."""
    move = np.zeros((1, 9, 3))
    move[0, 8, 2] = 1.0
    held = np.zeros((1, 1), np.int8)
    ones = np.ones(1, np.int64)
    problem = AllocationProblem(8 * ones, held, ones, 8 * ones, held[0] > 0, np.zeros(1), move, unit=4)
    assert problem.value(np.array([[8]], np.int8)) == 1.0
    assert evolve(problem, held[None], np.random.default_rng(0))[0][0].tolist() == [[8]]
