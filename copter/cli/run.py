"""What every `copter run` does: rounds under a progress bar, a folder that keeps them, a table at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from copter.cli.command import RunOptions, command_line
from copter.cli.console import errors, print_json, progress, table
from copter.cli.runfolder import RowFile, RunFolder
from copter.compile.first_calls import compile_at_once
from copter.rounds.record import ROW_MEANS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from copter.bench.course import Course
    from copter.bench.settings import Record, SolverSettings

One = TypeVar("One")

COLUMNS: Mapping[str, str] = {name: means for name, means in ROW_MEANS.items() if name != "edited"} | {
    "edit_seconds": "seconds in which the solver's program was brought up to date",
    "solve_seconds": "seconds of the solver: of copter's with the certificate, of a baseline its own run",
    "seconds": "seconds of the round: edit, solve and rounding",
    "store_seconds": "seconds in which events became edits of copter's program",
    "certify_seconds": "seconds of reading and certifying a baseline's answer; not in `seconds`",
    "status": "why the solver stopped; optimal too of a round that needed no solve",
    "gap": "certified relative gap of the solver's answer, or of the round's if it needed no solve",
    "primal_residual": "relative primal residual of the solver's answer",
    "objective": "cost of the solver's answer",
    "bound": "certified lower bound on it",
    "n_variables": "columns of the program",
    "n_rows": "rows of the program, sum rows of requests included",
    "nnz": "nonzeros in the resource rows",
    "iterations": "iterations of the solver",
    "churn": "share of the nonzeros that changed against the last round",
    "warm_started": "whether the solver started from the last round",
}
"""Fields of a record that every course has, and what they mean."""


class CommandRun(ABC):
    """A run with the folder that it writes into, if any, closed with what it holds however the run ends.

    Parameters
    ----------
    path : Path, optional
        Run folder; None writes nothing.
    title : str
        What is run, in a line.
    config : mapping, optional
        What config.json holds besides the options.

    Attributes
    ----------
    summary : dict
        The figures of the run, once it is finished.
    """

    meaning: ClassVar[str] = "the figures of the table"
    """What README.txt says of summary.json."""

    def __init__(
        self, options: RunOptions, path: Path | None, title: str, config: Mapping[str, Any] | None = None
    ) -> None:
        self.options, self.path, self.title = options, path, title
        self.summary: dict[str, Any] = {}
        self._begin = perf_counter()
        self._folder: RunFolder | None = None
        if path is not None:
            settings = options.settings() | dict(config or {})
            self._folder = RunFolder.create(path, f"{title}.", command_line(), settings, force=options.force)

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Return the figures of what was played."""

    @abstractmethod
    def write(self, folder: RunFolder) -> None:
        """Write what is known at the end only: tables and plots."""

    @abstractmethod
    def print_summary(self) -> None:
        """Print the table at the end of a run."""

    def finish(self) -> dict[str, Any]:
        """Write what is known at the end; return the figures of the run."""
        self.summary = self.figures() | {"wall_seconds": perf_counter() - self._begin}
        if self._folder is not None:
            self.write(self._folder)
            self._folder.write_json("summary.json", self.summary, self.meaning)
        return self.summary

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.__exit__(kind, error, trace)


class CourseRun(CommandRun):
    """A run of a course with one solver, a row of rounds.csv for each of its records.

    Parameters
    ----------
    columns : mapping of str to str
        Fields of the records that rounds.csv holds besides :data:`COLUMNS`, and what they mean; or other
        words for one of these.
    """

    def __init__(
        self,
        course: Course,
        chosen: SolverSettings,
        columns: Mapping[str, str],
        options: RunOptions,
        path: Path | None,
        title: str,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(options, path, title, config)
        self.chosen = chosen
        self.records: list[Record] = []
        self._played, self._columns = course, {**COLUMNS, **columns}

    def rounds(self) -> Iterator[Record]:
        """Play the rounds; each is in rounds.csv before it is given."""
        rows: RowFile | None = None
        if self._folder is not None:
            rows = self._folder.rows("rounds.csv", self._columns, "a row per round:")
        for record in self._played.play(self.chosen).records:
            self.records.append(record)
            if rows is not None:
                rows.write({name: record[name] for name in self._columns})
            yield record

    def of(self, name: str, *, later: bool = False) -> NDArray[np.float64]:
        """Return a field of all records; `later`, without those that the course leaves out of averages."""
        chosen = (self.records[self._played.left_out :] or self.records) if later else self.records
        return np.array([record[name] for record in chosen], float)


def follow(
    rounds: Iterable[One],
    what: str,
    total: int,
    show: Callable[[One], str],
    *,
    done: Callable[[], int] | None = None,
    quiet: bool = False,
) -> None:
    """Play all rounds under a progress bar.

    Parameters
    ----------
    what : str
        What the bar counts, of which there are `total`.
    show : callable
        Text beside the bar after a round.
    done : callable, optional
        How many are done so far; without it the bar counts rounds.
    """
    bar = progress("{task.fields[now]}", quiet=quiet)
    with bar:
        task = bar.add_task(what, total=total, now="")
        for number, record in enumerate(rounds, 1):
            bar.update(task, completed=number if done is None else done(), now=show(record))


def conclude(run: CommandRun, **first: Any) -> None:
    """Finish a run, and print its table or its JSON object, in which `first` stands before the summary."""
    summary = first | run.finish()
    if run.options.as_json:
        print_json(summary)
        return
    run.print_summary()
    errors().print(f"Run folder: {run.path}")


def preparing(solver: str) -> None:
    """Say that kernels are compiled before the rounds begin, which they are from now on."""
    compile_at_once()
    errors().print(f"preparing {solver} (the first run ever compiles its kernels)")


def print_figures(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a table of two columns, figures and their values."""
    table(title, ("figure", "value"), rows)
