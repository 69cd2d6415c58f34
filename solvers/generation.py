"""Column generation: a program whose columns are made when its prices say that they are missing.

    minimise  sum over all columns j of c_j x_j      over a program with some of the columns only

A solve gives prices y and a bound d(y) of the program as it is.  With columns that are not there the bound of
request q is lower by as much as the best of them is below the best that is there, and never otherwise:

    d_all(y) = d(y) - sum_q total_q (best reduced cost there - best reduced cost of all)_+ .

A domain finds the best columns, adds them, and says what they are worth by this sum: then d(y) less their
worth bounds the whole program, without any column being listed that nobody wants.  The highest bound of all
prices counts.

Source: Gilmore and Gomory (1961); the bound is Lasdon's, "Optimization Theory for Large Systems" (1970).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.solvers.base import Solver


@dataclass(frozen=True)
class Missing:
    """What was found at some prices.

    Attributes
    ----------
    added : int
        Columns that were added to the program.
    worth : float
        What all columns that were not there could lower the program's bound by at most, whether they were
        added or not; infinite if only some were looked at.
    """

    added: int
    worth: float


Pricing: TypeAlias = "Callable[[Solution], Missing]"
"""Adds columns that the prices of a solution say are missing."""


@dataclass(frozen=True)
class Generation:
    """A program with the columns of a time.

    `solution`: with the columns that were there. `missing`: what was not there. `bound`: no allocation to all
    columns there could be has a lower objective.
    """

    solution: Solution
    missing: Missing
    bound: float


def generations(program: ContinualProgram, solver: Solver, pricing: Pricing) -> Iterator[Generation]:
    """Solve a program and add columns, over and over, until none is missing or nobody asks for more.

    Parameters
    ----------
    program : ContinualProgram
        With columns to begin with.
    pricing : callable
        ``pricing(solution)`` edits the program.

    Yields
    ------
    Generation
        After each solve and what was added then.

    Raises
    ------
    NotOptimalError
        A solve ended without prices that prove anything.
    """
    bound = -math.inf
    while True:
        solution = solver.solve(program, raise_error=True)
        missing = pricing(solution)
        bound = max(bound, solution.bound - missing.worth)
        yield Generation(solution, missing, bound)
        if not missing.added:
            return
