"""Linear programs in exact arithmetic: a two-phase simplex on Fractions, and proofs checked in Fractions.

Slow and obvious, with Bland's rule, so that it ends; nothing here imports copter. For tiny programs only.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from support.numpy_twins import Model


def solve_exactly(model: Model) -> tuple[str, Fraction | None]:
    """("optimal", optimum), ("infeasible", None) or ("unbounded", None)."""
    c = [Fraction(float(v)) for v in model.c]
    n, rows = len(c), []  # (coefficients, "<=" or "==", right side)
    dense = model.A.toarray()
    for i in range(dense.shape[0]):
        a = [Fraction(float(v)) for v in dense[i]]
        low, high = model.row_lower[i], model.row_upper[i]
        if low == high:
            rows.append((a, "==", Fraction(float(low))))
            continue
        if np.isfinite(high):
            rows.append((a, "<=", Fraction(float(high))))
        if np.isfinite(low):
            rows.append(([-v for v in a], "<=", -Fraction(float(low))))
    for block, kind, total in model.blocks():
        if kind:
            a = [Fraction(int(block.start <= j < block.stop)) for j in range(n)]
            rows.append((a, kind, Fraction(float(total))))
    for j, bound in enumerate(model.upper):
        if np.isfinite(bound):
            rows.append(([Fraction(int(j == k)) for k in range(n)], "<=", Fraction(float(bound))))
    return _simplex(c, rows)


def exact_optimum(c, A, row_lower, row_upper, lower, upper) -> tuple[str, Fraction | None]:
    """Status and optimum of an LP with any bounds; A (m, n) is dense, and numbers may be Fractions."""
    columns, cost, offset = [], [], Fraction(0)  # x_j = shift_j + sum of sign * column
    shift, spans = [Fraction(0)] * len(c), []
    for j, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if low > high:
            return "infeasible", None
        if abs(low) < np.inf:
            columns.append((j, 1))
            shift[j] = Fraction(low)
            spans.append(Fraction(high) - shift[j] if high < np.inf else None)
        elif high < np.inf:
            columns.append((j, -1))
            shift[j] = Fraction(high)
            spans.append(None)
        else:
            columns += [(j, 1), (j, -1)]
            spans += [None, None]
        offset += Fraction(c[j]) * shift[j]
    cost = [sign * Fraction(c[j]) for j, sign in columns]
    rows = []
    for a, low, high in zip(A, row_lower, row_upper, strict=True):
        at = [Fraction(value) for value in a]
        used = sum(value * own for value, own in zip(at, shift, strict=True))
        line = [sign * at[j] for j, sign in columns]
        if low == high:
            rows.append((line, "==", Fraction(high) - used))
            continue
        if high < np.inf:
            rows.append((line, "<=", Fraction(high) - used))
        if low > -np.inf:
            rows.append(([-value for value in line], "<=", used - Fraction(low)))
    for k, span in enumerate(spans):
        if span is not None:
            rows.append(([Fraction(int(k == other)) for other in range(len(columns))], "<=", span))
    status, value = _simplex(cost, rows)
    return status, None if value is None else value + offset


def of_lp(lp) -> tuple:
    """Arguments of :func:`exact_optimum` for the arrays of a LinearProgram, whose integrality is ignored."""
    return lp.c, lp.A.toarray(), lp.row_lower, lp.row_upper, lp.lower, lp.upper


def ray_holds(lp, ray) -> bool:
    """Whether a ray proves in Fractions that an LP has no feasible point, or falls along a direction."""
    vector = [Fraction(value) for value in ray.vector.tolist()]
    A = [[Fraction(value) for value in row] for row in lp.A.toarray().tolist()]
    if ray.kind == "unbounded":
        along = [sum(a * d for a, d in zip(row, vector, strict=True)) for row in A]
        ends = [*zip(along, lp.row_lower, lp.row_upper, strict=True)]
        ends += zip(vector, lp.lower, lp.upper, strict=True)
        cost = sum(Fraction(c) * d for c, d in zip(lp.c.tolist(), vector, strict=True))
        stays = all((d <= 0 or high == np.inf) and (d >= 0 or low == -np.inf) for d, low, high in ends)
        return cost < 0 and stays
    total = Fraction(0)
    for y, low, high in zip(vector, lp.row_lower, lp.row_upper, strict=True):
        if y:
            total -= y * Fraction(float(high if y > 0 else low))
    for j, (low, high) in enumerate(zip(lp.lower, lp.upper, strict=True)):
        z = sum(y * row[j] for y, row in zip(vector, A, strict=True))
        if z:
            end = low if z > 0 else high
            if np.isinf(end):
                return False
            total += z * Fraction(float(end))
    return total > 0


def _simplex(c, rows):
    slacks = sum(kind == "<=" for _, kind, _ in rows)
    width = len(c) + slacks
    table, basis, slack = [], [], len(c)
    for a, kind, b in rows:
        line = a + [Fraction(0)] * slacks
        if kind == "<=":
            line[slack] = Fraction(1)
            slack += 1
        if b < 0:
            line, b = [-v for v in line], -b
        basic = slack - 1 if kind == "<=" and line[slack - 1] == 1 else None
        table.append((line, b))
        basis.append(basic)
    needed = [i for i, basic in enumerate(basis) if basic is None]
    T = []
    for i, (line, b) in enumerate(table):
        extra = [Fraction(int(i == k)) for k in needed]
        T.append(line + extra + [b])
        if basis[i] is None:
            basis[i] = width + needed.index(i)
    phase1 = [Fraction(0)] * width + [Fraction(1)] * len(needed)
    if needed:
        value = _run(T, basis, phase1, width + len(needed))
        if value > 0:
            return "infeasible", None
        for i, basic in enumerate(basis):  # artificial ones that stay at 0
            if basic >= width:
                j = next((j for j in range(width) if T[i][j] != 0), None)
                if j is not None:
                    _pivot(T, basis, i, j)
    cost = c + [Fraction(0)] * (slacks + len(needed))
    value = _run(T, basis, cost, width)
    return ("unbounded", None) if value is None else ("optimal", value)


def _run(T, basis, cost, columns):
    """Value of the optimum over the first columns; None if there is none."""
    while True:
        price = [cost[b] for b in basis]
        enter = None
        for j in range(columns):
            if j in basis:
                continue
            reduced = cost[j] - sum(p * line[j] for p, line in zip(price, T, strict=True) if p and line[j])
            if reduced < 0:
                enter = j
                break
        if enter is None:
            return sum((p * line[-1] for p, line in zip(price, T, strict=True)), Fraction(0))
        ratios = [(line[-1] / line[enter], basis[i], i) for i, line in enumerate(T) if line[enter] > 0]
        if not ratios:
            return None
        _pivot(T, basis, min(ratios)[2], enter)


def _pivot(T, basis, i, j):
    unit = T[i][j]
    T[i] = [v / unit for v in T[i]]
    for k in range(len(T)):
        if k != i and T[k][j] != 0:
            factor = T[k][j]
            T[k] = [a - factor * b if b else a for a, b in zip(T[k], T[i], strict=True)]
    basis[i] = j
