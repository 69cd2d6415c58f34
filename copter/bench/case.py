"""Case of a benchmark: a course with its options, its solvers and its checker.

`copter bench X` makes a case from its options and runs it; the suite runs the cases that the installed
packages list.  A domain lists its cases through an entry point of the group ``copter.lines``, for example
``sia = "copter.problems.sia.lines:lines"``: a function that returns a sequence of :class:`Case`, given
:class:`Inputs`.  The cases of copter's own domains are the rows of suite.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from copter.bench.checks import CHECKERS
from copter.bench.course import Course
from copter.bench.result_files import FAMILIES, LineResult
from copter.installed import installed

_GROUP = "copter.lines"
Profile: TypeAlias = Literal["quick", "full"]
PROFILES: tuple[Profile, ...] = get_args(Profile)


@dataclass(frozen=True)
class Inputs:
    """Inputs of the suite's cases.

    Attributes
    ----------
    seed : int
        Seed of generated inputs.
    data : Path, optional
        Folder with real inputs; by default, all inputs are generated.
    lps : Path, optional
        Folder with linear programs (MPS, LP); by default, they are generated.
    """

    seed: int = 0
    data: Path | None = None
    lps: Path | None = None


@dataclass(frozen=True)
class Case:
    """A program, its rounds, and the solvers that are measured on it.

    Attributes
    ----------
    name, family, title
        As in :class:`copter.bench.result_files.LineResult`.
    make : callable
        Function that returns the course, given a folder for temporary files. It must be picklable, because
        the suite calls it in another process.
    solvers : tuple of str
        Names of the solvers. The first solver is copter's; all other solvers are compared with it.
    rounds : int
        Number of rounds; 0 for all rounds of the course.
    x : mapping of str to float
        Coordinates on the axes of figures; the suite also uses ``columns`` to decide which solvers to run.
    tolerance : float
        Relative tolerance of residuals and gap.
    left_out : int
        Number of rounds at the start that are excluded from statistics.
    checker : str
        A key of :data:`copter.bench.checks.CHECKERS`.
    mip_gap : float
        Gap at which branch and bound stops.
    patience : float
        Factor on the suite's limits for a solve and for all rounds of a solver; larger for the largest cases.
    ladder : str
        Name of a sequence of cases with increasing numbers of columns, by default the family. A solver that
        misses its limit on a case does not run on larger cases of the sequence.
    profiles : sequence of "quick" or "full"
        Profiles of the suite that include the case.
    own_rounds : bool
        True if a round depends on the solver's own last answer, so that solvers may get different programs.
    """

    name: str
    family: str
    title: str
    make: Callable[[Path], Course]
    solvers: Sequence[str] = ()
    rounds: int = 0
    x: Mapping[str, float] = field(default_factory=dict)
    tolerance: float = 1e-4
    left_out: int = 1
    checker: str = "certificate"
    mip_gap: float = 1e-3
    patience: float = 1.0
    ladder: str = ""
    profiles: Sequence[Profile] = ("full",)
    own_rounds: bool = False

    @property
    def columns(self) -> float:
        """Approximate number of columns of the program."""
        return self.x.get("columns", 0.0)

    @property
    def step_of(self) -> str:
        """Name of the sequence of sizes to which the case belongs."""
        return self.ladder or self.family

    def line(self, command: str, solvers: Sequence[str], threads: int | None, limit: float) -> LineResult:
        """Return the line of results, without a solver's result."""
        return LineResult(
            self.name,
            self.family,
            self.title,
            command,
            self.tolerance,
            threads,
            self.rounds,
            self.left_out,
            limit,
            dict(self.x),
            CHECKERS[self.checker].sentence,
            tuple(solvers),
            own_rounds=self.own_rounds,
        )


def as_it_is(course: Course, scratch: Path) -> Course:
    """Return a course, for the :attr:`Case.make` of a course that needs no files."""
    return course


def listed(domain: str, make: Callable[..., Case], inputs: Inputs) -> list[Case]:
    """Return the cases of a domain's rows in suite.toml.

    `make`: function that returns the case of a row, given the inputs, and the name and size in the row.
    """
    table = tomllib.loads(Path(__file__).with_name("suite.toml").read_text(encoding="utf-8"))
    return [
        replace(make(inputs, name, **size), profiles=(profile,), **case)
        for profile in PROFILES
        for name, size in table[profile][domain].items()
        for case in (size.pop("case", {}),)
    ]


def all_cases(profile: Profile, inputs: Inputs) -> list[Case]:
    """Return the cases of a profile in all installed packages, sorted by family and size."""
    found: list[Case] = []
    for entry in installed(_GROUP).values():
        found.extend(case for case in entry.load()(inputs) if profile in case.profiles)
    rank = {family: number for number, family in enumerate(FAMILIES)}
    return sorted(found, key=lambda case: (rank.get(case.family, len(rank)), case.step_of, case.columns))
