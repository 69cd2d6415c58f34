"""Effect of each parameter of the solver's tuning: inner iterations with a quarter and four times its value.

    python -m copter.bench.tuning                   all parameters
    python -m copter.bench.tuning steps. newton.    those whose names begin with this

The programs are small and random, one of each kind: requests with many columns, which are screened; enough
requests for a sample; more requests than take part in a step; rows with little room and equal costs;
boxes; infeasible rows.  Each is solved cold and after two rounds of edits.  The program prints the geometric
mean of the ratios of iterations, which are the same on any machine, and processor seconds, which are not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import random_array

from copter.program.program import ContinualProgram
from copter.program.records import Relation
from copter.solution import Status
from copter.solvers.proximal.solver import Inner, ProximalPoint
from copter.solvers.proximal.tuning import ProximalTuning

_ROUNDS = 3
_FACTORS = (0.25, 4.0)
_TOLERANCE: dict[Inner, float] = {"newton": 1e-5, "cd": 1e-3}
_LIMIT = 3_000
"""Limit on inner iterations, because a bad value can make a solve endless."""


def requests(
    rng: np.random.Generator,
    rows: int,
    count: int,
    width: int,
    relation: Relation | None,
    room: float,
    whole: bool,
) -> ContinualProgram:
    """Return a program of requests whose columns use about two rows each, with more demand than capacity.

    `relation`: of the requests' totals; without one their columns have upper bounds instead. `room`:
    approximate share of the demand that the rows can serve. `whole`: True if costs are 1, 2 or 3, so that
    many are equal.
    """
    program = ContinualProgram()
    shape = rows, count * width
    usage = random_array(shape, density=min(1.0, 2.0 / rows), rng=rng, format="csc")
    usage.data = 1.0 + usage.data
    totals = rng.pareto(1.5, count) + 0.1
    capacity = room * totals.sum() * 1.5 * min(2.0, rows) / rows
    for row in range(rows):
        program.add_resource(row, upper=capacity * rng.uniform(0.5, 1.5))
    gains = rng.integers(1, 4, count * width) if whole else rng.uniform(0.5, 1.5, count * width)
    costs = (1.0 if relation == "==" else -1.0) * gains.astype(float)
    sizes = np.full(count, width)
    if relation is not None:
        program.add_requests(range(count), costs, sizes, usage, totals=totals, relation=relation)
    else:
        program.add_requests(range(count), costs, sizes, usage, upper=np.repeat(totals, width))
    return program


_CASES: dict[str, Callable[[np.random.Generator], ContinualProgram]] = {
    "large": lambda rng: requests(rng, 8, 400, 500, "<=", 0.4, False),
    "wide": lambda rng: requests(rng, 8, 60, 500, "<=", 0.4, False),
    "many": lambda rng: requests(rng, 40, 12_000, 3, "<=", 0.4, False),
    "equal": lambda rng: requests(rng, 30, 300, 4, "==", 0.9, True),
    "boxes": lambda rng: requests(rng, 30, 300, 4, None, 0.3, False),
    "short": lambda rng: requests(rng, 20, 200, 6, "==", 0.2, False),
}


def _edit(program: ContinualProgram, rng: np.random.Generator) -> None:
    """Change 5% of the totals, scale 10% of the costs, and halve the capacity of a row."""
    ids = np.array(program.request_ids)
    moved = rng.choice(ids, ids.size // 20, replace=False).tolist()
    if program.requests[moved[0]].total is not None:
        program.update_requests(moved, totals=rng.uniform(0.1, 2.0, len(moved)))
    scaled = rng.choice(ids, ids.size // 10, replace=False).tolist()
    program.update_requests(scaled, scales=rng.uniform(0.8, 1.2, len(scaled)))
    row = int(rng.integers(len(program.resource_slots)))
    program.update_resources(row, upper=0.5 * program.resources[row][1])


def _run(tuning: ProximalTuning, inner: Inner) -> tuple[NDArray[np.float64], float, int]:
    """Return inner iterations of each solve, the seconds of all, and the number without an answer."""
    iterations, seconds, unsolved = [], 0.0, 0
    for make in _CASES.values():
        rng = np.random.default_rng(1)
        program = make(rng)
        solver = ProximalPoint(
            inner=inner, tolerance=_TOLERANCE[inner], iteration_limit=_LIMIT, fall_back=False, tuning=tuning
        )
        for _ in range(_ROUNDS):
            begin = process_time()
            solution = solver.solve(program)
            seconds += process_time() - begin
            iterations.append(solution.iterations)
            unsolved += solution.status not in (Status.OPTIMAL, Status.INFEASIBLE)
            _edit(program, rng)
    return np.array(iterations), seconds, unsolved


def numbers(record: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield dotted names and values of all numbers of a tuning."""
    names = [each.name for each in fields(record)] if is_dataclass(record) else record._fields
    for name in names:
        value = getattr(record, name)
        if isinstance(value, int | float):
            yield prefix + name, value
        else:
            yield from numbers(value, f"{prefix}{name}.")


def changed(record: Any, name: str, value: float) -> Any:
    """Return the tuning with another value of a number, whose dotted name is as of :func:`numbers`."""
    first, _, rest = name.partition(".")
    new = changed(getattr(record, first), rest, value) if rest else value
    return record._replace(**{first: new}) if hasattr(record, "_replace") else replace(record, **{first: new})


def _worth(name: str, value: float, base: dict[Inner, NDArray[np.float64]]) -> str:
    """Return a line with the change of iterations and seconds at a quarter and four times of a number.

    `name`: dotted, as of :func:`numbers`. `value`: the default; if it is an int, so are the others. `base`:
    iterations of each solve with the default.
    """
    inner: Inner = "cd" if name.startswith("descent.") else "newton"
    parts = []
    for factor in _FACTORS:
        other = max(1, round(factor * value)) if isinstance(value, int) else factor * value
        iterations, seconds, unsolved = _run(changed(ProximalTuning(), name, other), inner)
        more = np.exp(np.mean(np.log((1 + iterations) / (1 + base[inner])))) - 1.0
        failed = f", {unsolved} unsolved" if unsolved else ""
        parts.append(f"{other:g}: {100 * more:+.0f}% iterations, {seconds:.2f} s{failed}")
    return f"{name} = {value:g}; {'; '.join(parts)}"


def main(wanted: list[str]) -> None:
    """Print a line for each number whose name begins with one of `wanted`."""
    base = {}
    for inner in _TOLERANCE:
        _run(ProximalTuning(), inner)  # compiles
        base[inner], seconds, unsolved = _run(ProximalTuning(), inner)
        print(f"{inner}: {base[inner].sum()} iterations, {seconds:.2f} s, {unsolved} unsolved", flush=True)
    for name, value in numbers(ProximalTuning()):
        if not wanted or name.startswith(tuple(wanted)):
            print(_worth(name, value, base), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
