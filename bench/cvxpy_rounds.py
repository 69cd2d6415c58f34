"""Seconds of cvxpy's compilation and of solves, round after round, with copter and other solvers.

    python -m copter.bench.cvxpy_rounds 500 20 50 21 copter copter-cold highs clarabel

The arguments are the groups and columns of an allocation, resources, rounds, and solvers.  Capacities and
totals are cvxpy Parameters. Before each round after the first all capacities and 2% of the totals change.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from copter.extras import extra

with extra("cvxpy"):
    import cvxpy as cp

_COLD = "-cold"


def _allocation(groups: int, columns: int, resources: int) -> tuple[cp.Problem, cp.Parameter, cp.Parameter]:
    """Return problem, capacities and totals; every column uses three resources."""
    from scipy.sparse import csr_array

    rng, n = np.random.default_rng(0), groups * columns
    x, capacity, total = cp.Variable((groups, columns)), cp.Parameter(resources), cp.Parameter(groups)
    where = rng.integers(0, resources, 3 * n), np.repeat(np.arange(n), 3)
    usage = csr_array((rng.random(3 * n), where), shape=(resources, n))
    gain = cp.sum(cp.multiply(rng.random((groups, columns)), x))
    rows = [x >= 0, cp.sum(x, axis=1) <= total, usage @ cp.vec(x, order="C") <= capacity]
    capacity.value, total.value = np.full(resources, 0.3 * n / resources / columns), np.ones(groups)
    return cp.Problem(cp.Maximize(gain), rows), capacity, total


def _measure(solver: str, sizes: tuple[int, int, int], rounds: int) -> list[tuple[float, float, float]]:
    """Return compilation seconds, solve seconds and iterations of each round.

    `solver`: ``copter``, a name of cvxpy's, or either with ``-cold`` for solves without a warm start.
    `sizes`: arguments of :func:`_allocation`.
    """
    import copter

    problem, capacity, total = _allocation(*sizes)
    capacities, totals = np.asarray(capacity.value), np.asarray(total.value)
    rng, found = np.random.default_rng(1), []
    name = solver.removesuffix(_COLD)
    chosen: Any = copter.COPTER if name == "copter" else name.upper()
    for _ in range(rounds):
        begin = time.perf_counter()
        problem.solve(solver=chosen, warm_start=not solver.endswith(_COLD))
        whole = time.perf_counter() - begin
        compiling = float(problem.compilation_time or 0.0)
        found.append((compiling, whole - compiling, float(problem.solver_stats.num_iters or 0)))
        some = rng.integers(0, sizes[0], max(1, sizes[0] // 50))
        totals = totals.copy()
        totals[some] = rng.uniform(0.5, 1.5, some.size)
        total.value = totals
        capacity.value = capacities = capacities * rng.uniform(0.99, 1.01, sizes[2])
    return found


def main() -> None:
    """Print a line for each solver."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("groups", "columns", "resources", "rounds"):
        parser.add_argument(name, type=int)
    parser.add_argument("solvers", nargs="+")
    given = parser.parse_args()
    sizes = given.groups, given.columns, given.resources
    _measure("copter", sizes, 2)  # compiles the kernels
    print("solver: compilation, solve and iterations of the first round; means of the later rounds")
    for solver in given.solvers:
        found = np.array(_measure(solver, sizes, given.rounds))
        first, later = found[0].tolist(), found[1:].mean(axis=0).tolist()
        parts = (f"{each[0]:.3f} s, {each[1]:.3f} s, {each[2]:.0f}" for each in (first, later))
        print(f"{solver}: {'; '.join(parts)}")


if __name__ == "__main__":
    main()
