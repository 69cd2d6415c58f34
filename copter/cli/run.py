"""Common part of all `copter run` commands: a progress bar, the run folder, and the table at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from copter.bench.course import Figure
from copter.bench.statistics import five_statistics
from copter.cli.command import RunOptions, command_line
from copter.cli.console import errors, print_json, progress, seconds, table
from copter.cli.plots import over_time, round_times
from copter.cli.runfolder import RowFile, RunFolder
from copter.compile.first_calls import compile_at_once
from copter.rounds.record import ROW_MEANS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from copter.bench.course import Course
    from copter.bench.settings import Record, SolverSettings

One = TypeVar("One")

_NOT_IN_RECORDS = ("edited", "relaxation_gap")
COLUMNS: Mapping[str, str] = {
    name: means for name, means in ROW_MEANS.items() if name not in _NOT_IN_RECORDS
} | {
    "edit_seconds": "seconds of updating the solver's model",
    "solve_seconds": "seconds of the solve: of copter with its certificate, of a baseline without",
    "seconds": "seconds of the round: edit, solve and rounding",
    "store_seconds": "seconds of applying events as edits of copter's program",
    "certify_seconds": "seconds of reading and certifying a baseline's solution; not part of `seconds`",
    "status": "status of the solver; optimal also for a round without a solve",
    "gap": "certified relative gap of the solution, or of the allocation in a round without a solve",
    "primal_residual": "relative primal residual of the solution",
    "objective": "objective of the solution",
    "bound": "certified lower bound on the objective",
    "n_variables": "number of columns of the program",
    "n_rows": "number of rows of the program, including the sum rows of requests",
    "nnz": "number of nonzeros in the resource rows",
    "iterations": "iterations of the solver",
    "churn": "share of the nonzeros that changed since the last round",
    "warm_started": "true if the solver started from the last round",
}
"""Meanings of the fields of a record that every course has."""


class CommandRun(ABC):
    """Base class of runs: a context manager that writes the run folder, also if the run ends early.

    Parameters
    ----------
    options : RunOptions
        Options of the command.
    path : Path, optional
        Run folder; None writes no files.
    title : str
        One line that describes the run.
    config : mapping, optional
        Settings for config.json in addition to the options.

    Attributes
    ----------
    summary : dict
        Figures of the run, after :meth:`finish`.
    """

    meaning: ClassVar[str] = "the figures of the table"
    """Description of summary.json in README.txt."""

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
        """Return the figures of the rounds that were played."""

    @abstractmethod
    def write(self, folder: RunFolder) -> None:
        """Write the files that need the whole run, such as tables and plots."""

    @abstractmethod
    def print_summary(self) -> None:
        """Print the table of the run."""

    def finish(self) -> dict[str, Any]:
        """Write summary.json and the files of :meth:`write`; return the figures of the run."""
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


class RoundsRun(CommandRun):
    """A run with a row of rounds.csv per round, figures over the rounds, and a plot of each figure.

    Parameters
    ----------
    columns : mapping of str to str
        Meanings of the fields of the records in rounds.csv.
    figures : sequence of Figure or None
        Fields in the table at the end, with the statistic of each. Fields that the records lack are omitted.
        None for the mean of each field that the first record has in addition to `columns`.
    left_out : int
        Number of rounds at the start that the statistics exclude, unless there are no others.
    """

    meaning: ClassVar[str] = "the figures of the table, over the rounds that are averaged, and all records"

    def __init__(
        self,
        options: RunOptions,
        path: Path | None,
        title: str,
        columns: Mapping[str, str],
        figures: Sequence[Figure] | None,
        *,
        left_out: int = 0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(options, path, title, config)
        self.records: list[Record] = []
        self.shown = figures
        self._columns, self._left_out = columns, left_out
        self._rows: RowFile | None = None

    def take(self, record: Record) -> None:
        """Keep the record of a round, and write its row."""
        if self.shown is None:
            own = [name for name in record if name not in self._columns]
            self.shown = [Figure(name, name, "mean") for name in own]
            self._columns = {**self._columns, **dict.fromkeys(own, "figure of the domain")}
        if self._folder is not None and not self.records:
            self._rows = self._folder.rows("rounds.csv", self._columns, "a row per round:")
        self.records.append(record)
        if self._rows is not None:
            self._rows.write({name: record[name] for name in self._columns})

    def rounds(self, course: Course, chosen: SolverSettings) -> Iterator[Record]:
        """Play the rounds of a course, and yield each record after its row is written to rounds.csv."""
        for record in course.play(chosen).records:
            self.take(record)
            yield record

    def of(self, name: str, *, later: bool = False) -> NDArray[np.float64]:
        """Return a field of all records, or with `later` only of those that the statistics include."""
        chosen = (self.records[self._left_out :] or self.records) if later else self.records
        return np.array([record[name] for record in chosen], float)

    def _known(self) -> list[Figure]:
        return [figure for figure in self.shown or () if figure.name in self.records[0]]

    def figures(self) -> dict[str, Any]:
        """Return the figures of the rounds."""
        records, total = self.records, self.of("seconds", later=True)
        gaps = {name: self.of(name) for name in ("gap", "answer_gap") if name in records[0]}
        largest = {name: float(np.nanmax(gap)) for name, gap in gaps.items() if np.isfinite(gap).any()}
        return {
            "rounds": len(records),
            "rounds_averaged": total.size,
            "fallbacks": sum(record["path"] == "fallback" for record in records),
            "late": sum(record["late"] for record in records),
            "first_round_s": float(self.of("seconds")[0]),
            "round_p50_s": float(np.median(total)),
            "round_p99_s": float(np.percentile(total, 99)),
            "round_max_s": float(total.max()),
            "max_gap": largest.get("gap"),
            "max_answer_gap": largest.get("answer_gap"),
            "figures": {
                f"{each.name}_{each.shown}": five_statistics(self.of(each.name, later=True))[each.shown]
                for each in self._known()
            },
            "records": records,
        }

    def write(self, folder: RunFolder) -> None:
        """Write a plot of each figure, and a plot of the times of the rounds."""
        rounds = self.of("round")
        for name, heading in {each.name: each.heading for each in self._known()}.items():
            picture = over_time(rounds, {name: self.of(name)}, heading, f"{heading} by round", axis="round")
            folder.save_figure(f"{name}.png", picture, f"{heading}, by round")
        picture = round_times(rounds, self.of, axis="round")
        folder.save_figure("time.png", picture, "milliseconds of edit, solve and rounding, by round")

    def print_summary(self) -> None:
        """Print the table of the run."""
        one = self.summary
        own = [
            (f"{each.heading}, {each.shown}", format(one["figures"][f"{each.name}_{each.shown}"], each.form))
            for each in self._known()
        ]
        gaps = [("certified gap of the solver, largest", one["max_gap"])] if "gap" in self.records[0] else []
        gaps += [("certified gap of the answer, largest", one["max_answer_gap"])]
        parts = (np.median(self.of(f"{name}_seconds", later=True)) for name in _PARTS)
        print_figures(
            self.title,
            [
                ("rounds", f"{one['rounds']}, {one['rounds_averaged']} of them averaged"),
                *own,
                ("fallbacks, of which late", f"{one['fallbacks']}, {one['late']}"),
                ("first round", seconds(one["first_round_s"])),
                ("round, p50 / p99", f"{seconds(one['round_p50_s'])} / {seconds(one['round_p99_s'])}"),
                ("edit / solve / rounding, p50", " / ".join(map(seconds, parts))),
                *((words, "-" if gap is None else f"{gap:.1e}") for words, gap in gaps),
                ("run time", seconds(one["wall_seconds"])),
            ],
        )


_PARTS = ("edit", "solve", "rounding")


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
    rounds : iterable
        The rounds; the iterator plays them.
    what : str
        Noun for the items that the bar counts.
    total : int
        Number of items.
    show : callable
        Function of the result of a round that returns the text next to the bar.
    done : callable, optional
        Function that returns the number of items done; by default the bar counts rounds.
    quiet : bool
        True for no progress bar.
    """
    bar = progress("{task.fields[now]}", quiet=quiet)
    with bar:
        task = bar.add_task(what, total=total, now="")
        for number, record in enumerate(rounds, 1):
            bar.update(task, completed=number if done is None else done(), now=show(record))


def conclude(run: CommandRun, **first: Any) -> None:
    """Finish a run, and print its table, or with --json an object with the items `first` and the summary."""
    summary = first | run.finish()
    if run.options.as_json:
        print_json(summary)
        return
    run.print_summary()
    errors().print(f"Run folder: {run.path}")


def preparing(solver: str) -> None:
    """Print a message about the warm-up, and let later calls compile each kernel when it is first called."""
    compile_at_once()
    errors().print(f"preparing {solver} (slower in the first run, which compiles its kernels)")


def print_figures(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a table with two columns, figures and their values."""
    table(title, ("figure", "value"), rows)
