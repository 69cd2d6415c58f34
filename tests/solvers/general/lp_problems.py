"""Reference LPs with known answers, after the test problems of qpsolvers: each is difficult in one way.

Optimal values are closed forms or exact fractions, never taken from a solver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

INF = np.inf


@dataclass(frozen=True)
class Problem:
    """Arguments of linprog, scipy's status code, and the optimal value where there is one."""

    name: str
    given: dict
    status: int = 0
    value: float = np.nan
    scale: float = field(default=1.0)
    """Size that an error of the value is relative to, where that is not the value's own."""


def _klee_minty(n: int) -> Problem:
    """max sum 2^(n-j) x_j, 2 sum_{j<i} 2^(i-j) x_j + x_i <= 5^i: 2^n vertices on simplex' way to 5^n."""
    rows = [[2.0 ** (i - j + 1) if j < i else float(j == i) for j in range(n)] for i in range(n)]
    cost = [-(2.0 ** (n - 1 - j)) for j in range(n)]
    return Problem(
        f"Klee-Minty {n}", {"c": cost, "A_ub": rows, "b_ub": [5.0 ** (i + 1) for i in range(n)]}, 0, -(5.0**n)
    )


def _transportation() -> Problem:
    """Two plants, three markets (Dantzig 1963, sections 3-3): 153.675 with freight 90 a thousand miles."""
    supply, demand = [350.0, 600.0], [325.0, 300.0, 275.0]
    miles = [[2.5, 1.7, 1.8], [2.5, 1.8, 1.4]]
    rows = np.zeros((5, 6))
    for i in range(2):
        for j in range(3):
            rows[i, 3 * i + j], rows[2 + j, 3 * i + j] = 1.0, -1.0
    cost = (0.09 * np.array(miles)).ravel()
    return Problem(
        "transportation", {"c": cost, "A_ub": rows, "b_ub": supply + [-d for d in demand]}, 0, 153.675
    )


def _beale() -> Problem:
    """Beale (1955): Dantzig's rule cycles; optimum -1/20 at (1/25, 0, 1, 0)."""
    rows = [[0.25, -60.0, -1 / 25, 9.0], [0.5, -90.0, -1 / 50, 3.0], [0.0, 0.0, 1.0, 0.0]]
    given = {"c": [-0.75, 150.0, -1 / 50, 6.0], "A_ub": rows, "b_ub": [0.0, 0.0, 1.0]}
    return Problem("Beale's cycle", given, 0, -1 / 20)


def _hilbert(n: int) -> Problem:
    """Hilbert's matrix with b = H 1 and costs H 1: x = 1 is feasible, prices 1 prove it optimal."""
    hilbert = [[1 / (i + j + 1) for j in range(n)] for i in range(n)]
    total = [sum(row) for row in hilbert]
    exact = sum(Fraction(1, i + j + 1) for i in range(n) for j in range(n))
    return Problem("Hilbert", {"c": total, "A_eq": hilbert, "b_eq": total}, 0, float(exact))


def _units(unit: float) -> Problem:
    """min x + y, x + y >= 3, x - y = 1, all amounts in ``unit`` and costs in another: 3 units."""
    given = {"c": [1e3, 1e3], "A_ub": [[-1.0, -1.0]], "b_ub": [-3.0 * unit], "A_eq": [[1.0, -1.0]]}
    return Problem(f"units of {unit:g}", given | {"b_eq": [unit]}, 0, 3e3 * unit, 3e3 * unit)


_FAR = {"c": [1.0, -1.0], "A_eq": [[1.0, 1.0]], "b_eq": [1.0], "A_ub": [[0.0, 1.0]], "b_ub": [7.0]}
_TURNED = {"A_eq": [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]], "b_eq": [10.0, 20.0], "bounds": (None, None)}
PROBLEMS = [
    Problem("no rows", {"c": [1.0, -2.0], "bounds": [(-1, 1), (0, 3)]}, 0, -7.0),
    Problem("no costs", {"c": [0.0, 0.0], "A_eq": [[1.0, 1.0]], "b_eq": [1.0]}, 0, 0.0),
    Problem("one point", {"c": [3.0], "A_ub": [[1.0], [-1.0]], "b_ub": [2.0, -2.0]}, 0, 6.0),
    Problem("equations only", {"c": [1.0, 2.0, 3.0]} | _TURNED, 3),
    Problem("rows without entries", {"c": [1.0], "A_ub": [[0.0], [0.0]], "b_ub": [-1.0, 3.0]}, 2),
    Problem("bounds of 1e9", _FAR | {"bounds": (-1e9, 1e9)}, 0, -13.0),
    Problem("bounds of 1e16", _FAR | {"bounds": (-1e16, 1e16)}, 0, -13.0),
    Problem("bounds of 1e20", {"c": [1.0], "bounds": (-1e20, 1e20)}, 3),
    Problem("infeasible and dual infeasible",
            {"c": [-1.0, -1.0], "A_ub": [[1.0, -1.0], [-1.0, 1.0]], "b_ub": [-1.0, -1.0]}, 2),
    Problem("infeasible by bounds",
            {"c": [1.0, 1.0], "A_eq": [[1.0, 1.0]], "b_eq": [5.0], "bounds": (0, 2)}, 2),
    Problem("unbounded", {"c": [-1.0, -1.0], "A_ub": [[1.0, -1.0]], "b_ub": [1.0]}, 3),
    Problem("unbounded without rows", {"c": [0.0, -1.0]}, 3),
    _beale(),
    _klee_minty(3),
    _klee_minty(8),
    _transportation(),
    _hilbert(6),
    _units(1e-6),
    _units(1e9),
]  # fmt: skip
