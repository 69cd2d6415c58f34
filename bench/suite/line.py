"""What a line of the suite is, and where lines come from.

A domain lists its own in a module that the entry-point group ``copter.lines`` names, as
``sia = "copter.problems.sia.lines:lines"``: a function from :class:`Inputs` to a sequence of :class:`Line`.
A new line is one entry of such a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from copter.bench.course import Course
from copter.bench.suite.results import FAMILIES, Family

GROUP = "copter.lines"
Profile: TypeAlias = Literal["quick", "full"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

COPTER = ("copter", "copter-cold", "copter-newton", "copter-rebuild")
HIGHS = ("highs-hot", "highs-simplex", "highs-ipm", "highs-pdlp")
ORTOOLS = ("glop", "pdlp")
CVXPY = ("clarabel", "scs", "osqp")
EVERY_LP = (*COPTER, *HIGHS, *ORTOOLS, *CVXPY)
"""Solvers that take any linear program."""
LABELS = {
    "highs-hot": "HiGHS, hot",
    "highs-simplex": "HiGHS simplex",
    "highs-ipm": "HiGHS IPM",
    "highs-pdlp": "HiGHS PDLP",
    "highs-milp": "HiGHS branch and bound",
    "glop": "OR-Tools GLOP",
    "pdlp": "OR-Tools PDLP",
    "clarabel": "cvxpy, Clarabel",
    "scs": "cvxpy, SCS",
    "osqp": "cvxpy, OSQP",
    "dede": "DeDe, its own stopping rule",
    "dede-ours": "DeDe, our stopping rule",
    "lp-top": "demand pinning",
    "shortest": "shortest paths",
}
"""Names for people; a solver that is not here is shown by its own."""


@dataclass(frozen=True)
class Inputs:
    """What lines are made from.

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
class Line:
    """A program and its rounds, and who is measured on them.

    Attributes
    ----------
    name, family, title
        As of :class:`copter.bench.suite.results.LineResult`.
    make : callable
        From a scratch folder to the course; picklable: it is called in a process of its own.
    solvers : tuple of str
        The first is copter's, that is held against the others.
    x : mapping of str to float
        Where the line stands on the axes of figures; ``columns`` also says what is too large for whom.
    tolerance : float
        Relative, of residuals and gap.
    left_out : int
        Rounds at the start that belong in no statistic.
    checker : str
        A key of :data:`copter.bench.suite.checker.CHECKERS`.
    mip_gap : float
        At which branch and bound stops.
    patience : float
        Times the suite's limit that a solve of this line may take: more for the largest.
    ladder : str
        Lines of one ladder grow in columns: a solver that misses its limit on one is not asked for larger
        ones.  The family if empty.
    profiles : tuple of str
    own_rounds : bool
        Whether a round hangs on the solver's own last answer: no two solvers need have the same program.
    """

    name: str
    family: Family
    title: str
    make: Callable[[Path], Course]
    solvers: Sequence[str]
    rounds: int
    x: Mapping[str, float]
    tolerance: float = 1e-4
    left_out: int = 1
    checker: str = "certificate"
    mip_gap: float = 1e-3
    patience: float = 1.0
    ladder: str = ""
    profiles: Sequence[Profile] = field(default=("full",))
    own_rounds: bool = False

    @property
    def columns(self) -> float:
        """Columns of its program, about."""
        return self.x.get("columns", 0.0)

    @property
    def step_of(self) -> str:
        """The ladder that it is a step of."""
        return self.ladder or self.family


def as_it_is(course: Course, scratch: Path) -> Course:
    """A course that needs no files, for :attr:`Line.make`."""
    return course


def label_of(solver: str) -> str:
    """Name of a solver for people."""
    if solver.startswith("pop-"):
        return f"POP-{solver.removeprefix('pop-')}"
    return LABELS.get(solver, solver)


def all_lines(profile: Profile, inputs: Inputs) -> list[Line]:
    """Lines of a profile that the installed packages know, by family and size.

    Parameters
    ----------
    profile : "quick" or "full"

    Returns
    -------
    list of Line
    """
    found: list[Line] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        listed: Iterable[Line] = entry.load()(inputs)
        found.extend(line for line in listed if profile in line.profiles)
    rank = {family: number for number, family in enumerate(FAMILIES)}
    return sorted(found, key=lambda line: (rank[line.family], line.step_of, line.columns))
