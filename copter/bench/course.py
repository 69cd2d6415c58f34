"""Course: a benchmark scenario of rounds that any solver can run.

A course plays its rounds with one solver and yields a record for each round.  Some courses are open loops:
all solvers get the same edits, for example recorded ones (:class:`copter.bench.recording.Recorded`).  Other
courses are closed loops: a round depends on the solver's own last allocation, and every solver has its own
model; the events are the same for all solvers.  Methods that do not solve a linear program (heuristics,
decompositions) belong to a course, and are not in :data:`copter.solvers.registry.SOLVERS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from copter.bench.settings import Record, SolverSettings
from copter.program.program import ContinualProgram
from copter.proof.integer import integer_figures
from copter.ray.distributed import DistributedProgram
from copter.solution import Solution
from copter.solvers.features import Feature

if TYPE_CHECKING:
    from copter.bench.result_files import SolverResult
    from copter.rounds.record import RoundRecord
    from copter.solvers.base import Solver

COMPLETE = "complete"
"""Status of a method that ended normally, which implies nothing about the quality of the answer."""


@dataclass(frozen=True)
class Figure:
    """A field that a course adds to its records, and its format in the printed table.

    Attributes
    ----------
    name : str
        Name of the field; its value is a number, or a Boolean, whose mean is a share.
    heading : str
        Heading of the column.
    shown : str
        Statistic over the rounds: "median", "mean", "p99", "min" or "max".
    form : str
        Format specification, such as ``.1%``.
    """

    name: str
    heading: str
    shown: str = "median"
    form: str = ".3g"

    def show(self, figures: Mapping[str, Any]) -> str:
        """Return the text of the figure for the table, with the number of rounds without a value."""
        value, missing = figures[self.shown], figures["not_finite"]
        text = format(value, self.form) if math.isfinite(value) else "-"
        return f"{text}, {missing} without" if missing else text


@dataclass
class Play:
    """A course in progress with one solver.

    Attributes
    ----------
    records : iterator of Record
        A record for each round; the round is played when its record is requested.
    stopping : dict
        The solver's stopping tolerances (:meth:`copter.solvers.base.Solver.stopping`).
    program : ContinualProgram, optional
        Linear program of the rounds, if there is one; the warm-up prepares the solver for it.
    """

    records: Iterator[Record]
    stopping: dict[str, float] = field(default_factory=dict)
    program: ContinualProgram | None = None

    def close(self) -> None:
        """Release the program's data in other processes, if it has any."""
        if isinstance(self.program, DistributedProgram):
            self.program.close()


class Course(ABC):
    """Base class of benchmark scenarios; picklable, because each solver may run in a separate process.

    Attributes
    ----------
    figures : sequence of Figure
        Fields of the records in addition to those of :func:`solved_record`.
    left_out : int
        Number of rounds at the start that the summary excludes, usually 1: the cold round.
    """

    figures: ClassVar[Sequence[Figure]] = ()
    left_out: int = 1

    @abstractmethod
    def small(self) -> Course:
        """Return a small course of the same kind, for an untimed warm-up.

        It must be so large that every kernel is compiled, including the passes that use threads, which need
        more than 50,000 columns.
        """

    @abstractmethod
    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds with the solver ``settings.make()``, or with a method of the course."""

    def compare(self, measured: Sequence[SolverResult]) -> None:  # noqa: B027 - most courses compare nothing
        """Add fields that depend on the records of all solvers, such as the loss against the best one."""


class Rounding:
    """Rounding after the solve of a round; by default, nothing is done."""

    def __call__(self, solution: Solution) -> Record:
        """Make the allocation from a solution, by a shim or a repair; its time is `rounding_seconds`.

        Return `answer_objective`, `answer_gap` (NaN without an allocation) and the course's own figures. For
        a solution without an allocation, return only fields that do not need one: the round is `missed`, and
        the last allocation remains.
        """
        return {}

    def figures(self) -> Record:
        """Return figures of the allocation, outside the measured time."""
        return {}


class EditedCourse(Course):
    """Rounds that consist of edits of one program, the same for every solver."""

    @abstractmethod
    def edits(self, program: ContinualProgram) -> Iterator[Iterable[Callable[[], object]]]:
        """Yield the edits of each round, for an empty program; only the time of their calls is measured."""

    def rounding(self, program: ContinualProgram) -> Rounding:
        """Return the rounding after each solve of a program."""
        return Rounding()

    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds with a new program."""
        solver, program = settings.make(), settings.program()
        return Play(self._records(solver, program), solver.stopping(), program)

    def _records(self, solver: Solver, program: ContinualProgram) -> Iterator[Record]:
        rounding = self.rounding(program)
        for number, edits in enumerate(self.edits(program)):
            store_seconds = 0.0
            for edit in edits:
                begin = perf_counter()
                edit()
                store_seconds += perf_counter() - begin
            begin = perf_counter()
            solution = solver.solve(program)
            wall = perf_counter() - begin
            model, solve = solver.seconds(solution, wall)
            begin = perf_counter()
            finished = rounding(solution)
            rounding_seconds = perf_counter() - begin
            edit_seconds = model + (store_seconds if Feature.IN_PLACE in solver.features else 0.0)
            times = RoundTimes(edit_seconds, solve, rounding_seconds, store_seconds, wall - model - solve)
            record = solved_record(solver.name, number, program, solution, times)
            yield record | finished | rounding.figures()


class RoundTimes(NamedTuple):
    """Seconds of the parts of a round (:mod:`copter.bench.rounds`)."""

    edit: float
    solve: float
    rounding: float
    store: float
    certify: float

    @classmethod
    def of(cls, played: RoundRecord, solver: Solver) -> RoundTimes:
        """Return the seconds of a :class:`copter.Rounds` round that count for its solver."""
        assert isinstance(played.solution, Solution)
        seconds = played.seconds
        model, solve = solver.seconds(played.solution, seconds.solve)
        edit = model + (seconds.edit if Feature.IN_PLACE in solver.features else 0.0)
        return cls(edit, solve, seconds.rounding, seconds.edit, seconds.solve - model - solve)


def solved_record(
    name: str, number: int, program: ContinualProgram, solution: Solution, times: RoundTimes
) -> Record:
    """Return the record of a solved round, without the fields about its allocation."""
    return method_round(
        name,
        number,
        **{f"{part}_seconds": value for part, value in times._asdict().items()},
        n_variables=program.n_variables,
        n_rows=program.n_rows,
        nnz=program.nnz,
        status=str(solution.status),
        missed=not solution.found,
        primal_residual=solution.primal_residual,
        gap=solution.gap,
        objective=solution.objective,
        bound=solution.bound,
        churn=solution.churn,
        iterations=solution.iterations,
        warm_started=solution.warm_started,
        **integer_figures(solution.integer),
    )


def method_round(
    name: str,
    number: int,
    *,
    solve_seconds: float,
    edit_seconds: float = 0.0,
    rounding_seconds: float = 0.0,
    **fields: Any,
) -> Record:
    """Return the record of a round that a method plays without a linear program.

    Parameters
    ----------
    **fields
        Known figures, including the course's own; all other figures are 0 or NaN.
    """
    nothing = ("primal_residual", "gap", "objective", "bound")
    return {
        "solver": name,
        "round": number,
        "n_variables": 0,
        "n_rows": 0,
        "nnz": 0,
        "edit_seconds": edit_seconds,
        "solve_seconds": solve_seconds,
        "rounding_seconds": rounding_seconds,
        "seconds": edit_seconds + solve_seconds + rounding_seconds,
        "store_seconds": 0.0,
        "certify_seconds": 0.0,
        "accept_seconds": 0.0,
        "path": "solved",
        "late": False,
        "reason": "",
        "status": COMPLETE,
        "missed": False,
        **dict.fromkeys((*nothing, "answer_objective", "answer_bound", "answer_gap"), math.nan),
        **integer_figures(None),
        "churn": math.nan,
        "iterations": 0,
        "warm_started": False,
        **fields,
    }
