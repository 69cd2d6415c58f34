"""Small programs that need the code which rounds do: solved before a first round, they compile or load it."""

from __future__ import annotations

from collections.abc import Iterator

from copter.program.program import ContinualProgram
from copter.program.records import CostType

_REQUESTS, _WIDE = 12, 200


def small_programs(cost_dtype: CostType = "float64") -> Iterator[ContinualProgram]:
    """Yield a program with all kinds of requests, one with many rows, and one without a solution."""
    program = _mixed(3, cost_dtype)
    yield program
    yield _mixed(_WIDE, cost_dtype)
    program.update_resources(0, upper=-0.5)
    yield program


def _mixed(rows: int, cost_dtype: CostType) -> ContinualProgram:
    program = ContinualProgram(cost_dtype=cost_dtype)
    for row in range(rows):
        program.add_resource(row, 3.0 + row % 2, lower=-1.0)
    shared = program.share_columns({row: [1.0, 0.0, 2.0] for row in range(2)}, 3)
    for k in range(_REQUESTS):
        costs, own = [-1.0 - 0.1 * k, 0.0, -1.5], {k % rows: [1.0 + k % 3, 0.0, 2.0]}
        program.add_request(("at most", k), costs, own, total=1.0, upper=[1.0, 1.0, 0.7])
        program.add_request(("exactly", k), costs, shared, total=1.0, relation="==")
        program.add_request(("free", k), [-0.5], {k % rows: [1.0]}, upper=2.0)
    return program
