"""HiGHS on a general LP: from nothing, or from where another solver came.

A point and prices that are nearly optimal tell which columns and rows are basic: those that are further from
their bounds than their reduced cost is from 0, both in their own scale.  Where optima tie or the point is not
there yet that is no basis; HiGHS evens it out, and primal simplex goes on from it.

From nothing it is dual simplex for small programs and interior point with crossover for larger ones; either
ends at a vertex.  Measured on what presolve leaves, interior point against simplex: QAP12 2.7 s, 67 s;
PILOT87 3.1 s, 10 s; QAP8 0.08 s, 0.5 s; but STOCFOR3 0.8 s, 0.2 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.models.general_lp import GeneralLP
from copter.models.highs import iterations_of, load, point_of, ray_of, run_until, status_of
from copter.models.reductions import ReducedPoint
from copter.solution import Status

_LARGE = 4e6
"""Rows times nonzeros from which on a program is large."""
_NEAR = 1e-7
LEAST = 1e-10
"""HiGHS takes no smaller tolerance."""


@dataclass(frozen=True)
class HighsRun:
    """Result of a run of HiGHS: ``found`` where it has an answer, ``ray`` where it has one instead.

    ``iterations`` include those of ``crossover``. ``ray`` has prices (m,) of an infeasible LP in copter's
    sign, or the direction (n,) of an unbounded one.
    """

    status: Status
    reason: str
    found: ReducedPoint | None
    ray: NDArray[np.float64] | None
    iterations: int
    crossover: int = 0


def optimize(
    lp: GeneralLP,
    *,
    start: ReducedPoint | None = None,
    by_simplex: bool = False,
    seconds: float = np.inf,
    tolerance: float = 1e-7,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> HighsRun:
    """HighsRun HiGHS without presolve, from the basis of a point, or from one guessed from the point.

    Only simplex gives rays; ``by_simplex`` asks for it at any size. The feasibility tolerance is at most
    1e-7, and HiGHS' own ``options`` override the ones set here.
    """
    clock = Clock(seconds)
    feasibility = float(np.clip(tolerance, LEAST, 1e-7))
    interior = start is None and terms(lp) >= _LARGE
    settings: dict[str, Any] = {
        "solver": "ipm" if interior else "simplex",
        "simplex_strategy": _strategy(start),
        "primal_feasibility_tolerance": feasibility,
        "dual_feasibility_tolerance": feasibility,
    }
    settings |= {"presolve": "off", **(options or {})}
    if by_simplex or not lp.A.shape[0]:
        settings["solver"] = "simplex"
    highs = load(lp, threads, **settings)
    if start is not None:
        highs.setBasis(start.basis or _likely_basis(lp, start.x, start.y))
    try:
        run_until(highs, clock)
    except Interrupted:  # and HiGHS is lost, with all that it found
        return HighsRun(Status.DEADLINE, clock.why(), None, None, 0)
    return _read(highs)


def _read(highs: highspy.Highs) -> HighsRun:
    """Answer, or ray, of the last run, and its iterations."""
    (status, reason), found = status_of(highs), None
    if status not in (Status.INFEASIBLE, Status.UNBOUNDED):
        (x, y), basis = point_of(highs), highs.getBasis()
        if x is not None and y is not None:
            found = ReducedPoint(x, y, basis if basis.valid else None)
    own, crossover = iterations_of(highs)
    return HighsRun(status, reason, found, ray_of(highs, status), own + crossover, crossover)


def _strategy(start: ReducedPoint | None) -> int:
    """HiGHS' number: dual from nothing, primal from a guessed basis, its choice from a true one."""
    if start is None:
        return 1
    return 4 if start.basis is None else 0  # primal if that basis is still primal feasible, or else dual


def terms(lp: GeneralLP) -> float:
    """Rows times nonzeros, which HiGHS' time goes by, in order of magnitude."""
    return float(lp.A.shape[0]) * lp.A.nnz


def _likely_basis(lp: GeneralLP, x: NDArray[np.float64], y: NDArray[np.float64]) -> highspy.HighsBasis:
    """Basis near a point and prices in copter's sign: it may have too few or too many basic entries."""
    size = abs(lp.A)
    nonzero = x[x != 0]
    unit = float(np.sqrt(np.mean(nonzero**2))) if nonzero.size else 1.0
    cost = abs(lp.c) + size.T @ abs(y)
    reduced = np.divide(abs(lp.c + lp.A.T @ y), cost, out=np.zeros(x.size), where=cost > 0)
    price = abs(y) / max(float(abs(y).max(initial=0.0)), np.finfo(float).tiny)
    columns = _kinds(x, lp.lower, lp.upper, np.full(x.size, unit), reduced)
    rows = _kinds(lp.A @ x, lp.row_lower, lp.row_upper, size @ abs(x), price)
    kinds = [highspy.HighsBasisStatus(kind) for kind in range(4)]
    basis = highspy.HighsBasis()
    basis.col_status = [kinds[kind] for kind in columns.tolist()]
    basis.row_status = [kinds[kind] for kind in rows.tolist()]
    basis.valid = basis.alien = True  # alien: HiGHS checks it and evens it out
    return basis


def _kinds(
    value: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    unit: NDArray[np.float64],
    reduced: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Basic where a value is further from its bounds, in its own scale, than its reduced cost is from 0."""
    kind = highspy.HighsBasisStatus
    room = []
    for bound in (lower, upper):
        finite = np.where(np.isfinite(bound), bound, 0.0)
        scale = np.maximum(abs(finite), unit)
        share = abs(value - finite) / np.where(scale > 0, scale, 1.0)
        room.append(np.where(np.isfinite(bound), share, np.inf))
    below, above = room
    side = np.where(below <= above, int(kind.kLower), int(kind.kUpper))
    return np.where(np.minimum(below, above) <= np.maximum(reduced, _NEAR), side, int(kind.kBasic))
