"""DeDe (Xu and others, "Decouple and decompose", OSDI 2025), run in a separate Python environment.

DeDe splits an allocation problem into one problem for each resource and one for each demand.  It coordinates
them by the alternating direction method of multipliers (ADMM), on Ray.  The package ``dede`` requires an old
cvxpy and an old numpy. So it runs in another interpreter (:mod:`copter.solvers.baselines.other_python`), in
which :mod:`copter.solvers.baselines.dede_worker` answers the requests.

ADMM uses one penalty for all rows and columns, so their numbers must be of similar size. Columns are given as
shares of their request's total, rows as shares of their capacity, and costs relative to the largest cost.
There are two stopping rules:

``own``
    DeDe's rule: the augmented Lagrangian changes by less than 1% in an iteration.
``ours``
    copter's rule: the certificate is within the tolerance; it is computed after every few iterations.

DeDe returns no prices. So its answer is certified at the prices of a solve by copter before it, which is not
timed.  The round's edit time is the construction of DeDe's problem, including the start of Ray and the
compilation of the subproblems. The problem is kept while only capacities and totals change.  The solve time
is the time of DeDe's iterations.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from copter.clock import Clock, Interrupted
from copter.errors import UnsupportedError
from copter.proof.certificate import certify
from copter.solution import Solution, Status
from copter.solvers.baselines.baseline import BASELINE, Baseline, BaselineAnswer, Layout
from copter.solvers.baselines.other_python import OtherPython
from copter.solvers.features import Feature
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.settings import Setting, one_of
from copter.store.allocation import dense_to_sparse
from copter.store.compiled import CompiledProgram, compile_program

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_AT_ONCE = 10
"""Iterations between two certificates."""
_TIGHTER = 0.1
"""Tolerance of copter's solve for prices, as a share of the wanted tolerance."""
_GRACE = 1.2
"""Time to wait for a worker's answer, as a multiple of its time limit."""


class DeDe(Baseline):
    """DeDe, with a problem that is kept while only right-hand sides change.

    Parameters
    ----------
    python : Path
        Interpreter of an environment with the package dede.
    rule : "own" or "ours"
        Stopping rule: DeDe's own, or the certificate of copter.
    **common
        ``tolerance``, ``deadline``, ``threads`` of :class:`copter.solvers.baselines.baseline.Baseline`; the
        deadline applies to edit and solve separately.
    """

    features = BASELINE & ~(Feature.CANCEL | Feature.RAYS) | Feature.THREADS
    rule = Setting(one_of("own", "ours"))
    python = Setting(Path)
    _of_one_round = ("_compiled", "_program", "_layout", "_y", "_unit", "_edit_seconds", "_worker")

    def __init__(
        self, name: str, *, python: Path = Path("python"), rule: Literal["own", "ours"] = "own", **common: Any
    ) -> None:
        super().__init__(name, **common)
        self.rule, self.python = rule, python
        self._reference = ProximalPoint(tolerance=_TIGHTER * self.tolerance, threads=self.threads)
        self._worker: OtherPython | None = None
        self._unit = np.zeros(0)

    def stopping(self) -> dict[str, float]:
        """Return the wanted tolerance, or for DeDe's own rule its least improvement an iteration."""
        return {"tolerance": self.tolerance} if self.rule == "ours" else {"least_improvement": 0.01}

    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Solve within a deadline; copter computes the certificate's prices before, which is not timed."""
        self._y = self._reference.solve(program).y
        return super().solve(program, deadline=deadline, raise_error=raise_error)

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Return the seconds that the worker reports, without the transfer of files."""
        return self._edit_seconds, solution.timings.solve

    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        return super()._solve(program, Clock())  # without a limit: edit and solve have a deadline each

    def _load(self, program: ContinualProgram) -> Layout:
        if self._worker is None or self._worker.ended:
            script = Path(__file__).with_name("dede_worker.py")
            self._worker = OtherPython(self.python, script, "DeDe", arguments=(str(self.threads or 1),))
        self._program, layout = program, Layout.of(program)
        self._layout, self._compiled = layout, compile_program(program)
        arrays, self._unit = _scaled(self._compiled, layout, self._unit)
        self._edit_seconds = self._limit
        self._edit_seconds = float(self._ask("load", arrays, self._limit)["seconds"])
        return layout

    @property
    def _limit(self) -> float:
        return math.inf if self.deadline is None else self.deadline

    def _ask(self, request: str, values: dict[str, Any], limit: float) -> dict[str, Any]:
        assert self._worker is not None
        return self._worker.ask(request, values, None if math.isinf(limit) else _GRACE * limit)

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        spent, iterations, status, reason = 0.0, 0, Status.OPTIMAL, "DeDe: less than 1% of change"
        while True:
            at_once = _AT_ONCE if self.rule == "ours" else None
            try:
                found = self._ask("iterate", {"count": at_once}, self._limit - spent)
            except Interrupted:
                return BaselineAnswer(Status.DEADLINE, "DeDe: deadline", details={"seconds": self._limit})
            x = np.clip(found["x"] * self._unit, 0.0, self._compiled.upper)
            spent, iterations = spent + float(found["seconds"]), iterations + _AT_ONCE
            if self.rule == "own" or self._within(x):
                break
            if spent >= self._limit:
                status, reason = Status.DEADLINE, "DeDe: deadline"
                break
        dual = -self._y[self._layout.row_slots]
        count = iterations if self.rule == "ours" else 0
        return BaselineAnswer(status, reason, x, dual, count, details={"seconds": spent})

    def _within(self, x: NDArray[np.float64]) -> bool:
        layout = self._layout
        sparse = dense_to_sparse(layout.slots, layout.sizes, x)
        return certify(self._program.store, sparse, self._y, threads=self.threads).within(self.tolerance)


def _scaled(
    compiled: CompiledProgram, layout: Layout, last: NDArray[np.float64]
) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64]]:
    """Return the program in shares of totals and capacities, and the unit of each column.

    The units are those of the last round if the number of columns is equal, so that a change of totals
    changes right-hand sides only. Raise UnsupportedError for a request without a total, or for a column whose
    upper bound is below the total.
    """
    m, summed = layout.rows.size, compiled.sum_row
    total = compiled.row_upper[summed] if (summed >= 0).all() else np.full(summed.size, np.inf)
    most = np.repeat(total, layout.sizes)
    unit = last if last.size == most.size else np.where(most > 0, most, 1.0)
    if not np.isfinite(total).all() or (compiled.upper < most).any():
        raise UnsupportedError(
            "DeDe: program: every request must have a total, and no column an upper bound below it"
        )
    lower, upper = compiled.row_lower[:m], compiled.row_upper[:m]
    largest = np.where(np.isfinite(upper), np.abs(upper), np.abs(lower))
    size = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    A = csr_array(diags_array(1.0 / size) @ compiled.A[:m] @ diags_array(unit))
    c = compiled.c * unit
    arrays = {
        "c": c / max(float(np.abs(c).max(initial=0.0)), 1e-300),
        "data": A.data,
        "indices": A.indices,
        "indptr": A.indptr,
        "start": compiled.column_start,
        "lower": lower / size,
        "upper": upper / size,
        "total": total / unit[compiled.column_start[:-1]],
        "equal": compiled.row_lower[summed] == total,
    }
    return arrays, unit
