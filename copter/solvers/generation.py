"""Column generation: columns are added when the prices of a solution show that they improve the optimum.

    minimise  sum over all columns j of c_j x_j      by solving programs with some of the columns only

A solve gives prices y and a lower bound d(y) of the restricted program.  Let r_q be the smallest reduced cost
of request q over the columns that the program has, and r_q' that over all possible columns.  Then

    d_all(y) = d(y) - sum_q total_q max(0, r_q - r_q')

is a lower bound of the full program. A domain finds the columns with the smallest reduced costs, adds them,
and returns this sum. So the full program has a bound although most columns are never listed. The bound of
:func:`generations` is the largest over all prices so far.

Sources: Gilmore and Gomory (1961); the bound is Lasdon's, "Optimization Theory for Large Systems" (1970).
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
    """Result of the pricing of columns that a program does not have.

    Attributes
    ----------
    added : int
        Number of columns that were added to the program.
    worth : float
        Upper bound on the change of the program's bound by all missing columns, added or not: a decrease in
        a minimisation. Not negative; infinite if only some columns were priced.
    """

    added: int
    worth: float


Pricing: TypeAlias = "Callable[[Solution], MissingColumns]"
"""A function that adds columns with a negative reduced cost at the prices of a solution."""


@dataclass(frozen=True)
class Generation:
    """Result of one solve and the column additions after it.

    Attributes
    ----------
    solution : Solution
        Solution of the program before the additions.
    missing : MissingColumns
        Result of the pricing at the solution's prices.
    bound : float
        Bound on the objective over all possible columns: a lower bound, or an upper bound if the program is
        maximised.
    """

    solution: Solution
    missing: MissingColumns
    bound: float


def generations(program: ContinualProgram, solver: Solver, pricing: Pricing) -> Iterator[Generation]:
    """Solve a program and add columns repeatedly, until no column is missing or the caller stops.

    Parameters
    ----------
    program : ContinualProgram
        Program with an initial set of columns.
    pricing : callable
        ``pricing(solution)`` adds columns to the program and returns a :class:`MissingColumns`.

    Yields
    ------
    Generation
        One for each solve and its additions.

    Raises
    ------
    NotOptimalError
        If a solve ended without prices that prove a bound.
    """
    bound = -math.inf
    while True:
        solution = solver.solve(program, raise_error=True)
        missing = pricing(solution)
        bound = max(bound, solution.certificate.bound - missing.worth)
        yield Generation(solution, missing, in_sense(bound, program.sense))
        if not missing.added:
            return
