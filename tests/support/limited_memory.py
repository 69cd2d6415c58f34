"""A program of 8 million columns in processes whose memory is limited; prints the answer's figures as JSON.

Played in a process of its own, by :func:`main`; 0 actors are one process, and 0 megabytes no limit.  The
limit is what a process may take beyond what it has when all is imported and compiled (``RLIMIT_DATA``).
"""

from __future__ import annotations

import json
import resource
from pathlib import Path

import numpy as np
from scipy import sparse

from copter import ContinualProgram, make_solver
from copter.ray import RayProgram

REQUESTS, COLUMNS, AT_ONCE = 40_000, 200, 500


def data() -> int:
    """Bytes of this process' data segment, as the limit counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [each for each in lines if each.startswith("VmData")]
    return 1024 * int(line.split()[1])


def limit(part: object, megabytes: int) -> None:
    """Limit what this process may still take to `megabytes`; also a task of a program's parts."""
    if megabytes:
        most = data() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def fill(program: ContinualProgram, requests: int) -> None:
    """Add requests that choose one of their columns each, and resources that are enough for few of them."""
    resources, rng = [f"r{k}" for k in range(4)], np.random.default_rng(1)
    for name in resources:
        program.add_resource(name, upper=0.1 * requests)
    for first in range(0, requests, AT_ONCE):
        some = range(first, min(first + AT_ONCE, requests))
        width = len(some) * COLUMNS
        usage = sparse.csc_array(rng.integers(1, 5, (len(resources), width)).astype(float))
        costs = -rng.random(width) * usage.sum(axis=0)
        program.add_requests(some, costs, np.full(len(some), COLUMNS), usage, totals=1.0)


def play(program: ContinualProgram, megabytes: int) -> dict[str, float]:
    """Fill it under the limit, and solve."""
    solver = make_solver("copter", tolerance=1e-3)
    fill(program, 400)
    solver.solve(program)  # compiles
    program.remove_requests(program.request_ids)
    solver.reset()
    program.remove_resources(program.resource_ids)
    if not program.store.executor.local:
        program.store.executor.map(limit, megabytes)
    limit(None, megabytes)
    fill(program, REQUESTS)
    solution = solver.solve(program)
    return {"objective": solution.objective, "bound": solution.bound, "gap": solution.gap}


def main(actors: int, megabytes: int) -> None:
    """Play the program on `actors` actors, or in one process without any."""
    if actors:
        with RayProgram(actors=actors, num_cpus=0) as program:
            figures = play(program, megabytes)
    else:
        figures = play(ContinualProgram(), megabytes)
    print(json.dumps(figures))
