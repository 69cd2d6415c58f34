"""Plain numpy twins of copter's subtle parts: slow, obvious, and written from the mathematics alone.

Nothing here imports copter.  A program is a :class:`Model`: flat columns, block after block, one row a
resource.  Sum rows and boxes are kept apart from the rows, as the block minima need them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array, vstack

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

    def blocks(self):
        for b, kind in enumerate(self.relation):
            yield slice(int(self.first[b]), int(self.first[b + 1])), kind, float(self.total[b])

    def sum_rows(self):
        """Sum rows as (matrix, lower, upper)."""
        rows = [b for b, kind in enumerate(self.relation) if kind]
        dense = np.zeros((len(rows), self.c.size))
        for i, b in enumerate(rows):
            dense[i, self.first[b] : self.first[b + 1]] = 1.0
        lower = np.array([self.total[b] if self.relation[b] == "==" else -INF for b in rows])
        return csc_array(dense), lower, self.total[rows]


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


def block_minimum(p: np.ndarray, upper: np.ndarray, relation: str, total: float) -> tuple[float, float]:
    """(min p'x over 0 <= x <= upper and the sum row, norm of the p < 0 that nothing bounds)."""
    if not relation:
        bad = (p < 0) & np.isinf(upper)
        return float(sum(pj * uj for pj, uj in zip(p, upper, strict=True) if pj < 0 and uj < INF)), float(
            np.linalg.norm(p[bad])
        )
    left, value = total, 0.0
    for j in np.argsort(p, kind="stable"):
        if relation == "<=" and p[j] >= 0:
            break
        take = min(left, upper[j])
        value += p[j] * take if take else 0.0
        left -= take
    if relation == "==" and left > 1e-9 * total:
        return INF, 0.0
    return value, 0.0


class Check(NamedTuple):
    """A certificate, recomputed."""

    objective: float
    bound: float
    primal: float
    dual: float
    rounding: float  # of the bound, by the size of what it sums


def certificate(model: Model, x: np.ndarray, y: np.ndarray) -> Check:
    """Objective, bound and absolute residuals of x at prices y; those of the wrong sign count as 0."""
    wrong = ((y > 0) & np.isinf(model.row_upper)) | ((y < 0) & np.isinf(model.row_lower))
    signed = np.where(wrong, 0.0, y)
    bound, dual = row_term(model, signed), []
    p = model.c + model.A.T @ signed
    for block, kind, total in model.blocks():
        value, violation = block_minimum(p[block], model.upper[block], kind, total)
        bound += value
        dual.append(violation)
    activity = model.A @ x
    misses = [np.maximum(0, activity - model.row_upper), np.maximum(0, model.row_lower - activity)]
    misses += [np.maximum(0, -x), np.maximum(0, x - model.upper)]
    for block, kind, total in model.blocks():
        over = x[block].sum() - total
        misses.append(np.array([max(over, 0.0) if kind == "<=" else over if kind == "==" else 0.0]))
    primal, dual_norm = float(np.linalg.norm(np.concatenate(misses))), float(np.linalg.norm(dual))
    sides = np.nan_to_num(np.abs([model.row_lower, model.row_upper]), posinf=0.0).max(axis=0)
    return Check(
        float(model.c @ x),
        bound,
        primal,
        dual_norm,
        1e-13 * (abs(signed) @ sides + (abs(model.A.T) @ abs(signed)) @ abs(x)),
    )


def worst_row(model: Model, x: np.ndarray) -> float:
    """The largest excess of a row, sum row or box in its own scale, max(|bound|, sum |a_ij x_j|), exactly.

    What is less than 1e-12 of what the columns of a row can use of it, by their bounds and totals, is noise.
    """
    sums, low, high = model.sum_rows()
    matrix = vstack([model.A, sums]).tocsr()
    lower, upper = np.concatenate((model.row_lower, low)), np.concatenate((model.row_upper, high))
    room = model.upper.copy()
    for block, kind, total in model.blocks():
        room[block] = np.minimum(room[block], total if kind else INF)
    room = np.where(np.isfinite(room), room, max(1.0, abs(x).max(initial=0.0)))
    worst = 0.0
    for i in range(matrix.shape[0]):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        terms = matrix.data[part] * x[matrix.indices[part]]
        activity, weight = math.fsum(terms), math.fsum(abs(terms))
        unit = max(abs(matrix.data[part]) * room[matrix.indices[part]], default=0.0)
        for bound, over in ((upper[i], activity - upper[i]), (lower[i], lower[i] - activity)):
            if over > 0 and max(over, abs(bound)) > 1e-12 * unit:
                worst = max(worst, over / max(abs(bound), weight))
    for xj, bound in zip(x, model.upper, strict=True):
        if xj < 0 or xj > bound:
            worst = max(worst, 1.0 if xj < 0 else (xj - bound) / xj)
    return worst


def row_term(model: Model, y: np.ndarray) -> float:
    """-(u'y+ + l'y-), with 0 * inf = 0."""
    paid = 0.0
    for yi, low, high in zip(y, model.row_lower, model.row_upper, strict=True):
        if yi:
            paid += yi * (high if yi > 0 else low)
    return -paid


def farkas_value(model: Model, y: np.ndarray) -> float:
    """Lower bound of 0'x over all feasible x that the prices prove: > 0 means there are none."""
    p = model.A.T @ y
    value = row_term(model, y)
    for block, kind, total in model.blocks():
        low, violation = block_minimum(p[block], model.upper[block], kind, total)
        if violation > 1e-7 * max(1.0, abs(value)):  # an unbounded column: the proof is void
            return -INF
        value += low
    return value


def is_primal_ray(model: Model, d: np.ndarray, tolerance: float = 1e-6) -> bool:
    """Whether going along d stays feasible for ever and lowers the cost for ever."""
    drop = -float(model.c @ d)
    held = np.isfinite(model.upper)
    for block, kind, _ in model.blocks():
        held[block] |= bool(kind)
    activity = model.A @ d
    above, below = activity[np.isfinite(model.row_upper)], activity[np.isfinite(model.row_lower)]
    wrong = np.concatenate((above, -below, -d, abs(d[held])))
    return drop > 0 and wrong.max(initial=0.0) <= tolerance * drop


def verify(solution, program, model: Model, tolerance: float, *, either: bool = False) -> str:
    """Assert that a solution is right, by HiGHS and by the twins; returns the status.

    ``either``: an infeasible program that has an unbounded ray too may be called unbounded.
    """
    truth = reference(model)
    status = str(solution.status)
    context = f"{status} ({solution.reason}), HiGHS {truth.status} {truth.objective}, gap {solution.gap}"
    if truth.status == "infeasible" and either and status == "unbounded":
        status, truth = "unbounded", truth._replace(status="unbounded")
    assert status == truth.status, context
    if status == "infeasible":
        assert farkas_value(model, np.array([solution.ray.y[id] for id in program.resource_ids])) > 0
    elif status == "unbounded":
        assert is_primal_ray(model, np.concatenate([solution.ray.x[id] for id in program.request_ids]))
    else:
        x = np.concatenate([solution.x[id] for id in program.request_ids] or [NOTHING])
        y = np.array([solution.price[id] for id in program.resource_ids], np.float64)
        check = certificate(model, x, y)
        check_reported(solution, check)
        assert worst_row(model, x) <= tolerance, context
        assert abs(check.objective - check.bound) <= tolerance * float(abs(model.c) @ abs(x)) + 1e-9, context
        rounding = 1e-8 * (1.0 + abs(truth.objective)) + check.rounding
        assert check.bound <= truth.objective + check.dual * np.linalg.norm(truth.x) + rounding, context
        assert check.objective >= truth.objective - truth.sensitivity * check.primal - rounding, context
    return status


def check_reported(solution, check: Check) -> None:
    """Assert that a solution reports what the twin finds."""
    size = 1e-9 * (1.0 + abs(check.objective))
    for reported, found in (
        (solution.objective, check.objective),
        (solution.absolute.primal, check.primal),
        (solution.absolute.dual, check.dual),
    ):
        assert abs(reported - found) <= size + 1e-9 * abs(found)
    assert solution.bound == check.bound or abs(solution.bound - check.bound) <= size + check.rounding


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
