"""Linear programs in exact arithmetic: a two-phase simplex on Fractions, for tiny programs only.

Slow and obvious, with Bland's rule, so that it ends; nothing here imports copter.
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
