"""Compiles what takes longest to compile; ``make kernels`` runs this before pytest's processes would.

    python tests/compile_kernels.py solvers|domains

The two have nothing in common, so that both can run at the same time.
"""

import os
import sys

import numpy as np

from copter import ContinualProgram, ProximalPoint, make_solver
from copter.compile.beside import ASIDE
from copter.compile.first_calls import compile_at_once
from copter.solvers.proximal.ahead import PARTS


def compile_here() -> None:
    """Compile each kernel at once and in this process: another one beside it would do the same work again.

    The processes that this one starts inherit the setting.
    """
    os.environ[ASIDE] = "1"
    compile_at_once()


def solvers() -> None:
    """Small programs, solved in all ways: a bounded one, an infeasible one, and one with convex terms."""
    compile_here()
    program = ContinualProgram()
    for resource, upper in (("a", 3.0), ("b", 0.5)):
        program.add_resource(resource, upper, lower=-1.0)
    for k in range(12):
        usage = {"a": [1.0 + k % 3, 0.0, 2.0], "b": ([2], [0.1 * k])}
        program.add_request(k, [-1.0 - 0.1 * k, 0.0, -1.5], usage, total=1.0, upper=[1.0, 1.0, 0.7])
    for inner in ("newton", "cd"):
        ProximalPoint(inner=inner, tolerance=1e-3, iteration_limit=200).solve(program)
    make_solver("copter").solve(program)
    program.update_resources("a", upper=-0.5)
    for inner in ("newton", "cd"):
        ProximalPoint(inner=inner, tolerance=1e-3, iteration_limit=200).solve(program)
    PARTS["convex terms"]()


def domains() -> None:
    """Placements of shards, paths of a network and Pollux's allocations, which need no solver."""
    import networkx as nx

    from copter.problems.load_balancing.shim import NOWHERE, ReplicaShim, ShardFleet
    from copter.problems.pollux import AllocationProblem, evolve
    from copter.problems.traffic import Topology, edge_disjoint_paths

    compile_here()
    fleet = ShardFleet(np.array([2.0, 6.0]), np.array([4.0, 1.0]), np.array([4.0, 6.0]), 0.05)
    answer = np.array([0, 1]), np.array([1, 1]), np.array([0.5, 1.5])
    ReplicaShim().round(fleet, ReplicaShim().round(fleet, NOWHERE, *answer), *answer)
    ring = Topology.from_networkx(nx.cycle_graph(3))
    edge_disjoint_paths(ring, cache=False)
    one, held = np.ones(1, np.int64), np.zeros((1, 1), np.int8)
    problem = AllocationProblem(one, held, one, one, np.zeros(1, bool), np.ones(1), np.ones((1, 2, 2)))
    evolve(problem, held[None], np.random.default_rng(0))


if __name__ == "__main__":
    {"solvers": solvers, "domains": domains}[sys.argv[1]]()
