"""Linear programs from elsewhere as ContinualPrograms that follow them, and answers in their own words.

A :class:`Model` is made of a general LP, from arrays or a file, or of a `_Source` that has one: a model
of OR-Tools MathOpt, a problem of cvxpy.  The LP is reduced (:mod:`copter.models.reductions`) and becomes
requests and resources (:mod:`copter.models.formulation`), and every step leads back.  Where costs, bounds and
coefficients change, only what did is edited, so that the next solve is warm; where the shape does (other
rows, columns or blocks, a column that now has to be mirrored or split) the program is built anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.models.formulation import Formulation, ProgramChanges
from copter.models.general_lp import GeneralLP, checked
from copter.models.reductions import Folded, ReducedPoint, Shifted, fold_rows, shift_columns

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution, Status


@dataclass(frozen=True)
class ModelSolution:
    """An answer in terms of the model's source.

    Attributes
    ----------
    status : Status
    objective, bound : float
        Of the source, in its own sense. The bound is certified: from below for a minimisation, from above for
        a maximisation.
    x : (n,) ndarray
        Values of the columns; NaN without an allocation.
    y : (m,) ndarray
        Prices of the rows in copter's sign, for the minimisation: positive where an upper bound is paid for.
    values, duals : array or dict
        Values of the columns and duals of the rows by the source's names, or by number without names. A dual
        is the change of the objective for one more unit of the row's bound; in cvxpy it is the constraint's
        multiplier.
    """

    status: Status
    objective: float
    bound: float
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    values: Any
    duals: Any


class _Source(Protocol):
    """The origin of a model's linear program, which also receives its answers."""

    def read(self) -> GeneralLP:
        """The linear program as it is now."""

    def deliver(self, answer: Solution, found: ModelSolution) -> ModelSolution:
        """Return what was found, with values and duals by the source's names."""


class Model:
    """A linear program as a ContinualProgram that is kept and updated.

    Parameters
    ----------
    source : GeneralLP or Source
    fold : bool
        Whether rows of one column become bounds.
    share : float or None
        Rows that are sums of columns become sum rows of requests if at least this share of the rows, without
        those that became bounds, are such sums; with None none does.
    build : bool
        Whether the program is made now, instead of at its first use.

    Attributes
    ----------
    lp : GeneralLP
        The linear program of the model.
    rest : GeneralLP
        The same without the rows that became bounds, and checked.

    Raises
    ------
    EditError
        As :func:`copter.models.general_lp.checked`.
    """

    lp: GeneralLP
    rest: GeneralLP

    def __init__(
        self,
        source: GeneralLP | _Source,
        *,
        fold: bool = False,
        share: float | None = 0.0,
        build: bool = True,
    ) -> None:
        self._source = None if isinstance(source, GeneralLP) else source
        self._fold, self._share = fold, share
        self.lp = source if isinstance(source, GeneralLP) else source.read()
        self.rest, reduced, self._inverses = self._reduce(self.lp)
        self._formulation = Formulation(reduced, share)
        self._values: NDArray[np.float64] | None = None
        if build:
            self._formulation.program  # noqa: B018

    def _reduce(self, lp: GeneralLP) -> tuple[GeneralLP, GeneralLP, tuple[Folded | Shifted, ...]]:
        """Return an LP after folding, that with columns from 0 on, and the ways back in their order."""
        folded: tuple[Folded, ...] = ()
        if self._fold:
            lp, fold = fold_rows(lp)
            folded = (fold,)
        rest = checked(lp)
        reduced, shifted = shift_columns(rest)
        return rest, reduced, (*folded, shifted)

    @property
    def program(self) -> ContinualProgram:
        """The program, whose resources are named by the numbers of the rows of :attr:`rest`.

        An update that rebuilds the program replaces it.
        """
        return self._formulation.program

    @property
    def n_sums(self) -> int:
        """Number of rows that became sum rows of requests."""
        return self._formulation.sums.size

    def update(self, lp: GeneralLP | None = None) -> ProgramChanges:
        """Make the program that of another LP, or of the source as it is now, by edits or by rebuilding it.

        Raises
        ------
        EditError
            As :func:`copter.models.general_lp.checked`; the program is as before.
        """
        if lp is None:
            lp = self.lp if self._source is None else self._source.read()
        rest, reduced, inverses = self._reduce(lp)
        pairs = zip(inverses, self._inverses, strict=True)
        if self._formulation.keep(reduced) and all(one.like(other) for one, other in pairs):
            changes = self._formulation.follow(reduced, self._values)
        else:
            formulation = Formulation(reduced, self._share, 1 + self._formulation.clock)
            if self._formulation.made:  # now: what is wrong is said before anything changes
                formulation.program  # noqa: B018
            self._formulation, self._values = formulation, None
            changes = ProgramChanges(rebuilt=True)
        self.lp, self.rest, self._inverses = lp, rest, inverses
        return changes

    def invert(self, answer: Solution) -> ReducedPoint:
        """Return the values of the LP's columns, NaN without an allocation, and the prices of its rows."""
        point = self._formulation.invert(answer)
        if answer.found:
            self._values = point.x
        for inverse in reversed(self._inverses):
            point = inverse.invert(point)
        return point

    def objective(self, cost: float) -> float:
        """Objective of the LP, in its own sense, for a cost of the program."""
        return self.lp.own_sense(cost + self._formulation.lp.offset)

    def direction(self, answer: Solution) -> NDArray[np.float64]:
        """Return a direction of the LP's columns, (n,), in which the objective falls without bound.

        Raises
        ------
        ValueError
            The answer has none.
        """
        if answer.ray is None or answer.ray.kind != "unbounded":
            raise ValueError(f"a {answer.status} solution has no primal ray")
        ray = self._formulation.direction(answer.ray.x)
        for inverse in reversed(self._inverses):
            ray = inverse.direction(ray)
        return ray

    def solution(self, answer: Solution) -> ModelSolution:
        """Return an answer in terms of the source.

        For a cvxpy problem it also sets the values of variables, the duals of constraints, status and value.

        Parameters
        ----------
        answer : Solution
            A solver's, for the program as it is now.

        Raises
        ------
        CopterError
            The program was edited since.
        cvxpy.error.SolverError
            For a cvxpy problem: there is no allocation, and no proof that there is none.
        """
        if answer.clock != self.program.store.clock:
            raise CopterError("the program was edited after this solution: solve it again")
        x, y, _ = self.invert(answer)
        duals = y if self.lp.maximize else -y
        found = ModelSolution(
            answer.status,
            self.objective(answer.objective),
            self.objective(answer.bound),
            x,
            y,
            dict(zip(self.lp.column_names, x.tolist(), strict=True)) if self.lp.column_names else x,
            dict(zip(self.lp.row_names, duals.tolist(), strict=True)) if self.lp.row_names else duals,
        )
        return found if self._source is None else self._source.deliver(answer, found)
