"""Random programs of any magnitude, and what an answer to them has to be whoever gives it.

A program is drawn with figures near 1, and then told in other units: that changes no choice, so HiGHS'
answer to the plain one is the oracle.  Wild ones have figures of all magnitudes side by side and no plain
twin; HiGHS solves them after rows, columns and costs were evened out by powers of two.

    python tests/support magnitudes 20000   # draws so many, cold and after edits, and prints what went wrong
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from copter import ContinualProgram, make_solver
from support.numpy_twins import INF, Model, farkas_value, reference, worst_row
from support.search import search
from support.strategies import KINDS, PlainProgram, PlainRequest, random_plain

TOLERANCE = 1e-6
UNITS = ("rows", "costs", "columns", "all", "unused", "forced")
"""Changes that are another name for the same program."""
FORCED = "forced"
REACH = 9
"""Largest power of ten of a unit."""
WILD = ("totals", "request costs", "everything")


def retold(plain: PlainProgram, change: str, rng: np.random.Generator) -> float:
    """The same program in other units, in place; returns the unit of its objective."""
    cost = 10.0 ** rng.integers(-REACH, REACH + 1) if change in ("costs", "all") else 1.0
    for id, (lower, upper) in plain.resources.items():
        factor = 10.0 ** rng.integers(-REACH, REACH + 1) if change in ("rows", "all") else 1.0
        plain.resources[id] = (factor * lower, factor * upper)
        for request in plain.requests.values():
            if id in request.usage:
                request.usage[id] = {j: factor * v for j, v in request.usage[id].items()}
    for request in plain.requests.values():
        n = len(request.costs)
        units = np.ones(n)
        if change in ("columns", "all"):  # a sum row ties its columns
            units = 10.0 ** rng.integers(-REACH, REACH + 1, n if request.total is None else 1) * units
        request.costs = [c * cost / u for c, u in zip(request.costs, units, strict=True)]
        request.override = {j: c * cost / units[j] for j, c in request.override.items()}
        in_units(request, units)
        request.usage = {id: {j: v / units[j] for j, v in e.items()} for id, e in request.usage.items()}
    if change == "unused":
        plain.resources["huge"] = (-INF, 1e9)
        plain.resources["tiny"] = (-1e-9, INF)
    if change == "forced":
        price = float(10.0 ** rng.integers(-REACH, REACH + 1) * rng.choice([-1.0, 1.0]))
        plain.requests = {FORCED: PlainRequest([price], {}, 1.0, "=="), **plain.requests}
    return float(cost)


def in_units(request: PlainRequest, units: np.ndarray) -> None:
    """Its total and bounds in units of its columns."""
    if request.total is not None:
        request.total *= float(units[0])
    if (units != units[0]).any() or isinstance(request.upper, list):
        request.upper = (np.array(request.bounds) * units).tolist()
    else:
        request.upper = float(request.upper * units[0])


def made_wild(plain: PlainProgram, change: str, rng: np.random.Generator) -> None:
    """Magnitudes from 1e-9 to 1e9 side by side, in place; what was met stays met."""
    before = plain.model()
    if change in ("request costs", "everything"):
        for request in plain.requests.values():
            factor = 10.0 ** rng.integers(-REACH, REACH + 1)
            request.costs = [c * factor for c in request.costs]
            request.override = {j: c * factor for j, c in request.override.items()}
    x = reference(before).x if change in ("totals", "everything") else np.zeros(0)
    if x.size:
        grown = np.empty_like(x)
        for (block, _, _), request in zip(before.blocks(), plain.requests.values(), strict=True):
            factor = 10.0 ** rng.integers(-REACH, REACH + 1)
            in_units(request, np.full(len(request.costs), factor))
            grown[block] = factor * x[block]
        after, old = plain.model(), before.A @ x
        new = after.A @ grown
        for i, (id, (lower, upper)) in enumerate(plain.resources.items()):  # what was met stays met
            factor = new[i] / old[i] if old[i] and new[i] / old[i] > 0 else 1.0
            low, high = lower * factor, upper * factor
            plain.resources[id] = (min(low, new[i]), max(high, new[i]))


def evened_out(model: Model) -> tuple[Model, np.ndarray, float]:
    """The same in powers of two that bring rows, columns and costs near 1; units of its columns and costs."""
    room = model.upper.copy()
    for block, kind, total in model.blocks():
        room[block] = np.minimum(room[block], total if kind else INF)
    column = np.where(np.isfinite(room) & (room > 0), room, 1.0)
    column = 2.0 ** np.round(np.log2(column))
    for block, kind, _ in model.blocks():
        if kind:
            column[block] = column[block].max()
    matrix = model.A.multiply(column).tocsr()
    largest = abs(matrix).max(axis=1).toarray().ravel()
    row = 2.0 ** -np.round(np.log2(np.where(largest > 0, largest, 1.0)))
    cost = model.c * column
    unit = 2.0 ** np.round(np.log2(abs(cost).max(initial=0.0) or 1.0))
    total = np.array([t / column[b][0] if k else t for b, k, t in model.blocks()])
    scaled = model._replace(
        c=cost / unit,
        upper=model.upper / column,
        A=matrix.multiply(row[:, None]).tocsc(),
        row_lower=model.row_lower * row,
        row_upper=model.row_upper * row,
        total=total,
    )
    return scaled, column, float(unit)


def faults(model: Model, plain: Model, unit: float, answer, tolerance: float = TOLERANCE) -> list[str]:
    """What is wrong with an answer to ``model``, which is ``plain`` in other units (of cost: ``unit``)."""
    wanted = reference(plain)
    found = answer.status.value
    if found in ("unproved", "numerical_error", "iteration_limit"):
        return [found]
    if answer.ray is not None and proven(model, answer):
        return []  # HiGHS' tolerances are absolute
    if wanted.status == "unknown":
        return []
    x = np.concatenate([np.zeros(0), *((answer.x or {}).values())])
    over = worst_row(model, x) if answer.found else INF
    if (wanted.status, found) == ("infeasible", "optimal") and over <= tolerance:
        return []  # infeasible by less than is asked for
    if found != wanted.status:
        return [f"{found} for {wanted.status}"]
    if found != "optimal":
        return []
    wrong = []
    if over > tolerance * (1 + 1e-6):
        wrong.append("a row is over")
    size = max(float(abs(plain.c) @ abs(wanted.x)), abs(wanted.objective))
    own = slice(x.size - plain.c.size, None)  # a forced request comes first
    worse = float(model.c[own] @ x[own]) / unit - wanted.objective
    rounding = 1e-9 * float(abs(plain.c).max(initial=0.0))
    if worst_row(plain, wanted.x) <= tolerance and worse > tolerance * size + rounding:
        wrong.append("worse than HiGHS")
    return wrong


def proven(model: Model, answer) -> bool:
    """Whether the ray of an answer shows what it claims."""
    if answer.ray.kind == "infeasible":
        return farkas_value(model, np.array(list(answer.ray.y.values()))) > 0
    d = np.concatenate(list(answer.ray.x.values()))
    held = np.isfinite(model.upper)
    for block, kind, _ in model.blocks():
        held[block] |= bool(kind)
    along, room = model.A @ d, 1e-7 * (abs(model.A) @ abs(d))
    over = np.where(np.isfinite(model.row_upper), along > room, False)
    under = np.where(np.isfinite(model.row_lower), along < -room, False)
    stays = (d >= 0).all() and not d[held].any() and not (over | under).any()
    return bool(stays and model.c @ d < -1e-9 * (abs(model.c) @ d))


def edited(plain: PlainProgram, program: ContinualProgram, rng: np.random.Generator) -> None:
    """The same edits to both: a request leaves, one comes back with other costs, a bound grows."""
    ids = [id for id in plain.requests if id != FORCED]
    gone = ids[int(rng.integers(len(ids)))]
    request = deepcopy(plain.requests.pop(gone))
    program.remove_request(gone)
    factors = rng.choice([0.5, 1.0, 3.0], len(request.costs))
    request.costs = (factors * request.effective).tolist()
    request.scale, request.override = 1.0, {}
    plain.requests[("again", gone)] = request
    usage = {i: (list(e), list(e.values())) for i, e in request.usage.items()}
    program.add_request(
        ("again", gone),
        request.costs,
        usage,
        total=request.total,
        relation=request.relation,
        upper=request.upper,
    )
    for id, (lower, upper) in plain.resources.items():
        if rng.random() < 0.3 and np.isfinite(upper) and upper > 0:
            plain.resources[id] = (lower, 1.25 * upper)
            program.update_resources(id, upper=1.25 * upper)


def trial(seed: int, change: str) -> tuple[str, str, list[str], list[str]]:
    """Kind, change, faults of the cold answer and of the one after edits."""
    rng, kind = np.random.default_rng([seed, 77]), KINDS[seed % len(KINDS)]
    plain = random_plain(rng, kind)
    solver, unit = make_solver("copter", tolerance=TOLERANCE), 1.0
    base = deepcopy(plain)
    if change in WILD:
        made_wild(plain, change, rng)
    else:
        unit = retold(plain, change, rng)
    program, results = plain.build(), []
    for _ in range(2):
        model = plain.model()
        twin, cost = (base.model(), unit) if change not in WILD else evened_out(model)[::2]
        results.append(faults(model, twin, cost, solver.solve(program)))
        state = rng.bit_generator.state
        edited(plain, program, rng)
        rng.bit_generator.state = state
        edited(base, base.build(), rng)
    return kind, change, *results


if __name__ == "__main__":
    search(UNITS + WILD, lambda change, seed: sum(trial(seed, change)[2:], []))
