"""Continual optimization: large allocation programs kept alive and solved warm, round by round.

The names below are imported when they are first used, so that ``import copter`` and ``copter --help`` are
quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from copter.durable.journal import Journal
    from copter.errors import (
        CopterError,
        EditError,
        FileError,
        NoAllocationError,
        NotOptimalError,
        SettingError,
        SolverError,
        UnknownSolverError,
        UnsupportedError,
    )
    from copter.program.program import ContinualProgram, Template
    from copter.solution import ColdStart, Solution, Status
    from copter.solvers.base import Solver
    from copter.solvers.features import Feature
    from copter.solvers.general import linprog, milp, read_mps
    from copter.solvers.proximal.solver import ProximalPoint
    from copter.solvers.registry import make_solver
    from copter.terms.convex import ConvexTerm, LogTerm

__version__ = "0.1.0"

_HOMES = {
    "ColdStart": "copter.solution",
    "ContinualProgram": "copter.program.program",
    "ConvexTerm": "copter.terms.convex",
    "CopterError": "copter.errors",
    "EditError": "copter.errors",
    "Feature": "copter.solvers.features",
    "FileError": "copter.errors",
    "Journal": "copter.durable.journal",
    "LogTerm": "copter.terms.convex",
    "NoAllocationError": "copter.errors",
    "NotOptimalError": "copter.errors",
    "ProximalPoint": "copter.solvers.proximal.solver",
    "SettingError": "copter.errors",
    "Solution": "copter.solution",
    "Solver": "copter.solvers.base",
    "SolverError": "copter.errors",
    "Status": "copter.solution",
    "Template": "copter.program.program",
    "UnknownSolverError": "copter.errors",
    "UnsupportedError": "copter.errors",
    "linprog": "copter.solvers.general",
    "make_solver": "copter.solvers.registry",
    "milp": "copter.solvers.general",
    "read_mps": "copter.solvers.general",
}
__all__ = [
    "ColdStart",
    "ContinualProgram",
    "ConvexTerm",
    "CopterError",
    "EditError",
    "Feature",
    "FileError",
    "Journal",
    "LogTerm",
    "NoAllocationError",
    "NotOptimalError",
    "ProximalPoint",
    "SettingError",
    "Solution",
    "Solver",
    "SolverError",
    "Status",
    "Template",
    "UnknownSolverError",
    "UnsupportedError",
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
