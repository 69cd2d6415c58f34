"""What a benchmark is: a course with its options, who is measured on it, and how answers are judged.

`copter bench X` makes a case from its options and runs it; the suite runs those that the installed packages
list.  A domain lists its own in a module that the entry-point group ``copter.lines`` names, as
``sia = "copter.problems.sia.lines:lines"``: a function from :class:`Inputs` to a sequence of :class:`Case`.
A new line of the suite is one entry of such a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    data : Path, optional
        Folder with real inputs; without it all are generated.
    lps : Path, optional
        Folder of linear programs (MPS, LP, npz); without it they are generated.
    """

    seed: int = 0
    data: Path | None = None
    lps: Path | None = None


@dataclass(frozen=True)
class Case:
    """A program, its rounds, and the solvers measured on them.

    Attributes
    ----------
    name, family, title
        As of :class:`copter.bench.result_files.LineResult`.
    make : callable
        From a scratch folder to the course. It must be picklable, because the suite calls it in another
        process.
    solvers : tuple of str
        The first is copter's, which is compared with the others.
    rounds : int
        0 for all of the course.
    x : mapping of str to float
        Its place on the axes of figures; ``columns`` also decides which solvers it is too large for.
    tolerance : float
        Relative, of residuals and gap.
    left_out : int
        Rounds at the start that are in no statistic.
    checker : str
        A key of :data:`copter.bench.checks.CHECKERS`.
    mip_gap : float
        Gap at which branch and bound stops.
    patience : float
        Factor on the suite's limit of a solve, and on the seconds of all rounds of a solver: more for the
        largest.
    ladder : str
        Cases of one ladder grow in columns: a solver that misses its limit on one does not run on larger
        ones. By default the family.
    own_rounds : bool
        Whether a round depends on the solver's own last answer, so that solvers may have different programs.
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
        """Columns of its program, about."""
        return self.x.get("columns", 0.0)

    @property
    def step_of(self) -> str:
        """The ladder that it is a step of."""
        return self.ladder or self.family

    def line(self, command: str, solvers: Sequence[str], threads: int | None, limit: float) -> LineResult:
        """Return the line of its results, of no solver yet."""
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
    """A course that needs no files, for :attr:`Case.make`."""
    return course


def all_cases(profile: Profile, inputs: Inputs) -> list[Case]:
    """Cases of a profile that the installed packages know, by family and size."""
    found: list[Case] = []
    for entry in installed(_GROUP).values():
        found.extend(case for case in entry.load()(inputs) if profile in case.profiles)
    rank = {family: number for number, family in enumerate(FAMILIES)}
    return sorted(found, key=lambda case: (rank[case.family], case.step_of, case.columns))
