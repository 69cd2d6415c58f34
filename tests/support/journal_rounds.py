"""Rounds of edits drawn from their numbers, and what makes up an answer, bit by bit."""

from __future__ import annotations

import numpy as np

from copter import (
    ContinualProgram,
)

JOBS = 12


def make_round(program: ContinualProgram, number: int) -> None:
    """Edits of a round, drawn from its number alone."""
    rng = np.random.default_rng(number)
    if number == 0:
        for name in ("a", "b", "c"):
            program.add_resource(name, 8.0)
        program.share_columns({"a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 1.0]}, 3)
    ids = program.request_ids
    if len(ids) >= JOBS:
        program.remove_requests([ids[k] for k in rng.choice(len(ids), 3, replace=False)])
    fresh = [("job", number, k) for k in range(3)]
    program.add_requests(fresh, -rng.random(9), [3, 3, 3], program.shared_columns[0], totals=np.ones(3))
    usage = {"c": rng.random(2), "a": ([1], [1.5])}
    named = {"columns": ["left", "right"], "start": {"right": 0.25}}
    program.add_request(f"own {number}", -rng.random(2), usage, total=1, upper=[1, 0.5], **named)
    if f"own {number - 1}" in program:
        request = f"own {number - 1}"
        program.add_columns(request, [("more", number)], -rng.random(), {"a": rng.random()})
        program.update_columns(request, ["left"], costs=-rng.random())
        program.remove_columns(request, ["right"])
    program.update_requests(program.request_ids, scales=0.5 + rng.random(len(program)))
    program.update_resources("b", upper=4 + 4 * rng.random())


def essence(solution) -> tuple:
    arrays = [array.tobytes() for array in (*solution.nonzeros, solution.y)]
    return (
        *arrays,
        solution.objective,
        solution.bound,
        solution.iterations,
        solution.churn,
        solution.warm_reason,
    )
