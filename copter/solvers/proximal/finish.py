"""Fall back to HiGHS for a working set on which the steps stall, in the units of the set.

Proximal-point steps need ever longer sigma if optima are nearly degenerate or if coefficients differ by many
orders of magnitude. Then their Newton systems lose accuracy.  A simplex method on the columns of the set does
not have this problem. It starts cold, but only reads the columns that the pricing passes selected, in units
in which typical values are near 1.  Its result is certified like any other, and the next pass adds missing
columns.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.clock import Interrupted
from copter.errors import SolverError
from copter.models.linear_program import LinearProgram
from copter.proof.rays import farkas_ray
from copter.solution import Status
from copter.solvers.inner.working_set import RowTest
from copter.solvers.proximal.steps import StepsResult

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.inner.working_set import WorkingSet
    from copter.solvers.proximal.state import Budget
    from copter.solvers.proximal.tuning import FallBackTuning

log = logging.getLogger("copter")

_DUAL_SIMPLEX: dict[str, str | int] = {"solver": "simplex", "presolve": "choose", "simplex_strategy": 1}
_WAYS: tuple[dict[str, str | int], ...] = (
    _DUAL_SIMPLEX,
    _DUAL_SIMPLEX,
    {"solver": "simplex", "presolve": "off", "simplex_strategy": 4},
    {"solver": "ipm", "presolve": "choose"},
)
"""Options of successive attempts: dual simplex twice, primal simplex without presolve, interior point."""
_WIDER = (0.0, 1e-3, 0.1)
"""Shares of the tolerance by which rows are wider in successive runs, if they cannot be satisfied."""


class HighsFallback:
    """Attempts of one solve to let HiGHS solve its working sets.

    `allowed`: False to disable the fallback. `gave_up`: True if HiGHS had no answer for a small set.
    """

    def __init__(
        self, program: ContinualProgram, budget: Budget, tuning: FallBackTuning, allowed: bool
    ) -> None:
        self.program, self.budget, self.tuning = program, budget, tuning
        self.successes, self.gave_up = 0, False
        self._attempts = self._columns = 0
        self._asked = False
        self._allowed = allowed

    def can(self) -> bool:
        """Return whether HiGHS will get the next small set; True at most once in a solve."""
        if self._asked or not self._allowed or self.successes or not 0 < self._columns <= self.tuning.small:
            return False
        self._asked = True
        return True

    def finish(self, working: WorkingSet, idle: int, size: float) -> StepsResult | None:
        """Return HiGHS' answer for a set; None if the steps do not stall, or if HiGHS has no answer.

        `idle`: consecutive passes without progress. `size`: denominator of the gap.
        """
        columns, iterations = working.column.size, self.budget.iterations
        self._columns = columns
        stalled = idle >= self.tuning.idle_rounds or 2 * iterations > self.budget.iteration_limit
        small = self._allowed and columns <= self.tuning.small
        patience = self.tuning.small_iterations + columns // self.tuning.columns_an_iteration
        self.budget.until = patience if small else None
        stalled = stalled or (small and (self._asked or iterations >= patience))
        if not (self._allowed and stalled and columns <= self.tuning.columns):
            return None
        for _ in _WAYS:
            result = self._attempt(working, size)
            self._attempts += 1
            log.debug("    HiGHS solves the set: %s", "no answer" if result is None else "an answer")
            if result is not None or self.budget.late():
                break
        self.successes += result is not None
        self.gave_up = small and result is None
        self._allowed = result is not None and self.successes < self.tuning.most
        self.budget.until = None
        return result

    def _attempt(self, working: WorkingSet, size: float) -> StepsResult | None:
        """Return HiGHS' optimum, least violation or ray of a set; None if it has no answer in time.

        Every second attempt uses `size`, the denominator of the gap, as the unit of cost, so that the
        tolerance of reduced costs is relative to this denominator. If the rows cannot be satisfied, but no
        ray proves this beyond the tolerance, the rows are widened within the tolerance.
        """
        factor = 1.0
        if self._attempts % 2 and size > 0:
            factor = 2.0 ** np.round(np.log2(np.clip(working.cost_scale / size, 1e-9, 1e9)))
        first = None
        for share in _WIDER:
            off = share * self.budget.tolerance * RowTest(working).sizes
            wider = replace(working, lower_row=working.lower_row - off, upper_row=working.upper_row + off)
            result = self._run(wider, factor)
            if first is None or (result is not None and result.violation is None):
                first = result
            if first is None or first.ray is not None or first.violation is None:
                break
        return first

    def _run(self, working: WorkingSet, factor: float) -> StepsResult | None:
        """Return HiGHS' answer for a set with costs times a factor."""
        # this imports HiGHS, so only programs whose steps stall wait for it
        from copter.models.highs import HighsEngine

        lp, back = _in_units(working, factor, self.tuning.least_row)
        highs = HighsEngine(
            self.budget.threads,
            **_WAYS[self._attempts % len(_WAYS)],
            primal_feasibility_tolerance=self.tuning.tolerance,
            dual_feasibility_tolerance=self.tuning.tolerance,
            simplex_iteration_limit=max(1, self.tuning.pivots * sum(lp.A.shape)),
        )
        try:
            highs.pass_model(lp)
            highs.run_until(self.budget.clock, self.budget.reserve)
            status = highs.outcome()[0]
            if status is Status.INFEASIBLE:  # with presolve there is no ray
                for name, value in (_DUAL_SIMPLEX | {"presolve": "off"}).items():
                    highs.set_option(name, value)
                highs.run_until(self.budget.clock, self.budget.reserve)
                status = highs.outcome()[0]
        except (Interrupted, SolverError):  # HiGHS rejects models that are too badly scaled
            return None
        self.budget.iterations += 1
        return self._result(highs, status, working, lp, back)

    def _result(
        self, highs: Any, status: Status, working: WorkingSet, lp: LinearProgram, back: _InUnits
    ) -> StepsResult | None:
        """Return the answer of a run in the units of the program; None without a usable answer."""
        point, ray, violation = (np.zeros(lp.c.size), np.zeros(lp.row_lower.size)), None, None
        known = highs.ray(status)
        if status is Status.INFEASIBLE and known is not None:
            violation = known[: back.sharp.size] * back.sharp * working.row_scale
            budget = self.budget
            ray = farkas_ray(self.program, violation, budget.threads, tolerance=budget.tolerance)
        elif status is Status.OPTIMAL:
            x, y = highs.point()
            if x is None or y is None:
                return None
            point = np.clip(x, 0.0, lp.upper), y
        else:
            return None
        x, y = back.invert(*point)
        return StepsResult(working.sparse(x), working.prices(y), 0.0, ray, violation, by_highs=True)


class _InUnits(NamedTuple):
    """Conversion from HiGHS' units of a working set to the set's units.

    `unit` (columns,): factor on values. `sharp` (resource rows,): factors on these rows. `factor`: factor on
    costs.
    """

    unit: NDArray[np.float64]
    sharp: NDArray[np.float64]
    factor: float

    def invert(
        self, x: NDArray[np.float64], y: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Convert values of columns, and prices of the resource rows, to the set's units."""
        return x * self.unit, y[: self.sharp.size] * self.sharp / self.factor


def _in_units(working: WorkingSet, factor: float, least: float) -> tuple[LinearProgram, _InUnits]:
    """Return a working set as an LP and the conversion back; its sum rows, scaled to 1, are the last rows."""
    from scipy.sparse import csc_array, vstack

    blocks, n = working.slot.size, working.column.size
    closed = working.total <= 0
    summed = (working.total < np.inf) & ~closed
    unit = np.where(summed, working.total, 1.0)[working.block]
    matrix = csc_array(
        (working.value, working.row.astype(np.int32), working.pointer), shape=(working.lower_row.size, n)
    )
    sums = csc_array(
        (np.ones(n), working.block.astype(np.int32), np.arange(n + 1)), shape=(blocks, n)
    ).tocsr()[summed]
    sharp = _tighter(working.lower_row, working.upper_row, least)
    low = np.where(working.exact, 1.0, -np.inf)[summed]
    lp = LinearProgram(
        c=working.cost * unit * factor,
        A=vstack([matrix.multiply(unit).multiply(sharp[:, None]), sums]).tocsc(),
        row_lower=np.concatenate((working.lower_row * sharp, low)),
        row_upper=np.concatenate((working.upper_row * sharp, np.ones(low.size))),
        lower=np.zeros(n),
        upper=np.where(closed[working.block], 0.0, working.upper / unit),
        offset=0.0,
        integral=np.zeros(n, np.bool_),
    )
    return lp, _InUnits(unit, sharp, factor)


def _tighter(lower: NDArray[np.float64], upper: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Return factors that scale rows with small bounds to 1, because HiGHS' tolerances are absolute."""
    low, high = (np.where(np.isfinite(each) & (each != 0), abs(each), np.inf) for each in (lower, upper))
    size = np.clip(np.minimum(low, high), least, 1.0)
    return np.asarray(2.0 ** -np.round(np.log2(size)), np.float64)
