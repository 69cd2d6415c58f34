"""Small linear programs in families that are hard in one way each, and changed numbers for further rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csc_array

from copter.models.linear_program import LinearProgram

INF = np.inf


def made(c, A, low, high, lower=0.0, upper=INF, **more) -> LinearProgram:
    """Return a LinearProgram; bounds may be one number for all."""
    A = csc_array(np.atleast_2d(np.asarray(A, float)))
    m, n = A.shape
    sides = [np.broadcast_to(np.asarray(each, float), (m,)).copy() for each in (low, high)]
    box = [np.broadcast_to(np.asarray(each, float), (n,)).copy() for each in (lower, upper)]
    given = {"offset": 0.0, "integral": np.zeros(n, bool)} | more
    return LinearProgram(np.asarray(c, float), A, *sides, *box, **given)


def _shape(rng, big):
    if big:
        return int(rng.integers(15, 40)), int(rng.integers(20, 60))
    return int(rng.integers(1, 5)), int(rng.integers(2, 6))


def _matrix(rng, m, n):
    """Entries on a grid, so that sums of their products are exact."""
    return np.round(rng.normal(size=(m, n)) * 64) / 64 * (rng.random((m, n)) < (0.8 if n < 10 else 0.3))


def _around(rng, A, x):
    """Rows of all kinds that a point satisfies."""
    at = A @ x
    kind = rng.integers(0, 4, at.size)
    room = rng.integers(0, 3, at.size) / 2
    room[kind == 3] = 0.0
    return np.where(kind == 0, -INF, at - room), np.where(kind == 1, INF, at + room)


def bounded(rng, big=False):
    """Every column between bounds, rows around a point."""
    m, n = _shape(rng, big)
    A, x = _matrix(rng, m, n), rng.integers(0, 9, n) / 2.0
    box = x - rng.integers(0, 3, n), x + rng.integers(0, 4, n)
    return made(rng.normal(size=n), A, *_around(rng, A, x), *box)


def _priced(rng, free, big):
    """Costs around prices, so that an LP without some bounds has an optimum."""
    m, n = _shape(rng, big)
    A, x = _matrix(rng, m, n), rng.integers(-4, 5, n) / 2.0
    low, high = _around(rng, A, x)
    y = rng.integers(0, 5, m) / 4.0
    y = np.where(np.isinf(high), -y, np.where(np.isinf(low), y, y * rng.choice([-1, 1], m)))
    kind = np.full(n, 2) if free else rng.integers(0, 4, n)  # 0: from below, 1: from above, 2: free, 3: box
    z = rng.integers(0, 5, n) / 4.0
    z = np.where(kind == 2, 0.0, np.where(kind == 1, -z, z))
    lower = np.where((kind == 1) | (kind == 2), -INF, x - rng.integers(0, 2, n))
    upper = np.where((kind == 0) | (kind == 2), INF, x + rng.integers(0, 2, n))
    return made(z - A.T @ y, A, low, high, lower, upper)


def free(rng, big=False):
    """No column has bounds."""
    return _priced(rng, True, big)


def half_free(rng, big=False):
    """Columns with one bound, none or two."""
    return _priced(rng, False, big)


def whole_data(rng, big=False):
    """Small whole numbers everywhere: many ties, and some programs without an optimum."""
    m, n = _shape(rng, big)
    A = rng.integers(-3, 4, (m, n)) * (rng.random((m, n)) < (0.8 if n < 10 else 0.3))
    high = rng.integers(-1, 7, m)
    low = np.where(rng.random(m) < 0.3, high - rng.integers(0, 3, m), -INF)
    upper = np.where(rng.random(n) < 0.5, rng.integers(1, 6, n), INF)
    return made(rng.integers(-3, 5, n), A, low, high, 0, upper)


def infeasible(rng, big=False):
    """Rows whose combination with rational prices excludes every point; some columns are free."""
    m, n = _shape(rng, big)
    A, y = rng.integers(-3, 4, (m, n)).astype(float), rng.integers(1, 8, m) / float(rng.integers(1, 8))
    high = rng.integers(0, 5, m).astype(float)
    y = np.round(y * 16) / 16
    rows, sides = np.vstack((A, -(y @ A))), np.append(high, -(y @ high) - float(rng.integers(1, 4)))
    lower = np.where(rng.random(n) < 0.5, -INF, -5.0)
    return made(rng.integers(-2, 3, n), rows, -INF, sides, lower, INF)


def unbounded(rng, big=False):
    """A ray of whole numbers along parallel rows, as inequalities or equations."""
    m, n = _shape(rng, big)
    A, d = rng.integers(-3, 4, (m, n)).astype(float), rng.integers(0, 4, n).astype(float)
    d[0] = 1.0
    A[:, 0] -= A @ d
    A = np.vstack((A, 2.0 * A[0], -3.0 * A[0]))
    c = rng.integers(-3, 4, n).astype(float)
    c[0] -= c @ d + 1.0
    equal = rng.random() < 0.5
    return made(c, A, 0.0 if equal else -INF, 0.0 if equal else rng.integers(0, 4, m + 2))


def degenerate(rng, big=False):
    """Many rows through one vertex, some of them twice."""
    m, n = _shape(rng, big)
    x = rng.integers(0, 3, n).astype(float)
    A = rng.integers(-2, 4, (m + n, n)).astype(float)
    A = np.vstack((A, A[: m // 2 + 1], np.ones(n)))
    return made(-rng.integers(0, 3, n), A, -INF, A @ x, 0, 4)


def badly_scaled(rng, big=False):
    """Another unit for every row and every column, from 2^-12 to 2^12."""
    lp = half_free(rng, big)
    m, n = lp.A.shape
    r, s = 2.0 ** rng.integers(-12, 13, m), 2.0 ** rng.integers(-12, 13, n)
    A = r[:, None] * lp.A.toarray() * s
    return made(lp.c * s, A, lp.row_lower * r, lp.row_upper * r, lp.lower / s, lp.upper / s)


def tiny(rng, big=False):
    """Right sides and bounds of 6e-8 to 6e-5, and costs of a thousandth."""
    lp, unit = bounded(rng, big), 2.0 ** -int(rng.integers(14, 25))
    sides = (lp.row_lower * unit, lp.row_upper * unit, lp.lower * unit, lp.upper * unit)
    return made(lp.c * 1e-3, lp.A.toarray(), *sides)


def far_bounds(rng, big=False):
    """Bounds of 1e9 on columns that the rows hold."""
    m, n = _shape(rng, big)
    A, x = _matrix(rng, m, n), rng.integers(0, 9, n) / 2.0
    rows = np.vstack((A, np.eye(n)))
    low, high = _around(rng, A, x)
    far = rng.choice([1e6, 1e9], n)
    return made(rng.normal(size=n), rows, np.append(low, x - 1), np.append(high, x + 1), -far, far)


def no_costs(rng, big=False):
    """Any feasible point is optimal."""
    lp = half_free(rng, big)
    return replace(lp, c=np.zeros(lp.c.size))


def nearly_infeasible(rng, big=False):
    """Two opposite rows that leave, or lack, a thousandth or a ten-thousandth."""
    lp = bounded(rng, big)
    n = lp.c.size
    a = rng.integers(1, 4, n).astype(float)
    side = float(a @ (lp.lower + lp.upper) / 2)
    gap = float(rng.choice([1e-3, 1e-4])) * float(rng.choice([-1, 1])) * max(1.0, abs(side))
    A = np.vstack((lp.A.toarray() * 0.0, a, -a))
    low, high = np.append(lp.row_lower, [-INF, -INF]), np.append(lp.row_upper, [side, -side + gap])
    low[:-2], high[:-2] = -INF, INF
    return made(lp.c, A, low, high, lp.lower, lp.upper)


FAMILIES: dict[str, Callable[..., LinearProgram]] = {
    make.__name__: make
    for make in (
        bounded, free, half_free, whole_data, infeasible, unbounded, degenerate, badly_scaled, tiny,
        far_bounds, no_costs, nearly_infeasible,
    )
}  # fmt: skip
CHANGES = ("costs", "sides", "bounds", "entries", "all")


def changed(rng, lp: LinearProgram, what: str) -> dict:
    """Arguments of ``Model.update`` that change some numbers a little: arrays or mappings."""
    new = {}
    if what in ("costs", "all"):
        factor = np.where(rng.random(lp.c.size) < 0.5, 1.0, rng.integers(1, 7, lp.c.size) / 4)
        new["c"] = lp.c * factor
    if what in ("sides", "all"):
        at = int(rng.integers(lp.row_lower.size))
        step = abs(lp.row_upper[at]) / 8 if np.isfinite(lp.row_upper[at]) else 0.0
        new["row_upper"] = {at: lp.row_upper[at] + step}
    if what in ("bounds", "all"):
        j = int(rng.integers(lp.c.size))
        new["bounds"] = {j: (lp.lower[j], lp.upper[j] + abs(lp.upper[j]) / 4 if lp.upper[j] < INF else None)}
    if what in ("entries", "all") and lp.A.nnz:
        k = int(rng.integers(lp.A.nnz))
        column = int(np.searchsorted(lp.A.indptr, k, side="right")) - 1
        new["A"] = {(int(lp.A.indices[k]), column): float(lp.A.data[k]) * 1.25}
    return new
