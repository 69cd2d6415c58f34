"""Share of integral values in solutions of a relaxation: values at 0 or at the request's total.

Source: thesis, Figure 4.4 and section 5.1.1. In the thesis, simplex and proximal points give nearly integral
answers; SCS and OSQP do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from copter.bench.reproduction import PaperFigure
from copter.bench.settings import SolverSettings

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution

_SOLVERS: Mapping[str, str] = {
    "COpter": "copter",
    "HiGHS simplex": "highs-simplex",
    "SCS": "scs",
    "OSQP": "osqp",
}
"""Solver of each row of the figure."""
_TOLERANCE = 1e-4
_SECONDS = 300.0
"""Time limit of each solver, in seconds."""
_SAME = 1e-3
"""Largest distance of value / total from 0 or 1 that counts as integral."""


def composition(program: ContinualProgram, solution: Solution) -> tuple[float, float]:
    """Return the percentages of values and of requests that are integral in an allocation.

    A value is integral if it is 0 or its request's total, within :data:`_SAME`; a request is integral if all
    its values are. Every request must have a total.
    """
    slot, _, value = solution.x.arrays()
    share = value / program.store.requests.total[slot]
    between = (share > _SAME) & (share < 1.0 - _SAME)
    values = 1.0 - between.sum() / program.n_variables
    return 100.0 * float(values), 100.0 * (1.0 - np.unique(slot[between]).size / len(program))


def compare(program: ContinualProgram, say: Callable[[str], None]) -> list[PaperFigure]:
    """Return how integral each solver's solution of a program is, and its certified gap."""
    figures = []
    for name, solver in _SOLVERS.items():
        say(f"{name}: {program.n_variables} variables")
        solution = SolverSettings(solver, _TOLERANCE, time_limit=_SECONDS).make().solve(program)
        shown = composition(program, solution) if solution.found else (math.nan, math.nan)
        printed = 99.99 if solver == "highs-simplex" else math.nan
        figures += [
            PaperFigure(name, "values at 0 or 1", "%", shown[0], printed),
            PaperFigure(name, "requests with such values alone", "%", shown[1]),
            PaperFigure(name, "certified gap", "", solution.gap if solution.found else math.nan),
        ]
    return figures
