"""The inner solver of a working set: which one, in which units, and what measures its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.solvers.inner.compiled_newton import CompiledNewton, is_small
from copter.solvers.inner.convex_descent import ConvexDescent
from copter.solvers.inner.convex_terms import WorkingTerms
from copter.solvers.inner.descent import CoordinateDescent
from copter.solvers.inner.lent_sums import LentSums, pieces_of
from copter.solvers.inner.newton import SemismoothNewton
from copter.solvers.inner.sums import Sums
from copter.solvers.inner.tuning import NewtonTuning
from copter.solvers.inner.working_set import InnerResult, WorkingSet
from copter.terms.batch import TermBatch

if TYPE_CHECKING:
    from copter.solvers.proximal.budget import Budget
    from copter.solvers.proximal.tuning import ProximalTuning
    from copter.store.store import ConstraintStore

Method: TypeAlias = Literal["cd", "newton"]
"""Coordinate descent, or semismooth Newton."""


class InnerSolver(Protocol):
    """What solves the subproblem of one step."""

    def solve(
        self, y: NDArray[np.float64], centre: NDArray[np.float64], sigma: float, closeness: float, limit: int
    ) -> InnerResult:
        """Solve it from prices ``y``, rows to a share ``closeness`` of their sizes, in ``limit`` steps.

        Parameters
        ----------
        y : (rows,) ndarray
            Prices to begin with, in the set's units.
        centre : (columns,) ndarray
            z, in the set's units.
        sigma : float
            Length of the step, > 0.
        closeness : float
            Share of its size that a row may be off by.
        limit : int
            Steps at most.
        """

    def least_violation(self, centre: NDArray[np.float64], limit: int) -> InnerResult:
        """Prices proportional to the least violation of the rows that the columns can reach."""


class Inner(NamedTuple):
    """An inner solver and what it works on.

    Attributes
    ----------
    working : WorkingSet
        In the units of the solver.
    measured : WorkingSet or WorkingTerms
        What knows the gap of its answers.
    unit : float
        What a column typically gets, over what it costs: step lengths are multiples of it.
    free : bool
        Whether any point that meets the rows is optimal.
    """

    solver: InnerSolver
    working: WorkingSet
    measured: WorkingSet | WorkingTerms
    unit: float
    free: bool


def linear_inner(
    store: ConstraintStore, working: WorkingSet, method: Method, budget: Budget, tuning: ProximalTuning
) -> Inner:
    """Inner solver of a working set without convex terms.

    Parameters
    ----------
    store : ConstraintStore
        Where work is lent to, if its columns are elsewhere.
    method : "cd" or "newton"
    """
    solver: InnerSolver
    if method == "cd":
        solver = CoordinateDescent(working, budget.late, tuning.descent)
    elif is_small(working, tuning.newton):
        solver = CompiledNewton(working, budget.late, tuning.newton, budget.threads)
    else:
        sums = _sums(store, working, budget.threads, tuning.newton)
        solver = SemismoothNewton(working, budget.late, budget.threads, tuning.newton, sums)
    return Inner(solver, working, working, 1.0, not working.cost.any())


def _sums(store: ConstraintStore, working: WorkingSet, threads: int | None, tuning: NewtonTuning) -> Sums:
    """Sums over a working set, its pieces lent to where the columns are if that is worth it."""
    sums = Sums(working, threads)
    if store.parts == 1 or working.column.size < tuning.lent_columns or sums.bounds.size <= 2:
        return sums
    lent = store.lend(pieces_of(working, sums.bounds))
    return sums if lent is None else LentSums(working, lent, threads)


def curved_inner(
    working: WorkingSet,
    batch: TermBatch,
    method: Method,
    centre: NDArray[np.float64],
    budget: Budget,
    tuning: ProximalTuning,
) -> Inner:
    """Inner solver of a working set with convex terms, in the unit of cost that is typical at a centre.

    Parameters
    ----------
    working : WorkingSet
        All columns of the requests that have terms are in it.
    method : "cd" or "newton"
    centre : (columns,) ndarray
    """
    slopes, unit, cost = WorkingTerms(working, batch).reference(centre)
    working = working.with_cost_unit(cost)
    terms, slopes = WorkingTerms(working, batch), slopes / cost
    solver: InnerSolver
    if method == "cd":
        solver = ConvexDescent(working, terms, budget.late, slopes, tuning.descent)
    else:
        newton, threads = tuning.newton, budget.threads
        solver = CompiledNewton.of_terms(working, terms, slopes, budget.late, newton, threads)
    return Inner(solver, working, terms, unit, False)
