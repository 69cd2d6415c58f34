"""Genetic algorithm over allocation matrices: the GPUs of each job on each node.

It maximizes over matrices A (jobs j x nodes n, integers)

    sum_j  f_j(nodes and GPUs of row j)        if row j differs from the GPUs that job j holds
           h_j                                 otherwise

subject to  sum_j A_jn <= capacity_n,  least_j <= sum_n A_jn <= most_j or row j = 0, and, with interference
avoidance, at most one distributed job (one on several nodes) on every node.

Source: Pollux section 4.2.1.  The algorithm keeps a population of distinct matrices, and a generation makes
equally many children.  Parents are chosen by tournament, their rows are mixed at random, and elements mutate
to a random number of GPUs.  Then the child is repaired.  The worst of parents and children are dropped.

The paper's text mutates every element with probability 1 / nodes.  So in every child, each job mutates once
on average, and hardly any child is better than its parents.  With 15 jobs on 16 nodes of 4 GPUs, the harmonic
mean of the speedups after 100 generations is 13% lower than with the rates here.  Here the rate is random for
each child, log-uniform between one element of the matrix and the text's rate.  One row in ten returns to the
GPUs that its job holds, which undoes moves that do not justify a restart.  In half of the cases, free GPUs of
a node go to one of two random jobs, the one with fewer GPUs.  On a node with too few GPUs, one of two random
jobs, the one with more GPUs, loses one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel

_Matrix: TypeAlias = NDArray[np.int8]
_Matrices: TypeAlias = NDArray[np.int8]

GENERATIONS, POPULATION = 100, 100
_RESET = 0.1
"""Share of a child's rows that return to the GPUs that the job holds."""


@dataclass(frozen=True)
class AllocationProblem:
    """Problem to maximize, for J jobs on N nodes.

    `capacity`: GPUs of each node, at most 127. `held`: GPUs that the jobs hold, (J, N). `least`, `most`:
    limits on the GPUs of a job that has any. `pinned`: jobs that must keep their GPUs. `stay`: value of each
    job if it keeps its GPUs. `move`: value of each job with g other GPUs on n nodes, (J, G + 1, M + 1); G is
    at least the largest of `most`, and M at least min(N, G). `unit`: number of used GPUs of a node that count
    as one node; at least the largest capacity if all nodes are equal. `avoid`: whether distributed jobs must
    not share a node.
    """

    capacity: Ints
    held: _Matrix
    least: Ints
    most: Ints
    pinned: Flags
    stay: Floats
    move: Floats
    unit: int = 127
    avoid: bool = True

    def __post_init__(self) -> None:
        jobs, nodes = self.held.shape
        if self.capacity.shape != (nodes,) or not (self.capacity <= 127).all():
            raise ValueError(f"capacity = {self.capacity}: must be at most 127 GPUs on each of {nodes} nodes")
        for name in ("least", "most", "pinned", "stay"):
            if getattr(self, name).shape != (jobs,):
                raise ValueError(f"{name}: shape = {getattr(self, name).shape}: must be ({jobs},)")
        largest = int(self.most.max(initial=0))
        if self.move.shape[0] != jobs or min(self.move.shape[1] - 1, nodes) > self.move.shape[2] - 1:
            raise ValueError(f"move: shape = {self.move.shape}: must fit {jobs} jobs on {nodes} nodes")
        if self.move.shape[1] <= largest:
            given = self.move.shape[1] - 1
            raise ValueError(f"move has columns for 0 to {given} GPUs, but a job may get {largest}")

    def value(self, matrix: _Matrix) -> float:
        """Return the value of an allocation matrix."""
        return float(_value(matrix, self.held, self.stay, self.move, self.unit))


def evolve(
    problem: AllocationProblem,
    start: _Matrices,
    rng: Generator,
    *,
    generations: int = GENERATIONS,
    population: int = POPULATION,
) -> tuple[_Matrices, Floats]:
    """Evolve a population of allocation matrices, and return it with its values, best first.

    `start`: one or more initial matrices; they are repaired, and their mutants complete the population.
    `rng`: source of all random numbers.
    """
    return _evolve(
        start,
        problem.held,
        problem.capacity,
        problem.least,
        problem.most,
        problem.pinned,
        problem.stay,
        problem.move,
        problem.unit,
        problem.avoid,
        generations,
        population,
        rng,
    )


@kernel(allocates=True)
def _evolve(
    start: _Matrices,
    held: _Matrix,
    capacity: Ints,
    least: Ints,
    most: Ints,
    pinned: Flags,
    stay: Floats,
    move: Floats,
    unit: int,
    avoid: bool,
    generations: int,
    size: int,
    rng: Generator,
) -> tuple[_Matrices, Floats]:
    jobs, nodes = held.shape
    pool = np.zeros((2 * size, jobs, nodes), np.int8)
    values = np.empty(2 * size)
    parents, spare = np.arange(size), np.arange(size, 2 * size)
    for at in range(size):
        pool[at] = start[at % start.shape[0]]
        if at >= start.shape[0]:
            _mutate(pool[at], held, capacity, rng)
        _repair(pool[at], held, capacity, least, most, pinned, avoid, rng)
        values[at] = _value(pool[at], held, stay, move, unit)
    for _ in range(generations):
        for child in spare:
            mother = _tournament(parents, values, rng)
            father = _tournament(parents, values, rng)
            for job in range(jobs):
                pool[child, job] = pool[mother if rng.random() < 0.5 else father, job]
            _mutate(pool[child], held, capacity, rng)
            _repair(pool[child], held, capacity, least, most, pinned, avoid, rng)
            values[child] = _value(pool[child], held, stay, move, unit)
        parents, spare = _survivors(values, size)
    order = parents[np.argsort(-values[parents], kind="mergesort")]
    return pool[order], values[order]


@kernel(inlined=True)
def _tournament(parents: Ints, values: Floats, rng: Generator) -> int:
    one = parents[int(rng.random() * parents.size)]
    other = parents[int(rng.random() * parents.size)]
    return one if values[one] >= values[other] else other


@kernel(allocates=True, inner=True)
def _survivors(values: Floats, size: int) -> tuple[Ints, Ints]:
    """Return the best matrices, with equal values only if necessary, and all other matrices."""
    order = np.argsort(-values, kind="mergesort")
    keep, drop = np.empty(size, np.int64), np.empty(values.size, np.int64)
    kept = dropped = 0
    last = np.nan
    for at in order:
        if kept < size and values[at] != last:
            keep[kept] = at
            kept += 1
            last = values[at]
        else:
            drop[dropped] = at
            dropped += 1
    missing = size - kept
    keep[kept:] = drop[:missing]
    return keep, drop[missing:dropped].copy()


@kernel(allocates=True, inner=True)
def _mutate(matrix: _Matrix, held: _Matrix, capacity: Ints, rng: Generator) -> None:
    jobs, nodes = matrix.shape
    for job in range(jobs):
        if rng.random() < _RESET:
            matrix[job] = held[job]
    count = math.exp(rng.random() * math.log(jobs)) if jobs > 1 else 1.0
    share = min(count / (jobs * nodes), 0.5)
    at = -1
    while True:
        at += 1 + int(math.log(1.0 - rng.random()) / math.log(1.0 - share))
        if at >= jobs * nodes:
            break
        node = at % nodes
        matrix[at // nodes, node] = int(rng.random() * (capacity[node] + 1))
    used = np.zeros(nodes, np.int64)
    for job in range(jobs):
        for node in range(nodes):
            used[node] += matrix[job, node]
    for node in range(nodes):
        free = capacity[node] - used[node]
        if free > 0 and rng.random() < 0.5:
            one, other = int(rng.random() * jobs), int(rng.random() * jobs)
            if matrix[other].sum() < matrix[one].sum():
                one = other
            matrix[one, node] += 1 + int(rng.random() * free)


@kernel(allocates=True, inner=True)
def _repair(
    matrix: _Matrix,
    held: _Matrix,
    capacity: Ints,
    least: Ints,
    most: Ints,
    pinned: Flags,
    avoid: bool,
    rng: Generator,
) -> None:
    jobs, nodes = matrix.shape
    spans, used = np.zeros(jobs, np.int64), np.zeros(nodes, np.int64)
    for job in range(jobs):
        if pinned[job]:
            matrix[job] = held[job]
        else:
            _limit(matrix[job], most[job], rng)
        for node in range(nodes):
            used[node] += matrix[job, node]
            spans[job] += matrix[job, node] > 0
    there = np.empty(jobs, np.int64)
    first = int(rng.random() * nodes)
    for step in range(nodes):
        node = (first + step) % nodes
        if avoid:
            _separate(matrix, node, spans, used, pinned, there, rng)
        if used[node] > capacity[node]:
            _fit(matrix, node, capacity[node], spans, used, pinned, there, rng)
    for job in range(jobs):
        if least[job] > 1 and not pinned[job]:
            _complete(matrix, job, capacity, least[job], spans, used, avoid)


@kernel(inner=True)
def _limit(row: _Matrix, most: int, rng: Generator) -> None:
    """Remove GPUs from a row, starting at a random node, until it has no more than allowed."""
    total = 0
    for node in range(row.size):
        total += row[node]
    node = int(rng.random() * row.size)
    while total > most:
        taken = min(total - most, row[node])
        row[node] -= taken
        total -= taken
        node = (node + 1) % row.size


@kernel(inner=True)
def _separate(
    matrix: _Matrix, node: int, spans: Ints, used: Ints, pinned: Flags, there: Ints, rng: Generator
) -> None:
    """Leave at most one distributed job on a node."""
    count = 0
    keep = -1
    for job in range(spans.size):
        if matrix[job, node] > 0 and spans[job] > 1:
            there[count] = job
            count += 1
            if pinned[job]:
                keep = job
    if count < 2:
        return
    if keep < 0:
        keep = int(there[int(rng.random() * count)])
    for job in there[:count]:
        if job != keep and not pinned[job]:
            used[node] -= matrix[job, node]
            spans[job] -= 1
            matrix[job, node] = 0


@kernel(allocates=True, inner=True)
def _fit(
    matrix: _Matrix,
    node: int,
    capacity: int,
    spans: Ints,
    used: Ints,
    pinned: Flags,
    there: Ints,
    rng: Generator,
) -> None:
    """Remove single GPUs from random jobs until a node is within its capacity."""
    count = 0
    for job in range(spans.size):
        if matrix[job, node] > 0 and not pinned[job]:
            there[count] = job
            count += 1
    while used[node] > capacity and count > 0:
        at, other = int(rng.random() * count), int(rng.random() * count)
        if matrix[there[other]].sum() > matrix[there[at]].sum():
            at = other
        job = there[at]
        matrix[job, node] -= 1
        used[node] -= 1
        if matrix[job, node] == 0:
            spans[job] -= 1
            count -= 1
            there[at] = there[count]


@kernel(allocates=True, inner=True)
def _complete(
    matrix: _Matrix, job: int, capacity: Ints, least: int, spans: Ints, used: Ints, avoid: bool
) -> None:
    """Add free GPUs to a row up to the fewest that its job needs; if there are too few, empty the row."""
    row = matrix[job]
    missing = least - row.sum()
    if missing <= 0 or missing == least:
        return
    for own in (True, False):  # the job's own nodes come first
        for node in range(row.size):
            free = capacity[node] - used[node]
            if missing <= 0 or free <= 0 or (row[node] > 0) != own:
                continue
            if avoid and not own and _has_distributed(matrix, node, spans):
                continue
            taken = min(free, missing)
            spans[job] += row[node] == 0
            row[node] += taken
            used[node] += taken
            missing -= taken
    if missing > 0 or (avoid and _clashes(matrix, job, spans)):
        for node in range(row.size):
            used[node] -= row[node]
            row[node] = 0
        spans[job] = 0


@kernel(inner=True)
def _has_distributed(matrix: _Matrix, node: int, spans: Ints) -> bool:
    for job in range(spans.size):
        if spans[job] > 1 and matrix[job, node] > 0:
            return True
    return False


@kernel(inner=True)
def _clashes(matrix: _Matrix, job: int, spans: Ints) -> bool:
    """Return whether a distributed job shares a node with another distributed job."""
    if spans[job] < 2:
        return False
    for node in range(matrix.shape[1]):
        if matrix[job, node] > 0:
            for other in range(spans.size):
                if other != job and spans[other] > 1 and matrix[other, node] > 0:
                    return True
    return False


@kernel(inlined=True)
def _value(matrix: _Matrix, held: _Matrix, stay: Floats, move: Floats, unit: int) -> float:
    total = 0.0
    for job in range(matrix.shape[0]):
        gpus = nodes = 0
        same = True
        for node in range(matrix.shape[1]):
            here = matrix[job, node]
            gpus += here
            nodes += here > 0
            if here > unit:  # rare, and a division is slow
                nodes += (here - 1) // unit
            same &= here == held[job, node]
        total += stay[job] if same else move[job, gpus, nodes]
    return total
