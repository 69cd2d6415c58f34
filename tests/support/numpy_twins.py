"""Plain twins of copter's subtle parts: slow, obvious, and written from the mathematics alone.

Bounds, rays and what rows are over are exact rationals, and forgive nothing.

Nothing here imports copter.  A program is a :class:`Model`: flat columns, block after block, one row a
resource.  Sum rows and boxes are kept apart from the rows, as the block minima need them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csc_array, vstack

INF = np.inf


class Model(NamedTuple):
    """minimise c'x, row_lower <= A x <= row_upper, 0 <= x <= upper, sum of each block by its total."""

    c: np.ndarray
    upper: np.ndarray
    A: csc_array
    row_lower: np.ndarray
    row_upper: np.ndarray
    first: np.ndarray  # (blocks + 1,)
    relation: list[str]  # "", "<=" or "==" for each block
    total: np.ndarray
    terms: Sequence = ()  # a convex term or None for each block

    def blocks(self):
        for b, kind in enumerate(self.relation):
            yield slice(int(self.first[b]), int(self.first[b + 1])), kind, float(self.total[b])

    def sum_rows(self):
        """Sum rows as (matrix, lower, upper)."""
        blocks = [b for b, kind in enumerate(self.relation) if kind]
        columns = [np.arange(self.first[b], self.first[b + 1]) for b in blocks]
        rows = np.repeat(np.arange(len(blocks)), [own.size for own in columns])
        flat = np.concatenate([np.empty(0, np.int64), *columns])
        matrix = coo_array((np.ones(flat.size), (rows, flat)), shape=(len(blocks), self.c.size))
        lower = np.array([self.total[b] if self.relation[b] == "==" else -INF for b in blocks], float)
        return csc_array(matrix), lower, self.total[blocks]


class Reference(NamedTuple):
    """What HiGHS says: "optimal", "infeasible" or "unbounded"; an optimum, the norm of all multipliers."""

    status: str
    objective: float
    x: np.ndarray
    sensitivity: float


NOTHING = np.zeros(0)


def reference(model: Model, *, integral: bool = False) -> Reference:
    """Cold HiGHS solve; "infeasible or unbounded" is settled by a second solve without costs."""
    sums, low, high = model.sum_rows()
    matrix = vstack([model.A, sums]).tocsr()
    lower, upper = np.concatenate((model.row_lower, low)), np.concatenate((model.row_upper, high))
    if not model.c.size:
        met = bool(((lower <= 0) & (upper >= 0)).all())
        return Reference("optimal" if met else "infeasible", 0.0, NOTHING, 0.0)
    below, above = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
    result = linprog(
        model.c,
        A_ub=vstack([matrix[below], -matrix[above]]),
        b_ub=np.concatenate((upper[below], -lower[above])),
        bounds=np.column_stack((np.zeros(model.c.size), model.upper)),
        integrality=np.ones(model.c.size) if integral else None,
    )
    if result.status == 0:
        parts = [] if integral else [result[k].marginals for k in ("ineqlin", "lower", "upper")]
        sensitivity = float(np.linalg.norm(np.concatenate([NOTHING, *parts])))
        return Reference("optimal", float(result.fun), result.x, sensitivity)
    if result.status == 2:
        return Reference("infeasible", INF, NOTHING, 0.0)
    if result.status == 1 or "unbounded" not in result.message.lower():
        return Reference("unknown", np.nan, NOTHING, 0.0)
    assert model.c.any(), result.message  # without costs it is feasible or not
    feasible = reference(model._replace(c=np.zeros(model.c.size))).status == "optimal"
    return Reference("unbounded" if feasible else "infeasible", -INF if feasible else INF, NOTHING, 0.0)


def block_minimum(p, upper, relation: str, total: float):
    """min p'x over 0 <= x <= upper and the sum row, in the arithmetic of p; -inf if nothing bounds it."""
    if not relation:
        if any(pj < 0 and uj == INF for pj, uj in zip(p, upper, strict=True)):
            return -INF
        return sum(pj * number(uj, pj) for pj, uj in zip(p, upper, strict=True) if pj < 0)
    left, value = number(total, *p), 0
    for j in sorted(range(len(p)), key=lambda j: p[j]):
        if left <= 0 or (relation == "<=" and p[j] >= 0):
            break
        take = left if upper[j] == INF else min(left, number(upper[j], p[j]))
        value += p[j] * take
        left -= take
    return INF if relation == "==" and left > 0 else value


def number(value: float, *like):
    """A number in the arithmetic of others."""
    return Fraction(float(value)) if like and isinstance(like[0], Fraction) else value


def exact(values) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def lagrangian(model: Model, y: np.ndarray, *, costs: bool = True):
    """The Lagrangian bound at prices y, whose wrong signs count as 0, as a Fraction, or infinite."""
    y = signed(model, y)
    prices, A = exact(y), model.A.tocsc()
    p = exact(model.c) if costs else [Fraction(0)] * model.c.size
    for j in range(A.shape[1]):
        for k in range(A.indptr[j], A.indptr[j + 1]):
            p[j] += Fraction(float(A.data[k])) * prices[A.indices[k]]
    value = Fraction(0)
    for yi, price, low, high in zip(y, prices, model.row_lower, model.row_upper, strict=True):
        if yi:
            value -= price * Fraction(float(high if yi > 0 else low))
    parts = [
        block_minimum(p[block], model.upper[block], kind, total) for block, kind, total in model.blocks()
    ]
    if INF in parts:
        return INF
    return -INF if -INF in parts else value + sum(parts)


def signed(model: Model, y: np.ndarray) -> np.ndarray:
    """Prices without those of bounds that are infinite."""
    wrong = ((y > 0) & np.isinf(model.row_upper)) | ((y < 0) & np.isinf(model.row_lower))
    return np.where(wrong, 0.0, y)


class Check(NamedTuple):
    """A certificate, recomputed."""

    objective: float
    bound: float  # the exact Lagrangian bound, rounded once
    primal: float
    rounding: float  # of the bound, by the size of what it sums


def certificate(model: Model, x: np.ndarray, y: np.ndarray) -> Check:
    """Objective, bound and absolute residuals of x at prices y; those of the wrong sign count as 0."""
    y = signed(model, y)
    activity = model.A @ x
    misses = [np.maximum(0, activity - model.row_upper), np.maximum(0, model.row_lower - activity)]
    misses += [np.maximum(0, -x), np.maximum(0, x - model.upper)]
    for block, kind, total in model.blocks():
        over = x[block].sum() - total
        misses.append(np.array([max(over, 0.0) if kind == "<=" else over if kind == "==" else 0.0]))
    sides = np.nan_to_num(np.abs([model.row_lower, model.row_upper]), posinf=0.0).max(axis=0)
    room = np.minimum(model.upper, np.inf)
    for block, kind, total in model.blocks():
        room[block] = np.minimum(room[block], total if kind else INF)
    room = np.where(np.isfinite(room), room, abs(x))
    return Check(
        float(model.c @ x),
        float(lagrangian(model, y)),
        float(np.linalg.norm(np.concatenate(misses))),
        1e-13 * (abs(y) @ sides + (abs(model.c) + abs(model.A.T) @ abs(y)) @ np.maximum(room, abs(x))),
    )


def worst_row(model: Model, x: np.ndarray) -> float:
    """The largest excess of a row, sum row or box in its own scale, the excess exactly.

    The scale of a row is its bound, or the least that a column which uses it can use of it, if that is more;
    without either, what flows through it.  A row may be off by the rounding error of its sum: 16 roundings.
    """
    sums, low, high = model.sum_rows()
    matrix = vstack([model.A, sums]).tocsr()
    lower, upper = np.concatenate((model.row_lower, low)), np.concatenate((model.row_upper, high))
    room = model.upper.copy()
    for block, kind, total in model.blocks():
        room[block] = np.minimum(room[block], total if kind else INF)
    worst = 0.0
    for i in range(matrix.shape[0]):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        used = list(zip(matrix.data[part], x[matrix.indices[part]], room[matrix.indices[part]], strict=True))
        activity = sum((Fraction(float(a)) * Fraction(float(xj)) for a, xj, _ in used), Fraction(0))
        weight = math.fsum(abs(a * xj) for a, xj, _ in used)
        step = min(
            (abs(a) * most for a, xj, most in used if a and most < INF and abs(xj) > 1e-9 * most), default=0
        )
        for bound, sign in ((upper[i], 1), (lower[i], -1)):
            if np.isfinite(bound):
                over = float(sign * (activity - Fraction(float(bound)))) - 2.0**-49 * (weight + abs(bound))
                if over > 0:
                    worst = max(worst, over / (max(abs(bound), step) or weight))
    for xj, bound in zip(x, model.upper, strict=True):
        if xj < 0 or xj > bound:
            worst = max(worst, 1.0 if xj < 0 else (xj - bound) / xj)
    return worst


def farkas_value(model: Model, y: np.ndarray) -> float:
    """Lower bound of 0'x over all feasible x that the prices prove, exactly: > 0 means there are none."""
    return float(lagrangian(model, y, costs=False))


def verify(solution, program, model: Model, tolerance: float) -> str:
    """Assert that a solution is right, by HiGHS and by the twins; returns the status."""
    truth = reference(model)
    status = str(solution.status)
    context = f"{status} ({solution.reason}), HiGHS {truth.status} {truth.objective}, gap {solution.gap}"
    assert status == truth.status, context
    if status == "infeasible":
        assert farkas_value(model, np.array([solution.ray.y[id] for id in program.resource_ids])) > 0
    else:
        x = np.concatenate([solution.x[id] for id in program.request_ids] or [NOTHING])
        y = np.array([solution.price[id] for id in program.resource_ids], np.float64)
        check = certificate(model, x, y)
        check_reported(solution, check)
        assert worst_row(model, x) <= tolerance, context
        assert solution.bound <= truth.objective + 1e-9 * (1.0 + abs(truth.objective)), context
        size = max(abs(solution.objective), abs(solution.bound), solution.gap_denominator)
        assert abs(solution.objective - solution.bound) <= 1.001 * tolerance * size + solution.rounding, (
            context
        )
        assert check.objective >= truth.objective - truth.sensitivity * check.primal - 1e-8 * (
            1.0 + abs(truth.objective)
        ), context
    return status


def check_reported(solution, check: Check) -> None:
    """Assert that a solution reports what the twin finds."""
    size = 1e-9 * (1.0 + abs(check.objective))
    for reported, found in (
        (solution.objective, check.objective),
        (solution.absolute.primal, check.primal),
    ):
        assert abs(reported - found) <= size + 1e-9 * abs(found)
    assert solution.bound <= check.bound or solution.bound <= solution.objective
    assert solution.bound >= check.bound - size - check.rounding


def project(v: np.ndarray, upper: np.ndarray, relation: str, total: float) -> np.ndarray:
    """Projection onto {0 <= x <= upper, sum row}: bisection on the multiplier of the sum."""
    x = np.clip(v, 0.0, upper)
    if not relation or (relation == "<=" and x.sum() <= total):
        return x
    low, high = v.min() - total - 1.0, v.max() + 1.0
    finite = upper[np.isfinite(upper)]
    low -= finite.max(initial=0.0)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.clip(v - middle, 0.0, upper).sum() > total:
            low = middle
        else:
            high = middle
    return np.clip(v - high, 0.0, upper)
