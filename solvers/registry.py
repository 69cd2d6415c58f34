"""The solvers by name: those of this package, and those that other packages add.

A solver of this package is a line of :data:`_BUILT_IN`.  Another package's is one of its ``pyproject.toml``,

    [project.entry-points."copter.solvers"]
    mine = "my_package.solver:MySolver"

whose class is called as ``MySolver(name="mine", **settings)``; its line for people is the first of its
docstring.  Nothing is imported until a solver is made, or a line of somebody else's is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from copter.errors import CopterError, UnknownSolverError, choices
from copter.keywords import check_keywords
from copter.solvers.settings import setting_defaults

if TYPE_CHECKING:
    from copter.solvers.base import Solver

_GROUP = "copter.solvers"


@dataclass(frozen=True)
class SolverEntry:
    """A solver's name and class.

    Attributes
    ----------
    target : str
        Module and class, as ``package.module:Class``.
    line : str
        One-line description; by default the first line of the class's docstring.
    preset : mapping of str to object
        Settings that belong to the name.
    """

    name: str
    target: str
    line: str = ""
    preset: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """One line for people; for another package's solver this imports it."""
        if self.line:
            return self.line
        try:
            text = self.load().__doc__ or ""
        except CopterError as error:
            return str(error)
        return text.strip().partition("\n")[0].rstrip(".") or self.target

    def load(self) -> type[Solver]:
        """Import the class.

        Raises
        ------
        UnknownSolverError
            The import failed; the cause is attached.
        CopterError
            A package that the solver needs is missing.
        """
        module, _, name = self.target.partition(":")
        try:
            solver_class: type[Solver] = getattr(importlib.import_module(module), name)
        except CopterError:  # says itself what is missing
            raise
        except Exception as error:  # whatever somebody else's module raises
            what = f"solver {self.name!r} ({self.target}) cannot be loaded"
            raise UnknownSolverError(f"{what}: {type(error).__name__}: {error}") from error
        return solver_class

    def make(self, **settings: Any) -> Solver:
        """Make the solver with settings of its class, which override the preset.

        Raises
        ------
        TypeError
            The solver has no such setting; names the nearest and all that exist.
        SettingError
            A value is invalid.
        """
        solver_class = self.load()
        call = f"solver {self.name!r}: {solver_class.__name__}"
        check_keywords(call, settings, setting_defaults(solver_class))
        return solver_class(name=self.name, **{**self.preset, **settings})


class Registry(Mapping[str, SolverEntry]):
    """The solvers by name, this package's first; others are looked for when a name is not among those."""

    def __init__(self, built_in: Mapping[str, SolverEntry]) -> None:
        self._built_in = built_in

    @cached_property
    def _others(self) -> dict[str, SolverEntry]:
        found = {entry.name: SolverEntry(entry.name, entry.value) for entry in entry_points(group=_GROUP)}
        return {name: entry for name, entry in sorted(found.items()) if name not in self._built_in}

    def __getitem__(self, name: str) -> SolverEntry:
        return self._built_in[name] if name in self._built_in else self._others[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from self._others

    def __len__(self) -> int:
        return len(self._built_in) + len(self._others)


_PROXIMAL = "copter.solvers.proximal.solver:ProximalPoint"
_HIGHS = "copter.solvers.baselines.highs:HighsRebuild"
_ORTOOLS = "copter.solvers.baselines.ortools_lp"
_BUILT_IN = (
    SolverEntry("copter", _PROXIMAL, "proximal point, warm, inner solver chosen"),
    SolverEntry(
        "copter-cd",
        _PROXIMAL,
        "proximal point, warm, coordinate descent",
        {"inner": "cd", "fall_back": False},
    ),
    SolverEntry(
        "copter-newton",
        _PROXIMAL,
        "proximal point, warm, Newton-CG",
        {"inner": "newton", "fall_back": False},
    ),
    SolverEntry("copter-cold", _PROXIMAL, "proximal point, cold every round", {"warm_start": False}),
    SolverEntry(
        "copter-exact",
        "copter.solvers.exact.solver:ExactSolver",
        "proven integer optima: relaxation, fixing, branch and bound, warm",
    ),
    SolverEntry(
        "copter-rebuild",
        "copter.solvers.rebuild:Rebuild",
        "proximal point, warm, program rebuilt every round",
    ),
    SolverEntry(
        "highs-hot",
        "copter.solvers.baselines.highs_hot:HighsHot",
        "HiGHS simplex, model and basis kept between rounds",
    ),
    SolverEntry("highs-simplex", _HIGHS, "HiGHS simplex, rebuilt every round", {"method": "simplex"}),
    SolverEntry("highs-ipm", _HIGHS, "HiGHS interior point, rebuilt every round", {"method": "ipm"}),
    SolverEntry("highs-pdlp", _HIGHS, "HiGHS PDLP, rebuilt every round", {"method": "pdlp"}),
    SolverEntry("highs-milp", _HIGHS, "HiGHS branch and bound, rebuilt each round", {"method": "milp"}),
    SolverEntry("glop", f"{_ORTOOLS}:Glop", "OR-Tools GLOP, rebuilt every round"),
    SolverEntry("pdlp", f"{_ORTOOLS}:Pdlp", "OR-Tools PDLP, warm from the last solution"),
)

SOLVERS: Mapping[str, SolverEntry] = Registry({entry.name: entry for entry in _BUILT_IN})
"""Every solver that :func:`make_solver` makes, by name."""


def solver_entry(name: str, also: tuple[str, ...] = ()) -> SolverEntry:
    """Return the entry of a registered name.

    Parameters
    ----------
    also : tuple of str
        Names that the caller accepts in addition to registered ones, for the error.

    Raises
    ------
    UnknownSolverError
        Names the nearest and all known ones.
    """
    if not isinstance(name, str) or name not in SOLVERS:
        raise UnknownSolverError(f"no solver {name!r}; {choices(str(name), [*also, *SOLVERS])}")
    return SOLVERS[name]


def make_solver(name: str, **settings: Any) -> Solver:
    """Return the solver of a registered name.

    Parameters
    ----------
    name : str
        A key of :data:`SOLVERS`.
    **settings
        Of the solver's class, for example ``tolerance``, ``deadline``, ``threads``.

    Raises
    ------
    UnknownSolverError
        No solver has this name, or it cannot be loaded; names the known ones.
    TypeError
        The solver has no such setting; names the nearest and all that exist.
    SettingError
        A value is invalid.
    """
    return solver_entry(name).make(**settings)
