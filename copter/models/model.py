"""Model: a ContinualProgram made from a general LP, updated with it, and solutions in the LP's names.

A :class:`Model` is made from a general LP (arrays or a file), or from a source of one: a model of OR-Tools
MathOpt, or a problem of cvxpy. The LP is reduced (:mod:`copter.models.reductions`) and becomes requests and
resources (:mod:`copter.models.formulation`). Every step can be inverted.

If costs, bounds or coefficients change, an update edits only the changed numbers, so that the next solve is
warm. If the shape changes (other rows, columns or blocks, or a column that must now be mirrored or split),
the update builds a new program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from copter.errors import ArgumentTypeError, CopterError
from copter.models.formulation import Formulation, ProgramChanges
from copter.models.general_lp import GeneralLP, checked
from copter.models.reductions import Folded, ReducedPoint, Shifted, fold_rows, shift_columns

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution, Status


@dataclass(frozen=True)
class ModelSolution:
    """Solution of a :class:`Model` in terms of its source.

    Attributes
    ----------
    status : Status
    objective, bound : float
        Objective and certified bound in the sense of the source: a lower bound for a minimisation, an upper
        bound for a maximisation.
    x : (n,) ndarray
        Values of the columns; NaN without an allocation.
    y : (m,) ndarray
        Dual prices of the rows in copter's sign, for the minimisation: positive for an upper bound.
    values, duals : array or dict
        Values of the columns and duals of the rows by the source's names, or as arrays without names. A dual
        is the change of the objective per unit of the row's bound. For cvxpy it is the constraint's
        multiplier.

    Examples
    --------
    >>> from copter import ProximalPoint, from_arrays
    >>> model = from_arrays([-1.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[4.0], bounds=(0, 3))
    >>> found = model.solution(ProximalPoint().solve(model.program))
    >>> str(found.status), round(found.objective, 4), found.x.round(4)
    ('optimal', -7.0, array([1., 3.]))
    """

    status: Status
    objective: float
    bound: float
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    values: Any
    duals: Any


class _Source(Protocol):
    """Source of a model's linear program, which also receives solutions."""

    def read(self) -> GeneralLP:
        """Return the present linear program."""

    def deliver(self, answer: Solution, found: ModelSolution) -> ModelSolution:
        """Return the solution with values and duals by the source's names."""


class Model:
    """ContinualProgram made from a linear program, and updated with it.

    Parameters
    ----------
    source : GeneralLP or Source
        Linear program, or an object that has one.
    fold : bool
        True to convert rows with one nonzero to bounds of columns.
    share : float or None
        Rows that are sums of columns become sum rows of requests if at least this fraction of the rows,
        without rows that became bounds, are such sums. With None no row becomes a sum row.
    build : bool
        True to build the program now; False to build it at its first use.

    Attributes
    ----------
    lp : GeneralLP
        Linear program of the model.
    rest : GeneralLP
        Linear program without the rows that became bounds, and checked.

    Raises
    ------
    EditError
        For the reasons of :func:`copter.models.general_lp.checked`.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import replace
    >>> from copter import Model, ProximalPoint, from_arrays
    >>> lp = from_arrays([-1.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[4.0], bounds=(0, 3)).lp
    >>> model, solver = Model(lp), ProximalPoint()
    >>> round(model.solution(solver.solve(model.program)).objective, 4)
    -7.0
    >>> changes = model.update(replace(lp, row_upper=np.array([5.0])))
    >>> changes.rebuilt, changes.totals + changes.resources
    (False, 1)
    >>> round(model.solution(solver.solve(model.program)).objective, 4)
    -8.0
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
        if not hasattr(source, "read") and not isinstance(source, GeneralLP):
            why = "must be a GeneralLP, for example from read_mps() or from_arrays()"
            raise ArgumentTypeError("Model", "source", source, why)
        self.lp = source if isinstance(source, GeneralLP) else source.read()
        self.rest, reduced, self._inverses = self._reduce(self.lp)
        self._formulation = Formulation(reduced, share)
        self._values: NDArray[np.float64] | None = None
        if build:
            self._formulation.program  # noqa: B018

    def _reduce(self, lp: GeneralLP) -> tuple[GeneralLP, GeneralLP, tuple[Folded | Shifted, ...]]:
        """Return an LP after folding, the LP with columns from 0 on, and the inverses in their order."""
        folded: tuple[Folded, ...] = ()
        if self._fold:
            lp, fold = fold_rows(lp)
            folded = (fold,)
        rest = checked(lp)
        reduced, shifted = shift_columns(rest)
        return rest, reduced, (*folded, shifted)

    @property
    def program(self) -> ContinualProgram:
        """Program, whose resources have the numbers of the rows of :attr:`rest` as ids.

        An update that rebuilds the program replaces it.
        """
        return self._formulation.program

    @property
    def n_sums(self) -> int:
        """Number of rows that became sum rows of requests."""
        return self._formulation.sums.size

    def __repr__(self) -> str:
        rows, columns = self.lp.A.shape
        return f"<{type(self).__name__}: {rows:,} rows, {columns:,} columns>"

    def update(self, lp: GeneralLP | None = None) -> ProgramChanges:
        """Update the program to another LP, or to the present LP of the source, by edits or a rebuild.

        Parameters
        ----------
        lp : GeneralLP, optional

        Returns
        -------
        ProgramChanges
            Numbers of changed requests and resources.

        Raises
        ------
        EditError
            For the reasons of :func:`copter.models.general_lp.checked`. The program does not change.
        """
        if lp is None:
            lp = self.lp if self._source is None else self._source.read()
        rest, reduced, inverses = self._reduce(lp)
        pairs = zip(inverses, self._inverses, strict=True)
        if self._formulation.keep(reduced) and all(one.like(other) for one, other in pairs):
            changes = self._formulation.follow(reduced, self._values)
        else:
            formulation = Formulation(reduced, self._share, 1 + self._formulation.clock)
            if self._formulation.made:  # build now, so that errors are raised before anything changes
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
        """Return the objective of the LP, in its own sense, for a cost of the program."""
        return self.lp.own_sense(cost + self._formulation.lp.offset)

    def direction(self, answer: Solution) -> NDArray[np.float64]:
        """Return a direction of the LP's columns (n,) along which the objective falls without limit.

        Raises
        ------
        ValueError
            If the solution has no primal ray.
        """
        if answer.ray is None or answer.ray.kind != "unbounded":
            raise ValueError(f"a {answer.status} solution has no primal ray")
        ray = self._formulation.direction(answer.ray.x)
        for inverse in reversed(self._inverses):
            ray = inverse.direction(ray)
        return ray

    def solution(self, answer: Solution) -> ModelSolution:
        """Return a solution in terms of the source.

        For a cvxpy problem the method also sets the values of variables, the duals of constraints, the status
        and the value.

        Parameters
        ----------
        answer : Solution
            Solution of the present program.

        Returns
        -------
        ModelSolution

        Raises
        ------
        CopterError
            If the program was edited after the solve.
        cvxpy.error.SolverError
            For a cvxpy problem, if there is neither an allocation nor a proof of infeasibility.
        """
        if answer.clock != self.program.store.clock:
            raise CopterError("the program was edited after this solution; solve it again")
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
