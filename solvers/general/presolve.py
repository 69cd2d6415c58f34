"""HiGHS' presolve of a general LP, and the way back from an answer of what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.models.general_lp import GeneralLP
from copter.models.highs_form import from_highs
from copter.models.reductions import Point
from copter.solution import Status
from copter.solvers.highs_model import Engine, check, engine, pass_model

_CLAIMS = {
    highspy.HighsPresolveStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsPresolveStatus.kUnboundedOrInfeasible: Status.UNBOUNDED,
}


def pass_lp(highs: Engine, lp: GeneralLP, kinds: NDArray[np.int32] | None = None) -> None:
    """Give HiGHS the whole LP, all columns continuous or of the given kinds (its numbers, and scipy's).

    Parameters
    ----------
    kinds : (n,) int32 ndarray, optional

    Raises
    ------
    SolverError
        HiGHS refuses it.
    """
    pass_model(highs, lp, kinds, lp.offset)


@dataclass(frozen=True)
class Presolved:
    """The way back from what presolve left of an LP.

    Attributes
    ----------
    rest : GeneralLP, optional
        None where presolve found nothing to take away; of no use after a claim.
    claim : Status, optional
        Infeasible, or unbounded, which means here that it may be infeasible as well.
    """

    highs: Engine
    rest: GeneralLP | None
    claim: Status | None

    @property
    def solved(self) -> bool:
        """Whether nothing is left."""
        return self.rest is not None and not self.rest.c.size

    def invert(self, point: Point) -> Point:
        """A vertex stays one."""
        rest = self.rest
        if rest is None:
            return point
        solution, basis = highspy.HighsSolution(), highspy.HighsBasis()
        x, y, given = point
        solution.col_value, solution.row_value = x.tolist(), (rest.A @ x).tolist()
        solution.col_dual, solution.row_dual = (rest.c + rest.A.T @ y).tolist(), (-y).tolist()
        solution.value_valid = solution.dual_valid = True
        if self.solved:
            basis.valid = True
        check(self.highs.postsolve(solution, given or basis), "postsolve")
        whole, basis = self.highs.getSolution(), self.highs.getBasis()
        return Point(np.array(whole.col_value), -np.array(whole.row_dual), basis if basis.valid else None)


def presolve(lp: GeneralLP, **options: Any) -> tuple[GeneralLP, Presolved]:
    """What HiGHS' presolve leaves of an LP, whose integral columns count as continuous, and the way back.

    Parameters
    ----------
    **options
        Of HiGHS.
    """
    highs = engine(None, **options)
    pass_lp(highs, lp)
    check(highs.presolve(), "presolve")
    status, kind = highs.getModelPresolveStatus(), highspy.HighsPresolveStatus
    reduced = status in (kind.kReduced, kind.kReducedToEmpty)
    rest = from_highs(highs.getPresolvedLp()) if reduced else None
    return (lp if rest is None else rest), Presolved(highs, rest, _CLAIMS.get(status))
