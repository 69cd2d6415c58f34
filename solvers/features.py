"""What solvers can do, so that whoever holds one can ask it instead of going by its name or class.

    if Feature.CONVEX_TERMS in solver.features: ...

A solver that wraps another passes its features on, and is treated as that one is.  :func:`check_features` is
the one place where a program that a solver cannot take is refused.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from copter.store.compiled import refuse_terms

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram


class Feature(enum.Flag):
    """Abilities of a solver, joined by ``|`` and tested by ``in``."""

    CONVEX_TERMS = enum.auto()
    """Takes requests with a convex term; a solver without it refuses them."""
    INTEGRALITY = enum.auto()
    """Gives whole numbers where requests want them; a solver without it solves the relaxation."""
    PRICES = enum.auto()
    """Gives row prices, and by them a certified bound."""
    RAYS = enum.auto()
    """Proves by a ray that a program is infeasible or unbounded."""
    WARM_START = enum.auto()
    """Goes on from its last answer for the same program."""
    GIVEN_START = enum.auto()
    """Begins from an allocation and prices that it is given (:class:`copter.solvers.base.WarmStartable`)."""
    IN_PLACE = enum.auto()
    """Solves the program itself, so that the edits of a round are its own work; others have a model too."""
    DIFFERENTIAL_EDITS = enum.auto()
    """Takes the edits of a round as such; a solver without it builds all of its model again."""
    DEADLINE = enum.auto()
    """Returns its best answer when its deadline is over."""
    CANCEL = enum.auto()
    """Ends soon after :meth:`copter.solvers.base.Solver.cancel`, at any point of a solve."""
    THREADS = enum.auto()
    """Uses as many threads as its setting ``threads`` says."""
    SAVED_STATE = enum.auto()
    """Its memory between rounds can be written to a snapshot or a journal."""
    COMPILES = enum.auto()
    """Compiles kernels the first time that it needs them: a first solve may take a minute more."""


def check_features(name: str, features: Feature, program: ContinualProgram) -> None:
    """Raise UnsupportedError if a program has convex terms and a solver takes none, before any work.

    Whole numbers are no reason: a solver without them solves the relaxation, which shims round.
    """
    if Feature.CONVEX_TERMS not in features:
        refuse_terms(program, f"solver {name!r}")
