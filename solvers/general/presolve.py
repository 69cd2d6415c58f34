"""HiGHS' presolve of a general LP, and the conversion of the presolved LP's solution (postsolve)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from copter.models.general_lp import GeneralLP
from copter.models.highs import HighsEngine, from_highs, load
from copter.models.reductions import ReducedPoint
from copter.solution import Status

_CLAIMS = {
    highspy.HighsPresolveStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsPresolveStatus.kUnboundedOrInfeasible: Status.UNBOUNDED,
}


@dataclass(frozen=True)
class Presolved:
    """Result of presolve, with the postsolve; without arguments, of an LP that was not presolved.

    `highs`, `rest`: HiGHS object for the postsolve, and the presolved LP. `claim`: INFEASIBLE, or UNBOUNDED
    if presolve reports "unbounded or infeasible"; with a claim there is no presolved LP.
    """

    highs: HighsEngine | None = None
    rest: GeneralLP | None = None
    claim: Status | None = None

    @property
    def solved(self) -> bool:
        """True if presolve removed all columns."""
        return self.rest is not None and not self.rest.c.size

    def invert(self, point: ReducedPoint) -> ReducedPoint | None:
        """Return the point of the original LP, or None if HiGHS fails; a vertex remains a vertex."""
        highs, rest = self.highs, self.rest
        if highs is None or rest is None:
            return point
        solution, basis = highspy.HighsSolution(), highspy.HighsBasis()
        x, y, given = point
        solution.col_value, solution.row_value = x.tolist(), (rest.A @ x).tolist()
        solution.col_dual, solution.row_dual = (rest.c + rest.A.T @ y).tolist(), (-y).tolist()
        solution.value_valid = solution.dual_valid = True
        if self.solved:
            basis.valid = True
        if highs.postsolve(solution, given or basis) == highspy.HighsStatus.kError:
            return None
        whole, basis = highs.getSolution(), highs.getBasis()
        return ReducedPoint(
            np.array(whole.col_value), -np.array(whole.row_dual), basis if basis.valid else None
        )


def presolve(lp: GeneralLP, **options: Any) -> tuple[GeneralLP, Presolved]:
    """Return the presolved LP and its postsolve; integral columns count as continuous.

    `options`: options of HiGHS.
    """
    highs = load(lp, None, **options)
    if highs.presolve() == highspy.HighsStatus.kError:
        return lp, Presolved()
    status, kind = highs.getModelPresolveStatus(), highspy.HighsPresolveStatus
    reduced = status in (kind.kReduced, kind.kReducedToEmpty)
    rest = from_highs(highs.getPresolvedLp()) if reduced else None
    return (lp if rest is None else rest), Presolved(highs, rest, _CLAIMS.get(status))
