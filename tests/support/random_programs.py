"""Random programs of every kind, and rounds of edits that keep them feasible."""

from __future__ import annotations

import numpy as np

from copter.program.program import ContinualProgram


def random_request(program, rng, id):
    n = int(rng.integers(1, 6))
    usage = {
        resource: rng.integers(0, 4, n).astype(float)
        for resource in program.resource_ids
        if rng.random() < 0.6
    }
    total = float(rng.integers(1, 4))
    kind = rng.integers(4)
    box = [np.inf, 2.0, rng.uniform(1, 3, n)][rng.integers(3)]
    relation = "==" if kind == 2 and np.sum(np.broadcast_to(box, n)) >= total else "<="
    costs = rng.normal(size=n)
    program.add_request(
        id,
        costs,
        usage,
        total=None if kind == 3 else total,
        relation=relation,
        upper=2.0 if kind == 3 else box,
        scale=rng.uniform(0.5, 2.0),
        override={0: float(rng.normal())} if rng.random() < 0.3 else None,
    )


def random_program(seed, requests=12):
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    for k in range(4):
        program.add_resource(
            f"r{k}", 100.0 if k == 3 else float(rng.integers(15, 30)), lower=[-np.inf, 0.0][k % 2]
        )
    for q in range(requests):
        random_request(program, rng, q)
    return program


def random_edits(program, rng, fresh):
    """A round of edits of every kind, keeping the program feasible."""
    for id in program.request_ids:
        kind = rng.integers(8)
        n = program.requests[id].costs.size
        if kind == 0:
            program.remove_request(id)
        elif kind == 1:
            program.update_request(id, scale=float(rng.uniform(0.5, 2)))
        elif kind == 2:
            program.update_request(id, costs=rng.normal(size=n), override={n - 1: float(rng.normal())})
        elif kind == 3:
            program.update_request(id, total=float(rng.integers(2, 5)), relation="<=")
        elif kind == 4:
            program.update_request(id, total=None, upper=rng.uniform(0.5, 2.0, n), relation="<=")
        elif kind == 5:
            width = int(rng.integers(1, 5))
            usage = {r: rng.integers(1, 4, width).astype(float) for r in program.resource_ids[:2]}
            program.update_request(id, costs=rng.normal(size=width), usage=usage, upper=1.5)
            if program.requests[id].total is not None:
                program.update_request(id, relation="<=")
        elif kind == 6:
            program.update_request(id, costs=rng.normal(size=n))
    for _ in range(int(rng.integers(0, 5))):
        random_request(program, rng, next(fresh))
    program.update_resources("r0", upper=float(rng.integers(15, 30)))
    if "r2" in program.resource_ids:
        if rng.random() < 0.3:
            program.remove_resources("r2")
    else:
        program.add_resource("r2", upper=20.0)
