"""Programs large enough for threads, screening and chunks, and edits of them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array

from copter import ContinualProgram

ROWS, SCREENED, SMALL = 7, 250, 9000


def large(seed: int = 0, small: int = SMALL, room: float = 1.0) -> ContinualProgram:
    """Two kinds of requests: of 800 columns that share a template, and of 8 with columns of their own."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    sizes = np.arange(1.0, 801.0) ** 0.7
    kind = rng.integers(0, ROWS, 800)
    for i in range(ROWS):
        program.add_resource(i, room * (10.0 * SCREENED + 0.8 * small), lower=0.0 if i else 10.0)
    template = program.share_columns({i: np.where(kind == i, sizes, 0.0) for i in range(ROWS)}, 800)
    gains = -(sizes**0.8) * rng.uniform(0.5, 1.5, (SCREENED, 800))
    ids = [("wide", k) for k in range(SCREENED)]
    program.add_requests(ids, gains.ravel(), [800] * SCREENED, template, totals=[1.0] * SCREENED)
    n = 8 * small
    pointer = np.arange(0, 3 * n + 1, 3)
    row = np.argsort(rng.random((n, ROWS)), axis=1)[:, :3].ravel()
    usage = csc_array((rng.uniform(0.5, 2.0, 3 * n), row, pointer), shape=(ROWS, n))
    costs, totals = rng.normal(size=n), rng.uniform(0.5, 2.0, small)
    program.add_requests(range(small), costs, [8] * small, usage, totals=totals)
    return program


def edit(program: ContinualProgram, seed: int) -> None:
    rng = np.random.default_rng(seed)
    program.remove_requests([("wide", k) for k in range(10 * seed, 10 * seed + 10)])
    moved = range(0, len(program) - SCREENED, 3)
    program.update_requests(moved, scales=rng.uniform(0.9, 1.1, len(moved)))
    program.update_resources(2, by=-50)


def wide(requests=2_000, columns=50, rows=40):
    """More than any of the solvers solves in a fifth of a second."""
    rng = np.random.default_rng(0)
    program, n = ContinualProgram(), requests * columns
    for row in range(rows):
        program.add_resource(row, 0.4 * requests / rows * 3)
    at = np.argsort(rng.random((n, rows)), axis=1)[:, :3].astype(np.int32)
    usage = csc_array(
        (rng.uniform(0.5, 1, 3 * n), np.sort(at).ravel(), np.arange(0, 3 * n + 1, 3)), (rows, n)
    )
    sizes = np.full(requests, columns)
    program.add_requests(
        list(range(requests)), -rng.uniform(0.5, 1, n), sizes, usage, totals=np.ones(requests)
    )
    return program
