"""What a benchmark measures: a course of rounds that any solver can run, each for itself.

A course knows how to play its rounds with one solver and gives a record a round.  Some courses are open
loops: the same edits for every solver, recorded once (:class:`copter.bench.recording.Recorded`).  Others are
closed: what a round looks like depends on the solver's own last allocation, and every solver drives a model
of its own through the same events.  Methods that solve no linear program (heuristics, decompositions) are
names of their course, not of :data:`copter.solvers.registry.SOLVERS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from copter.bench.settings import Record, SolverSettings
from copter.program.program import ContinualProgram
from copter.proof.integer import integer_figures
from copter.ray.distributed import DistributedProgram
from copter.solvers.features import Feature

if TYPE_CHECKING:
    from copter.bench.result_files import SolverResult
    from copter.solution import Solution
    from copter.solvers.base import Solver

COMPLETE = "complete"
"""Status of a method that ran to its end, which proves nothing about the quality of its answer."""


@dataclass(frozen=True)
class Figure:
    """A field that a course adds to its records, and how the printed table shows it.

    Attributes
    ----------
    name : str
        Of the field; a number (or a truth value, whose mean is a share).
    heading : str
        Of the column.
    shown : str
        Statistic of the rounds: "median", "mean", "p99", "min" or "max".
    form : str
        A format specification, as ``.1%``.
    """

    name: str
    heading: str
    shown: str = "median"
    form: str = ".3g"

    def show(self, figures: Mapping[str, Any]) -> str:
        """Return the figure as the table shows it, with the number of rounds that have none."""
        value, missing = figures[self.shown], figures["not_finite"]
        text = format(value, self.form) if math.isfinite(value) else "-"
        return f"{text}, {missing} without" if missing else text


@dataclass
class Play:
    """A course in progress with one solver.

    Attributes
    ----------
    records : iterator of Record
        One a round, made on demand.
    stopping : dict
        The solver's stopping tolerances (:meth:`copter.solvers.base.Solver.stopping`).
    program : ContinualProgram, optional
        The linear program of its rounds, if it has one: the warm-up also solves it by coordinate descent.
    """

    records: Iterator[Record]
    stopping: dict[str, float] = field(default_factory=dict)
    program: ContinualProgram | None = None

    def close(self) -> None:
        """Give back what the program holds in other processes."""
        if isinstance(self.program, DistributedProgram):
            self.program.close()


class Course(ABC):
    """Rounds that solvers are measured on. It is picklable, because each solver may run in a process of its
    own.

    Attributes
    ----------
    figures : sequence of Figure
        Fields of its records beyond those of :func:`solve_round`.
    left_out : int
        Rounds at the start that the summary leaves out: 1 (the cold one) or more.
    kind : str, optional
        Field of its records with the kind of a round; each kind also gets a summary of its own.
    """

    figures: ClassVar[Sequence[Figure]] = ()
    left_out: int = 1
    kind: ClassVar[str | None] = None

    @abstractmethod
    def small(self) -> Course:
        """Return a small course of the same kind, for an untimed first run.

        It must be large enough for every kernel to be compiled, passes that use threads included (more than
        50,000 columns).
        """

    @abstractmethod
    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds with the solver ``settings.make()``, or with a method of the course's own."""

    def compare(self, measured: Sequence[SolverResult]) -> None:  # noqa: B027 - most courses compare nothing
        """Add to the records what needs those of all solvers, such as the best known objective."""


def solve_round(
    number: int,
    program: ContinualProgram,
    solver: Solver,
    store_seconds: float,
    finish: Callable[[Solution], Mapping[str, Any]],
) -> Record:
    """Solve a program and finish the allocation, as a record.

    Parameters
    ----------
    store_seconds : float
        Seconds in which the round's events became edits of the program.
    finish : callable
        Makes the allocation from the solution (by a shim or a repair) in `rounding_seconds` seconds, and
        returns
        `answer_objective`, `answer_gap` (NaN without an allocation) and the course's own figures. For a
        solution without an allocation there is nothing to finish: the round is `missed`, and the last
        allocation stays.
    """
    begin = perf_counter()
    solution = solver.solve(program)
    wall = perf_counter() - begin
    t_model, solve_seconds = solver.seconds(solution, wall)
    edit_seconds = t_model + (store_seconds if Feature.IN_PLACE in solver.features else 0.0)
    begin = perf_counter()
    finished = finish(solution)
    rounding_seconds = perf_counter() - begin
    times = RoundTimes(
        edit_seconds, solve_seconds, rounding_seconds, store_seconds, wall - t_model - solve_seconds
    )
    return solved_record(solver.name, number, program, solution, times) | dict(finished)


class RoundTimes(NamedTuple):
    """Seconds of a round, see :mod:`copter.bench.rounds`."""

    edit: float
    solve: float
    shim: float
    store: float
    certify: float


def solved_record(
    name: str, number: int, program: ContinualProgram, solution: Solution, times: RoundTimes
) -> Record:
    """Return the record of a round that a solver of this name solved, but for what its allocation came to."""
    return method_round(
        name,
        number,
        edit_seconds=times.edit,
        solve_seconds=times.solve,
        rounding_seconds=times.shim,
        store_seconds=times.store,
        certify_seconds=times.certify,
        n_variables=program.n_variables,
        n_rows=program.n_rows,
        nnz=program.nnz,
        status=str(solution.status),
        missed=not solution.found,
        primal_residual=solution.primal_residual,
        dual_residual=solution.dual_residual,
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
    """Return the record of a round by a method without a linear program, whose figures are 0 or NaN by
    default.

    Parameters
    ----------
    **fields
        Known figures, the course's own included.
    """
    nothing = ("primal_residual", "dual_residual", "gap", "objective", "bound")
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
