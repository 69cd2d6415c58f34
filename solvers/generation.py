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

from copter.program.sense import in_sense

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.solvers.base import Solver


@dataclass(frozen=True)
class MissingColumns:
    """Columns that are missing at some prices.

    Attributes
    ----------
    added : int
        Columns that were added to the program.
    worth : float
        Largest change of the program's bound by all missing columns, added or not: a decrease in a
        minimisation. Not negative; infinite if only some were priced.
    """

    added: int
    worth: float


Pricing: TypeAlias = "Callable[[Solution], MissingColumns]"
"""Adds the columns to the program that are missing by the prices of a solution."""


@dataclass(frozen=True)
class Generation:
    """A program with the columns at one time.

    Attributes
    ----------
    solution : Solution
        With the columns that the program had.
    missing : MissingColumns
        Columns that it did not have.
    bound : float
        Bound on the objective of an allocation to all possible columns: a lower one, and an upper one if the
        program is maximised.
    """

    solution: Solution
    missing: MissingColumns
    bound: float


def generations(program: ContinualProgram, solver: Solver, pricing: Pricing) -> Iterator[Generation]:
    """Solve a program and add columns, over and over, until none is missing or the caller stops.

    Parameters
    ----------
    program : ContinualProgram
        With the first columns.
    pricing : callable
        ``pricing(solution)`` edits the program.

    Yields
    ------
    Generation
        After each solve and its additions.

    Raises
    ------
    NotOptimalError
        A solve ended without prices that prove a bound.
    """
    bound = -math.inf
    while True:
        solution = solver.solve(program, raise_error=True)
        missing = pricing(solution)
        bound = max(bound, solution.certificate.bound - missing.worth)
        yield Generation(solution, missing, in_sense(bound, program.sense))
        if not missing.added:
            return
