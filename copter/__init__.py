"""Continual optimization: large allocation programs kept alive and solved warm, round by round.

The names below are imported when they are first used, so that ``import copter`` and ``copter --help`` are
quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from copter.durable.journal import Journal
    from copter.errors import CopterError, EditError, FileError, UnknownSolverError
    from copter.program.program import ContinualProgram, Template
    from copter.solution import Solution, Status
    from copter.solvers.base import make_solver
    from copter.solvers.general import linprog, milp, read_mps
    from copter.solvers.general.cvxpy_model import from_cvxpy
    from copter.solvers.general.cvxpy_solver import COPTER
    from copter.solvers.proximal.solver import ProximalPoint
    from copter.terms.convex import ConvexTerm, LogTerm

__version__ = "0.1.0"

_HOMES = {
    "COPTER": "copter.solvers.general.cvxpy_solver",
    "ContinualProgram": "copter.program.program",
    "ConvexTerm": "copter.terms.convex",
    "CopterError": "copter.errors",
    "EditError": "copter.errors",
    "FileError": "copter.errors",
    "Journal": "copter.durable.journal",
    "LogTerm": "copter.terms.convex",
    "ProximalPoint": "copter.solvers.proximal.solver",
    "Solution": "copter.solution",
    "Status": "copter.solution",
    "Template": "copter.program.program",
    "UnknownSolverError": "copter.errors",
    "from_cvxpy": "copter.solvers.general.cvxpy_model",
    "linprog": "copter.solvers.general",
    "make_solver": "copter.solvers.base",
    "milp": "copter.solvers.general",
    "read_mps": "copter.solvers.general",
}
__all__ = [
    "COPTER",
    "ContinualProgram",
    "ConvexTerm",
    "CopterError",
    "EditError",
    "FileError",
    "Journal",
    "LogTerm",
    "ProximalPoint",
    "Solution",
    "Status",
    "Template",
    "UnknownSolverError",
    "from_cvxpy",
    "linprog",
    "make_solver",
    "milp",
    "read_mps",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'copter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
