"""Solvers behind one protocol: copter's proximal point method, HiGHS and OR-Tools.

The names below are imported when they are first used, so that listing solvers needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from copter.solvers.base import Solver, WarmStartable
    from copter.solvers.features import Feature
    from copter.solvers.proximal.solver import ProximalPoint
    from copter.solvers.registry import SOLVERS, make_solver

_HOMES = {
    "Feature": "copter.solvers.features",
    "ProximalPoint": "copter.solvers.proximal.solver",
    "SOLVERS": "copter.solvers.registry",
    "Solver": "copter.solvers.base",
    "WarmStartable": "copter.solvers.base",
    "make_solver": "copter.solvers.registry",
}
__all__ = ["SOLVERS", "Feature", "ProximalPoint", "Solver", "WarmStartable", "make_solver"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'copter.solvers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
