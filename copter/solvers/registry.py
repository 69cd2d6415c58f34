"""Registry of the solvers by name: those of this package, and those that other packages register.

A solver of this package has an entry in :data:`_BUILT_IN`.  Another package registers a solver in its
``pyproject.toml``:

    [project.entry-points."copter.solvers"]
    mine = "my_package.solver:MySolver"

The class is called as ``MySolver(name="mine", **settings)``; its summary is the first line of its docstring.
A solver's module is imported only when the solver is made. The module of a registered solver is also imported
when its summary is read.
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
    """Name, class and preset of a solver.

    Attributes
    ----------
    name : str
        Name of the solver.
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
        """One-line description; reading it imports the class of another package's solver."""
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
            If the import failed; the cause is attached.
        CopterError
            If a package that the solver needs is not installed.
        """
        module, _, name = self.target.partition(":")
        try:
            solver_class: type[Solver] = getattr(importlib.import_module(module), name)
        except CopterError:  # its message names the missing package
            raise
        except Exception as error:  # another package's module may raise anything
            what = f"solver {self.name!r} ({self.target}) cannot be loaded"
            raise UnknownSolverError(f"{what}: {type(error).__name__}: {error}") from error
        return solver_class

    def make(self, **settings: Any) -> Solver:
        """Make the solver with settings of its class, which override the preset.

        Raises
        ------
        TypeError
            If the solver has no such setting; the message has the most similar name and all settings.
        SettingError
            If a value is invalid.
        """
        solver_class = self.load()
        call = f"solver {self.name!r}: {solver_class.__name__}"
        check_keywords(call, settings, setting_defaults(solver_class))
        return solver_class(name=self.name, **{**self.preset, **settings})


class Registry(Mapping[str, SolverEntry]):
    """The solvers by name, this package's first; entry points are read only when they are needed."""

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
    SolverEntry(
        "copter",
        _PROXIMAL,
        "proximal point, or simplex where it is faster; warm",
        {"engine": "fastest"},
    ),
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
"""Mapping from each name that :func:`make_solver` accepts to its entry.

Examples
--------
>>> from copter.solvers.api import SOLVERS
>>> SOLVERS["highs-hot"].summary
'HiGHS simplex, model and basis kept between rounds'
"""


def solver_entry(name: str, also: tuple[str, ...] = ()) -> SolverEntry:
    """Return the entry of a registered name.

    Parameters
    ----------
    also : tuple of str
        Other names that the caller accepts; the error message lists them too.

    Raises
    ------
    UnknownSolverError
        If the name is not registered; the message has the most similar name and all names.
    """
    if not isinstance(name, str) or name not in SOLVERS:
        raise UnknownSolverError(f"no solver {name!r}; {choices(str(name), [*also, *SOLVERS])}")
    return SOLVERS[name]


def make_solver(name: str, **settings: Any) -> Solver:
    """Make the solver of a registered name.

    Parameters
    ----------
    name : str
        A key of :data:`SOLVERS`.
    **settings
        Settings of the solver's class, for example ``tolerance``, ``time_limit``, ``threads``.

    Returns
    -------
    Solver
        A new solver, without state of earlier rounds.

    Raises
    ------
    UnknownSolverError
        If no solver has this name, or if it cannot be loaded; the message lists the names.
    TypeError
        If the solver has no such setting; the message has the most similar name and all settings.
    SettingError
        If a value is invalid.

    Examples
    --------
    >>> from copter import ContinualProgram, make_solver
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> solution = make_solver("highs-simplex", tolerance=1e-8).solve(program)
    >>> solution.status.value, round(solution.objective, 4)
    ('optimal', -1.8)
    """
    return solver_entry(name).make(**settings)


def repeatable_solver(name: str, **settings: Any) -> Solver:
    """Make a solver as :func:`make_solver` does, with an engine that does not depend on measured times.

    Equal rounds then have equal solutions, as simulations need. Parameters and errors are those of
    :func:`make_solver`.
    """
    entry = solver_entry(name)
    own = {"engine": "proximal"} if "engine" in entry.preset else {}
    return entry.make(**own | settings)
