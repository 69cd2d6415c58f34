"""Names for authors of solvers: the protocol, the registry, and the parts of an answer.

A solver is a class with the methods of :class:`Solver` and an entry of :data:`SOLVERS`;
``docs/how-to/extending.md`` shows both.
"""

from copter.proof.certificate import Residuals
from copter.solution import ColdStart, Timings, make_solution
from copter.solvers.base import ClockedSolver, Shim, Solver, WarmStartable
from copter.solvers.features import Feature
from copter.solvers.registry import SOLVERS, make_solver
from copter.store.allocation import SparseX

__all__ = [
    "SOLVERS",
    "ClockedSolver",
    "ColdStart",
    "Feature",
    "Residuals",
    "Shim",
    "Solver",
    "SparseX",
    "Timings",
    "WarmStartable",
    "make_solution",
    "make_solver",
]
