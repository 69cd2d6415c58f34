"""Solvers behind one protocol: copter's proximal point method, HiGHS and OR-Tools.

The names below are imported when they are first used, so that listing solvers needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from copter.solvers.base import SOLVERS, Solver, make_solver
    from copter.solvers.proximal.solver import ProximalPoint

_HOMES = {
    "ProximalPoint": "copter.solvers.proximal.solver",
    "SOLVERS": "copter.solvers.base",
    "Solver": "copter.solvers.base",
    "make_solver": "copter.solvers.base",
}
__all__ = ["SOLVERS", "ProximalPoint", "Solver", "make_solver"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'copter.solvers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
