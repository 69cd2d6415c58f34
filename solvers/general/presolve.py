"""HiGHS' presolve of a general LP, and the way back from an answer of what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.models.general_lp import GeneralLP
from copter.models.highs_form import from_highs
from copter.solution import Status
from copter.solvers.highs_model import Engine, check, engine, pass_model

_CLAIMS = {
    highspy.HighsPresolveStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsPresolveStatus.kUnboundedOrInfeasible: Status.UNBOUNDED,
}


@dataclass(frozen=True)
class Vertex:
    """A point with prices, and the basis that makes it a vertex if there is one.

    Attributes
    ----------
    x : (n,) ndarray
    y : (m,) ndarray
        Prices in copter's sign: positive where an upper bound is paid for.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    basis: highspy.HighsBasis | None = None


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


class Presolved:
    """What presolve leaves of an LP.

    Parameters
    ----------
    lp : GeneralLP
        Its integral columns count as continuous.
    **options
        Of HiGHS.

    Attributes
    ----------
    lp : GeneralLP
        The rest; the LP itself where presolve found nothing to take away, and of no use after a claim.
    claim : Status, optional
        Infeasible, or unbounded, which means here that it may be infeasible as well.
    """

    def __init__(self, lp: GeneralLP, **options: Any) -> None:
        self.highs = engine(None, **options)
        pass_lp(self.highs, lp)
        check(self.highs.presolve(), "presolve")
        status = self.highs.getModelPresolveStatus()
        self.claim = _CLAIMS.get(status)
        kind = highspy.HighsPresolveStatus
        self._reduced = status in (kind.kReduced, kind.kReducedToEmpty)
        self.lp = from_highs(self.highs.getPresolvedLp()) if self._reduced else lp

    @property
    def empty(self) -> bool:
        """Whether presolve solved the LP."""
        return self._reduced and not self.lp.c.size

    def back(self, found: Vertex) -> Vertex:
        """A point of the LP from one of what presolve left; a vertex stays one.

        Parameters
        ----------
        found : Vertex
            Of :attr:`lp`.
        """
        if not self._reduced:
            return found
        solution, basis = highspy.HighsSolution(), highspy.HighsBasis()
        lp, (x, y, given) = self.lp, (found.x, found.y, found.basis)
        solution.col_value, solution.row_value = x.tolist(), (lp.A @ x).tolist()
        solution.col_dual, solution.row_dual = (lp.c + lp.A.T @ y).tolist(), (-y).tolist()
        solution.value_valid = solution.dual_valid = True
        if self.empty:
            basis.valid = True
        check(self.highs.postsolve(solution, given or basis), "postsolve")
        whole, basis = self.highs.getSolution(), self.highs.getBasis()
        return Vertex(np.array(whole.col_value), -np.array(whole.row_dual), basis if basis.valid else None)
