"""Runs of HiGHS on a general LP, without a start or from the point of another solver.

A nearly optimal point with prices determines a likely basis. A column or row is basic if its distance from
its bounds exceeds its reduced cost, both relative to their own scales. With several optima or an inaccurate
point this may not be a valid basis. HiGHS repairs it, and the primal simplex method continues from it.

Without a start, small programs are solved by the dual simplex method. It also begins larger ones without
options, but after a moment an interior-point method with crossover replaces it. Both end at a vertex. Times
on presolved LPs, interior point against simplex: QAP12 2.5 s and over 20 s, PILOT87 1.0 s and 3.3 s, QAP8 82
and 499 ms, but SCTAP3 33 and 5.4 ms, a transport of 240 by 10,800 35 and 5.3 ms, STOCFOR3 685 and 282 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.models.general_lp import GeneralLP
from copter.models.highs import iterations_of, load, point_of, ray_of, run_until, set_option, status_of
from copter.models.highs_kept import STRATEGIES
from copter.models.reductions import ReducedPoint
from copter.solution import Status

_LARGE = 4e6
"""Rows times nonzeros from which on a program is solved by an interior-point method."""
_BEFORE_INTERIOR, _A_NONZERO = 0.01, 5e-7
"""Seconds of simplex before that method, and further seconds for each nonzero.

On 96 LPs all runs together take a fifth less time.
"""
_ANSWERS = (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)
"""Statuses of the simplex method after which no other method runs."""
_NEAR = 1e-7
LEAST = 1e-10
"""Smallest tolerance that HiGHS accepts."""


@dataclass(frozen=True)
class HighsRun:
    """Result of a run of HiGHS, with a point ``found`` or a ``ray``.

    ``iterations`` include those of ``crossover``. ``ray`` has prices (m,) of an infeasible LP in copter's
    sign, or the direction (n,) of an unbounded LP.
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
    """Run HiGHS without presolve, from the basis of a point, or from a likely basis at the point.

    Without a start, a large program is first given to the simplex method for a moment. Only this method
    returns rays; ``by_simplex`` selects it for any size. The feasibility tolerance is at most 1e-7.
    ``options`` are HiGHS' options and override the options of this function.
    """
    clock, before = Clock(seconds), 0
    feasibility = float(np.clip(tolerance, LEAST, 1e-7))
    interior = start is None and not by_simplex and terms(lp) >= _LARGE
    if interior and not options:
        moment = min(seconds, _BEFORE_INTERIOR + _A_NONZERO * lp.A.nnz)
        ran = optimize(lp, by_simplex=True, seconds=moment, tolerance=tolerance, threads=threads)
        if ran.status in _ANSWERS:
            return ran
        before = ran.iterations
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
        if status_of(highs)[0] is Status.NUMERICAL_ERROR and settings["solver"] == "simplex":
            highs.clearSolver()
            set_option(highs, "simplex_strategy", STRATEGIES["primal"])
            run_until(highs, clock)
    except Interrupted:  # results of HiGHS cannot be read then
        return HighsRun(Status.DEADLINE, clock.why(), None, None, before)
    found = _read(highs)
    return replace(found, iterations=before + found.iterations)


def _read(highs: highspy.Highs) -> HighsRun:
    """Return the point or ray of the last run, and its iterations."""
    (status, reason), found = status_of(highs), None
    if status not in (Status.INFEASIBLE, Status.UNBOUNDED):
        (x, y), basis = point_of(highs), highs.getBasis()
        if x is not None and y is not None:
            found = ReducedPoint(x, y, basis if basis.valid else None)
    own, crossover = iterations_of(highs)
    return HighsRun(status, reason, found, ray_of(highs, status), own + crossover, crossover)


def _strategy(start: ReducedPoint | None) -> int:
    """Return HiGHS' strategy: dual simplex without a start, primal from a likely basis, else its choice."""
    if start is None:
        return STRATEGIES["dual"]
    return STRATEGIES["primal" if start.basis is None else "choose"]


def terms(lp: GeneralLP) -> float:
    """Return rows times nonzeros, which determines the order of magnitude of HiGHS' running time."""
    return float(lp.A.shape[0]) * lp.A.nnz


def _likely_basis(lp: GeneralLP, x: NDArray[np.float64], y: NDArray[np.float64]) -> highspy.HighsBasis:
    """Return a likely basis at a point and prices in copter's sign; it may have the wrong size."""
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
    basis.valid = basis.alien = True  # alien: HiGHS checks and repairs the basis
    return basis


def _kinds(
    value: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    unit: NDArray[np.float64],
    reduced: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return basis statuses: basic if the relative distance from bounds exceeds the relative reduced cost."""
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
