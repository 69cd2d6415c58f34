"""Abilities of solvers, so that a caller can query a solver instead of checking its name or class.

    if Feature.CONVEX_TERMS in solver.features: ...

A solver that wraps another one has the features of that solver.  :func:`check_features` is the only place
where a program is rejected because a solver lacks a feature.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from copter.store.compiled import refuse_terms

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram


class Feature(enum.Flag):
    """Abilities of a solver, combined by ``|`` and tested by ``in``.

    Examples
    --------
    >>> from copter import make_solver
    >>> from copter.solvers.api import Feature
    >>> Feature.CONVEX_TERMS in make_solver("copter").features
    True
    >>> Feature.CONVEX_TERMS in make_solver("highs-simplex").features
    False
    """

    CONVEX_TERMS = enum.auto()
    """Solves requests with a convex term; a solver without the feature rejects them."""
    INTEGRALITY = enum.auto()
    """Returns whole numbers for integral requests; a solver without the feature solves the relaxation."""
    PRICES = enum.auto()
    """Returns row prices, from which the certified bound is computed."""
    RAYS = enum.auto()
    """Returns a ray as proof that a program is infeasible."""
    WARM_START = enum.auto()
    """Begins from its last solution of the same program."""
    GIVEN_START = enum.auto()
    """Begins from a given allocation and prices (:class:`copter.solvers.base.WarmStartable`)."""
    IN_PLACE = enum.auto()
    """Solves the program's store itself, without a second model that edits must be copied to."""
    DIFFERENTIAL_EDITS = enum.auto()
    """Applies the edits of a round to its model; a solver without the feature rebuilds its model."""
    DEADLINE = enum.auto()
    """Returns its best solution so far when the deadline is over."""
    CANCEL = enum.auto()
    """Ends soon after :meth:`copter.solvers.base.Solver.cancel`, at any point of a solve."""
    THREADS = enum.auto()
    """Uses as many threads as its setting ``threads`` specifies."""
    SAVED_STATE = enum.auto()
    """Has state between rounds that can be written to a snapshot or a journal."""
    COMPILES = enum.auto()
    """Compiles kernels during the first solves, which therefore take longer."""


def check_features(name: str, features: Feature, program: ContinualProgram) -> None:
    """Raise UnsupportedError if a program has convex terms and the solver cannot handle them.

    Integral requests are not rejected: a solver without the feature INTEGRALITY solves the relaxation, and a
    shim can round its solution.
    """
    if Feature.CONVEX_TERMS not in features:
        refuse_terms(program, f"solver {name!r}")
