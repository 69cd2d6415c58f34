"""Solvers of the benchmarks: their labels, their origins, and baselines that are only measured.

A solver is copter's own if the module of its class is listed as copter's below; its name does not matter
(:mod:`copter.solvers.registry`).  Methods of a course, such as a heuristic, are also listed here.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from copter.solvers.registry import SOLVERS, SolverEntry, solver_entry

_House: TypeAlias = Literal["copter", "variant", "highs", "ortools", "cvxpy", "parts", "other"]
"""Origin of a solver; a variant is copter with settings other than the defaults."""

COPTER = ("copter", "copter-cold")
HIGHS = (
    "highs-dual",
    "highs-primal",
    "highs-presolve",
    "highs-ipm",
    "highs-crossover",
    "highs-pdlp",
)
"""Modes of HiGHS, in the order of their measurement: the first modes are the fastest on most lines."""
ORTOOLS = ("glop", "pdlp")
MODES = {"highs": "HiGHS", "ortools": "OR-Tools", "cvxpy": "cvxpy"}
"""Labels of the solvers that are measured in several modes; on each line, the fastest mode counts."""
EVERY_LP = (*COPTER, *HIGHS, *ORTOOLS)
"""Solvers for any linear program."""

_HOT = "copter.solvers.baselines.highs_hot:HighsHot"
BASELINES = {
    entry.name: entry
    for entry in (
        SolverEntry("highs-dual", _HOT, "HiGHS, dual simplex, basis kept", {"strategy": "dual"}),
        SolverEntry("highs-primal", _HOT, "HiGHS, primal simplex, basis kept", {"strategy": "primal"}),
        SolverEntry("highs-presolve", _HOT, "HiGHS, presolve and simplex, cold", {"keep_basis": False}),
        SolverEntry(
            "highs-crossover",
            "copter.solvers.baselines.highs:HighsRebuild",
            "HiGHS, interior point with crossover",
            {"method": "ipm", "crossover": True},
        ),
    )
}
"""Solvers that are only measured; they are not names of :func:`copter.make_solver`."""


class _Entrant(NamedTuple):
    """Label and origin of a solver or a method in reports."""

    label: str
    house: _House


_LABELS = {
    "highs-dual": "HiGHS, dual simplex",
    "highs-primal": "HiGHS, primal simplex",
    "highs-presolve": "HiGHS, presolve",
    "highs-ipm": "HiGHS, interior point",
    "highs-crossover": "HiGHS, crossover",
    "highs-pdlp": "HiGHS, PDLP",
    "highs-hot": "HiGHS, hot",
    "highs-simplex": "HiGHS simplex",
    "highs-milp": "HiGHS branch and bound",
    "glop": "OR-Tools GLOP",
    "pdlp": "OR-Tools PDLP",
}
"""Labels of solvers; the label of any other solver is its name."""
_METHODS: dict[str, _Entrant] = {
    "cvxpy": _Entrant("cvxpy", "cvxpy"),
    "lp-top": _Entrant("demand pinning", "other"),
    "shortest": _Entrant("shortest paths", "other"),
}
_HOUSES: dict[str, _House] = {
    "copter.solvers.proximal.solver": "copter",
    "copter.solvers.exact.solver": "copter",
    "copter.solvers.baselines.highs": "highs",
    "copter.solvers.baselines.highs_hot": "highs",
    "copter.solvers.baselines.ortools_lp": "ortools",
}
"""Origins of solvers, by the module of the class."""


def entry_of(name: str) -> SolverEntry:
    """Return the entry of a baseline or a registered solver; raise an error that lists the known names."""
    return BASELINES.get(name) or solver_entry(name)


def entrant(name: str) -> _Entrant:
    """Return the label and the origin of a solver or a method."""
    entry = BASELINES.get(name) or SOLVERS.get(name)
    if entry is None:
        if parts := re.fullmatch(r"pop-(.+)", name):
            return _Entrant(f"POP-{parts[1]}", "parts")
        return _METHODS.get(name, _Entrant(name, "other"))
    house = _HOUSES.get(entry.target.partition(":")[0], "other")
    return _Entrant(_LABELS.get(name, name), "variant" if house == "copter" and entry.preset else house)


def is_ours(name: str) -> bool:
    """Return whether a solver is copter or a variant of it."""
    return entrant(name).house in ("copter", "variant")
