"""Random programs of many families, made to break the word of a solver; judged by HiGHS and exact arithmetic.

    python tests/support families 1000                 # fifty of each family, cold, then after edits
    python tests/support families 200 --kind flows     # of one family

An answer is right if its status is that of the program, its bound no more than the optimum, its objective
within the tolerance of it, relative to the size that it names, and its ray a proof in exact rationals.
HiGHS at 1e-9 says what is right; where they disagree, a simplex on fractions does (``exact_lp.py``).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from copter import ContinualProgram, Status, make_solver
from copter.solution import Solution
from support.exact_lp import solve_exactly
from support.numpy_twins import INF, Model, lagrangian, reference, worst_row
from support.search import search
from support.strategies import PlainProgram, PlainRequest

TOLERANCE = 1e-6
NEARLY = 1e-9
"""Of a row: an allocation that is off by no more is one of a program that is infeasible by as little."""


def _program(c, A, low, high, upper=INF, far=1e3) -> PlainProgram:
    """Every column a request of its own."""
    A = np.asarray(A, float)
    plain = PlainProgram({i: (float(a), float(b)) for i, (a, b) in enumerate(zip(low, high, strict=True))})
    upper = np.minimum(np.broadcast_to(upper, A.shape[1]), far)
    for j in range(A.shape[1]):
        usage = {i: {0: float(A[i, j])} for i in range(A.shape[0]) if A[i, j]}
        plain.requests[j] = PlainRequest([float(c[j])], usage, upper=float(upper[j]))
    return plain


def _choices(rng, q, n, costs, rows, use, total=1.0, relation="==", upper=INF) -> PlainProgram:
    """q requests of n columns: rows (bounds), use(k) -> {row: {column: coefficient}}."""
    plain = PlainProgram(rows)
    for k in range(q):
        t = float(total(k)) if callable(total) else total
        r = relation(k) if callable(relation) else relation
        plain.requests[k] = PlainRequest([float(v) for v in costs(k)], use(k), t, r, upper)
    return plain


def boxes(rng):
    m, n = rng.integers(1, 5, 2)
    A = rng.integers(-3, 4, (m, n))
    return _program(rng.integers(-5, 6, n), A, np.full(m, -INF), rng.integers(0, 9, m), rng.integers(0, 5, n))


def ties(rng):
    q, n = int(rng.integers(2, 6)), int(rng.integers(2, 5))

    def use(k):
        return {0: {j: float(rng.integers(0, 4)) for j in range(n)}}

    cost = -float(rng.integers(1, 4))
    return _choices(
        rng,
        q,
        n,
        lambda k: [cost] * n,
        {0: (-INF, float(rng.integers(1, 9)))},
        use,
        lambda k: rng.integers(1, 4),
    )


def transports(rng):
    s, d = rng.integers(2, 5, 2)
    demand = rng.integers(1, 6, d)
    rows = {i: (-INF, float(rng.integers(1, 8))) for i in range(s)}
    return _choices(
        rng,
        int(d),
        int(s),
        lambda k: rng.integers(0, 4, s),
        rows,
        lambda k: {i: {i: 1.0} for i in range(s)},
        lambda k: demand[k],
    )


def flows(rng):
    nodes, arcs = int(rng.integers(2, 6)), int(rng.integers(2, 10))
    A = np.zeros((nodes, arcs))
    for a in range(arcs):
        u, v = rng.choice(nodes, 2, replace=False)
        A[u, a], A[v, a] = 1.0, -1.0
    b = np.zeros(nodes)
    b[0], b[-1] = 1.0, -1.0
    b *= rng.integers(0, 5)
    return _program(rng.integers(-1, 5, arcs), A, b, b, rng.choice([INF, 2.0, 5.0], arcs))


def klee_minty(rng):
    n = int(rng.integers(2, 6))
    A = np.array([[2.0 * 10 ** (i - j) if j < i else float(i == j) for j in range(n)] for i in range(n)])
    return _program(
        [-(10.0 ** (n - 1 - j)) for j in range(n)],
        A,
        np.full(n, -INF),
        [100.0**i for i in range(n)],
        100.0 ** np.arange(n) * 10,
        INF,
    )


def parallel_rows(rng):
    n, e = int(rng.integers(2, 5)), 10.0 ** -rng.integers(3, 9)
    a = rng.integers(1, 5, n).astype(float)
    b = a + e * rng.integers(-3, 4, n)
    low = float(rng.integers(1, 5))
    return _program(
        rng.integers(-3, 4, n),
        [a, b],
        [low, -INF],
        [INF, low + e * float(rng.integers(0, 3))],
        rng.choice([INF, 10.0], n),
    )


def cancelling(rng):
    B = 10.0 ** rng.integers(3, 10)
    q = int(rng.integers(2, 5))

    def use(k):
        return {"r": {0: B, 1: B + float(rng.integers(1, 4))}}

    def costs(k):
        return -rng.integers(1, 4, 2)

    return _choices(rng, q, 2, costs, {"r": (-INF, q * B + float(rng.integers(0, 2 * q)))}, use)


def free_held_by_rows(rng):
    n = int(rng.integers(2, 5))
    A = np.vstack([rng.integers(-2, 3, (int(rng.integers(1, 4)), n)), np.ones(n)])
    high = np.append(rng.integers(-1, 6, A.shape[0] - 1), 10.0 ** rng.integers(0, 7)).astype(float)
    return _program(rng.integers(-3, 4, n), A, np.full(A.shape[0], -INF), high, far=10 * high[-1])


def rays(rng):
    e = float(rng.choice([0.0, 1e-3, 1e-5, 1e-7]) * rng.choice([-1, 1]))
    b = float(rng.choice([-1.0, 1.0]))
    return _program([float(rng.integers(-1, 1)), 0.0], [[1, -1], [-1, 1 + e]], [-INF] * 2, [b, b])


def nothing_to_pay(rng):
    n = int(rng.integers(2, 6))
    A = rng.integers(-3, 4, (int(rng.integers(1, 4)), n))
    b = A @ rng.integers(0, 4, n)
    return _program(np.where(rng.random(n) < 0.7, 0, rng.integers(0, 3, n)), A, b, b)


def totals_of_nothing(rng):
    q, n = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    rows = {0: (-INF, float(rng.integers(0, 4))), 1: (float(-rng.integers(0, 3)), INF)}

    def use(k):
        return {i: {j: float(rng.integers(-2, 4)) for j in range(n)} for i in range(2)}

    return _choices(
        rng,
        q,
        n,
        lambda k: rng.integers(-5, 5, n),
        rows,
        use,
        lambda k: rng.integers(0, 3),
        lambda k: str(rng.choice(["==", "<="])),
        float(rng.choice([INF, 0.5, 1.0])),
    )


def wide_and_narrow(rng):
    rows = {i: (-INF, float(rng.integers(1, 9))) for i in range(2)}
    sizes = [int(rng.choice([1, 2, 40])) for _ in range(int(rng.integers(2, 6)))]
    plain = PlainProgram(rows)
    for k, n in enumerate(sizes):
        use = {i: {j: float(rng.integers(1, 4)) for j in range(n) if rng.random() < 0.7} for i in rows}
        plain.requests[k] = PlainRequest((-rng.random(n)).tolist(), use, 1.0)
    return plain


def big_m(rng):
    M = 10.0 ** rng.integers(3, 10)
    n = int(rng.integers(1, 4))
    plain = PlainProgram({"need": (float(rng.integers(1, 4)), INF)})
    for k in range(n):
        plain.resources["link", k] = (-INF, 0.0)
        plain.requests["on", k] = PlainRequest(
            [float(rng.integers(1, 200))], {("link", k): {0: -M}}, upper=1.0
        )
        plain.requests["x", k] = PlainRequest(
            [float(rng.integers(0, 4))], {("link", k): {0: 1.0}, "need": {0: 1.0}}, upper=M
        )
    return plain


def whole_and_large(rng):
    B = 10.0 ** rng.integers(5, 13)
    q = int(rng.integers(2, 5))
    size = rng.integers(1, 10, (q, 2)) * B + rng.integers(0, 3, (q, 2))

    def use(k):
        return {"r": {0: float(size[k, 0]), 1: float(size[k, 1])}}

    high = float(size.min(axis=1).sum() + rng.integers(0, 4) * B)
    return _choices(
        rng,
        q,
        2,
        lambda k: -rng.integers(1, 9, 2),
        {"r": (-INF, high)},
        use,
        1.0,
        lambda k: str(rng.choice(["==", "<="])),
    )


def units(rng):
    plain = boxes(rng) if rng.random() < 0.5 else transports(rng)
    for id, (low, high) in plain.resources.items():
        f = 10.0 ** rng.integers(-9, 10)
        plain.resources[id] = (low * f, high * f)
        for r in plain.requests.values():
            if id in r.usage:
                r.usage[id] = {j: v * f for j, v in r.usage[id].items()}
    f = 10.0 ** rng.integers(-9, 10)
    for r in plain.requests.values():
        r.costs = [c * f for c in r.costs]
    return plain


def cancelling_costs(rng):
    n = int(rng.integers(2, 8))
    B = 10.0 ** rng.integers(1, 5)
    c = np.r_[B + rng.integers(0, 100, n) * 1e-3, -B - rng.integers(0, 100, n) * 1e-3]
    return _program(c, [np.r_[np.ones(n), -np.ones(n)]], [0.0], [0.0], rng.integers(1, 1000, 2 * n))


def infeasible_by_little(rng):
    n, e = int(rng.integers(1, 4)), float(rng.choice([0.5, 1e-2, 1e-4]))
    a = rng.integers(1, 4, n).astype(float)
    return _program(rng.integers(-3, 4, n), [a, a], [2.0 + e, -INF], [INF, 2.0], rng.choice([INF, 5.0], n))


def bounded_or_infeasible(rng):
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    A, b = rng.integers(-2, 3, (m, n)), rng.integers(-3, 4, m).astype(float)
    equal = rng.random(m) < 0.4
    return _program(rng.integers(-3, 3, n), A, np.where(equal, b, -INF), b)


def assignments(rng):
    n = int(rng.integers(2, 6))
    cost = rng.integers(0, 3, (n, n)) * float(rng.choice([0.0, 1.0, -3.0]))
    return _choices(
        rng,
        n,
        n,
        lambda k: cost[k],
        {i: (1.0, 1.0) for i in range(n)},
        lambda k: {i: {i: 1.0} for i in range(n)},
    )


def equations(rng):
    m, n = int(rng.integers(1, 5)), int(rng.integers(2, 8))
    A = np.round(rng.normal(size=(m, n)), 2)
    x = rng.random(n) * (rng.random(n) < 0.6)
    b = A @ x
    c = np.round(rng.random(n) - 0.2, 2)
    return _program(c, A, b - 1e-9, b + 1e-9, rng.choice([INF, 1.0], n))


def random_packing(rng):
    q, n, m = int(rng.integers(2, 8)), int(rng.integers(2, 6)), int(rng.integers(1, 4))
    rows = {i: (-INF, float(rng.random() * q)) for i in range(m)}

    def use(k):
        return {i: {j: float(rng.random()) for j in range(n) if rng.random() < 0.6} for i in range(m)}

    return _choices(rng, q, n, lambda k: -rng.random(n), rows, use, 1.0, "<=")


def chains(rng):
    n, far = int(rng.integers(2, 6)), 10.0 ** rng.integers(0, 7)
    A = np.array([[1.0 if j == i else -1.0 if j == i + 1 else 0.0 for j in range(n)] for i in range(n - 1)])
    A = np.vstack([A, np.eye(n)[-1]]) if rng.random() < 0.8 else A
    high = np.append(rng.integers(0, 4, n - 1), far)[: A.shape[0]].astype(float)
    return _program(
        rng.integers(-2, 2, n) + 1e-7 * rng.integers(0, 2, n),
        A,
        np.full(A.shape[0], -INF),
        high,
        far=10 * far,
    )


FAMILIES = {
    f.__name__: f
    for f in (
        boxes,
        ties,
        transports,
        flows,
        klee_minty,
        parallel_rows,
        cancelling,
        free_held_by_rows,
        rays,
        nothing_to_pay,
        totals_of_nothing,
        wide_and_narrow,
        big_m,
        whole_and_large,
        units,
        cancelling_costs,
        infeasible_by_little,
        bounded_or_infeasible,
        assignments,
        equations,
        random_packing,
        chains,
    )
}


def judge(model: Model, program: ContinualProgram, solution: Solution) -> str:
    """What is wrong with an answer; "" for nothing, "no answer" for a status that claims nothing."""
    status = str(solution.status)
    if solution.status is Status.INFEASIBLE and solution.ray is not None:
        y = np.array([solution.ray.y[id] for id in program.resource_ids])
        return "" if lagrangian(model, y, costs=False) > 0 else "infeasible by a ray that proves nothing"
    found = reference(model)
    optimum = found.objective if found.status == "optimal" else None
    if status not in ("optimal", "infeasible"):
        return "no answer" if solve_exactly(model)[0] != "unknown" else ""
    doubt = found.status != status
    if status == "optimal" and optimum is not None:
        doubt |= _wrong(solution, optimum) != "" or solution.bound > optimum
    if not doubt:
        return ""
    truth, value = solve_exactly(model)
    if (
        truth == "infeasible"
        and status == "optimal"
        and worst_row(model, _point(program, solution)) <= NEARLY
    ):
        return "rows that nobody can meet are met but for a rounding error"
    if truth != status:
        return f"{status} for {truth}"
    if truth != "optimal":
        return ""
    if Fraction(solution.bound) > value:
        return "bound above the optimum"
    return _wrong(solution, float(value))


def _point(program: ContinualProgram, solution: Solution) -> np.ndarray:
    return np.concatenate([solution.x[id] for id in program.request_ids])


def _wrong(solution: Solution, optimum: float) -> str:
    size = max(abs(optimum - solution.constant_cost), solution.gap_denominator)
    if abs(solution.objective - optimum) > 2 * TOLERANCE * size + 4 * solution.rounding + 1e-14 * abs(
        optimum
    ):
        return "objective is off"
    return ""


def edited(rng: np.random.Generator, plain: PlainProgram, program: ContinualProgram) -> None:
    """A bound moves, a request's costs change, a request leaves: the same in both."""
    ids = list(plain.resources)
    if ids:
        id = ids[int(rng.integers(len(ids)))]
        low, high = plain.resources[id]
        by = float(rng.choice([-1.0, 0.5, 2.0]))
        low, high = sorted((low + by if np.isfinite(low) else low, high + by if np.isfinite(high) else high))
        plain.resources[id] = (low, high)
        program.update_resources(id, upper=high, lower=low)
    requests = list(plain.requests)
    id = requests[int(rng.integers(len(requests)))]
    request = plain.requests[id]
    request.costs = [c * float(rng.choice([0.5, 1.0, 2.0])) for c in request.costs]
    program.update_request(id, costs=request.costs)
    if len(requests) > 2 and rng.random() < 0.5:
        gone = requests[int(rng.integers(len(requests)))]
        del plain.requests[gone]
        program.remove_request(gone)


def trial(family: str, seed: int) -> list[str]:
    """Faults in the answers of a cold round and of one after edits."""
    rng = np.random.default_rng([seed, *family.encode()])
    plain = FAMILIES[family](rng)
    program, maker, results = plain.build(), make_solver("copter"), []
    for _ in range(2):
        solution = maker.solve(program)
        results.append(judge(plain.model(), program, solution))
        fresh = make_solver("copter").solve(plain.build())
        known = ("optimal", "infeasible")
        if str(fresh.status) in known and str(solution.status) in known and fresh.status != solution.status:
            results.append(f"{solution.status} after edits, {fresh.status} built anew")
        edited(rng, plain, program)
    return results


if __name__ == "__main__":
    search(list(FAMILIES), trial)
