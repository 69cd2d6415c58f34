"""What a program and an answer say, compared with the mirror or bit by bit with what they said before."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from rounds.judges import Claim, require
from rounds.mirror import Log, Mirror

SIGN = {"min": 1.0, "max": -1.0}
"""Of costs that a program says, and of those that its mirror has, which are to be minimised."""
EXACT = 4e-16
"""Relative difference of costs that are products."""


def close(a: Any, b: Any, relative: float) -> bool:
    """Whether numbers are the same but for rounding."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape:
        return False
    other = a != b  # two infinities are the same
    return bool((np.abs(a[other] - b[other]) <= relative * np.abs(b[other])).all())


def compare(program: Any, mirror: Mirror, ids: list[Hashable] | None = None, single: bool = True) -> None:
    """Raise Wrong if a program says anything else than its mirror, of all requests or of some."""
    require(program.resource_ids == list(mirror.resources), "resource ids")
    require(program.request_ids == list(mirror.requests), "request ids")
    require(len(program) == len(mirror.requests), "number of requests")
    require(program.shared_columns == list(mirror.columns), "handles of columns")
    sums = sum(request.total is not None for request in mirror.requests.values())
    require(program.n_rows == len(mirror.resources) + sums, "number of rows")
    require(program.n_variables == sum(r.size for r in mirror.requests.values()), "number of columns")
    rows = program.resources[:]
    require(rows.ids == list(mirror.resources), "ids of resources[:]")
    bounds = np.array(list(mirror.resources.values()), float).reshape(-1, 2)
    require(close(np.column_stack((rows.lower, rows.upper)), bounds, 1e-12), "bounds of rows", rows, bounds)
    ids = list(mirror.requests) if ids is None else ids
    compare_bulk(program, mirror, ids)
    if single:
        for id in ids:
            _compare_one(program.requests[id], mirror.requests[id], SIGN[program.sense])


def compare_bulk(program: Any, mirror: Mirror, ids: list[Hashable] | None = None) -> None:
    """Raise Wrong if requests, read all in one, are others than the mirror's."""
    ids = list(mirror.requests) if ids is None else ids
    if not ids:
        return
    data = program.requests[ids]
    own, sign = [mirror.requests[id] for id in ids], SIGN[program.sense]
    require(data.ids == ids, "ids of requests[...]")
    require(data.sizes.tolist() == [r.size for r in own], "sizes")
    require(close(sign * data.costs, [c for r in own for c in r.costs], EXACT), "costs")
    require(data.totals == [r.total for r in own], "totals", data.totals)
    require(data.relation == [r.relation for r in own], "relations")
    require(data.scales.tolist() == [r.scale for r in own], "scales")
    require(data.integral.tolist() == [r.integral for r in own], "integral")
    bounds = [u for r in own for u in r.bounds]
    require(np.array_equal(np.broadcast_to(data.upper, len(bounds)), bounds), "upper")
    starts = [r.named(r.start) or {} for r in own]
    require([s or {} for s in data.starts] == starts, "starts", data.starts)
    names = None if all(r.columns is None for r in own) else [r.columns and tuple(r.columns) for r in own]
    require(data.columns == names, "names of columns", data.columns)
    counts, columns, values = data.overrides
    ends = np.cumsum(counts).tolist()
    for begin, end, request in zip([0, *ends], ends, own, strict=False):
        said = dict(zip(columns[begin:end].tolist(), (sign * values[begin:end]).tolist(), strict=True))
        require(same_override(said, request.override), "overrides", said, request.override)


def same_override(said: dict[int, float], mine: dict[int, float]) -> bool:
    """Whether costs of single columns are the same."""
    return said.keys() == mine.keys() and all(abs(said[j] - v) <= EXACT * abs(v) for j, v in mine.items())


def _compare_one(said: Any, mine: Any, sign: float) -> None:
    """One request by its attributes."""
    require(close(sign * said.costs, mine.effective, EXACT), said, "costs", said.costs, mine.effective)
    require(close(sign * said.base_costs, mine.costs, EXACT), said, "base costs", said.base_costs, mine.costs)
    require(said.shared_columns == mine.shared_columns, said, "shared columns")
    require(said.scale == mine.scale, said, "scale", said.scale, mine.scale)
    said_override = {column: sign * cost for column, cost in said.override.items()}
    override = mine.named(mine.override)
    require(same_override(said_override, override), said, "override", said.override, override)
    names = range(mine.size) if mine.columns is None else tuple(mine.columns)
    require(said.columns == names, said, "names of columns", said.columns)
    require(said.total == mine.total, said, "total", said.total, mine.total)
    require(said.relation == (None if mine.total is None else mine.relation), said, "relation")
    require(said.upper.tolist() == mine.bounds, said, "upper", said.upper, mine.bounds)
    require(said.integral == mine.integral, said, "integral")
    require((said.start or {}) == (mine.named(mine.start) or {}), said, "start", said.start, mine.start)
    usage = {
        id: {int(j): float(v) for j, v in zip(*entries, strict=True) if v}
        for id, entries in said.usage.items()
    }
    require(
        {id: own for id, own in usage.items() if own} == {id: own for id, own in mine.usage.items() if own},
        said,
        "usage",
        usage,
        mine.usage,
    )
    term = said.term
    require((term is None) == (mine.term is None), said, "term")
    if term is not None:
        image = np.broadcast_to(term.image, mine.size).tolist()
        require(Log(term.parameters["weight"], term.parameters["offset"], image) == mine.term, said, "term")


def compare_arrays(program: Any, mirror: Mirror) -> None:
    """Raise Wrong if the program's arrays are others than the mirror's."""
    said, mine = program.to_arrays(), mirror.model()
    sums, low, high = mine.sum_rows()
    require(close(said.c, mine.c, EXACT), "costs of to_arrays")
    matrix = said.A.toarray()
    require(np.array_equal(matrix[: mine.A.shape[0]], mine.A.toarray()), "rows of to_arrays")
    require(np.array_equal(matrix[mine.A.shape[0] :], sums.toarray()), "sum rows of to_arrays")
    low, high = np.concatenate((mine.row_lower, low)), np.concatenate((mine.row_upper, high))
    require(close(said.row_lower, low, 1e-12) and close(said.row_upper, high, 1e-12), "rows of to_arrays")
    require(not said.lower.any() and np.array_equal(said.upper, mine.upper), "bounds of to_arrays")
    whole = [request.integral for request in mirror.requests.values() for _ in range(request.size)]
    require(said.integral.tolist() == whole, "integrality of to_arrays")


# ---- answers -----------------------------------------------------------------------------------------


def values(given: Any) -> np.ndarray:
    """Values of all columns of a request, whose columns may have names."""
    return np.array(list(given.values())) if isinstance(given, Mapping) else given


def claim(solution: Any) -> Claim:
    """The plain numbers of an answer, as costs to be minimised."""
    sign, ray = SIGN[solution.sense], solution.ray
    return Claim(
        status=str(solution.status),
        objective=sign * solution.objective,
        bound=sign * solution.bound,
        gap_denominator=solution.gap_denominator,
        gap=solution.gap,
        rounding=solution.rounding,
        relative=solution.relative.primal,
        absolute=solution.absolute.primal,
        x={id: values(solution.x[id]) for id in solution.x} if solution.found else {},
        price=dict(solution.price),
        found=solution.found,
        ray=None if ray is None else dict(ray.y),
    )


def values_and_names(given: Any) -> tuple[bytes, list[Any]]:
    """Values of all columns of a request as bytes, and the names of these."""
    return values(given).tobytes(), list(given) if isinstance(given, Mapping) else []


def bits(solution: Any) -> dict[str, Any]:
    """All that an answer says, as bytes."""
    numbers = (
        solution.objective,
        solution.bound,
        solution.gap_denominator,
        solution.constant_cost,
        solution.rounding,
        solution.churn,
        *vars(solution.relative).values(),
        *vars(solution.absolute).values(),
    )
    found = {
        "status": (str(solution.status), solution.iterations, solution.start),
        "reason": solution.reason,
        "numbers": np.array(numbers).tobytes(),
        "details": repr({k: v for k, v in solution.details.items() if "seconds" not in k}),
        "prices": (list(solution.price), np.array(list(solution.price.values())).tobytes()),
        "y": solution.y.tobytes(),
    }
    if solution.found:
        found["nonzeros"] = tuple(part.tobytes() for part in solution.nonzeros)
        found["x"] = {id: values_and_names(solution.x[id]) for id in solution.x}
        found["choices"] = solution.x.choices()
    return found


def same(one: dict[str, Any], other: dict[str, Any], what: str, without: tuple[str, ...] = ()) -> None:
    """Raise Wrong if two answers differ in a bit, but for some names."""
    for name in [name for name in one if name in other and name not in without]:
        require(
            one[name] == other[name],
            what,
            "differs in",
            name,
            *((one[name], other[name]) if name in ("status", "reason", "details", "choices") else ()),
        )
