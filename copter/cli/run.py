"""Common part of all `copter run` commands: folder, tables and page of a run, and its progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from copter.bench.course import Figure
from copter.bench.report.model import Claim, Picture, ReportTable, simple_table
from copter.bench.statistics import five_statistics
from copter.cli.command import RunOptions
from copter.cli.console import command_line, progress, publish, say, seconds, show_tables
from copter.cli.runfolder import Rows, RunFolder
from copter.compile.first_calls import compile_at_once
from copter.rounds.record import ROW_MEANS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from copter.bench.course import Course
    from copter.bench.settings import Record, SolverSettings

One = TypeVar("One")
ROUNDS = "rounds.csv"
COLUMNS: Mapping[str, str] = {
    name: means for name, means in ROW_MEANS.items() if name not in ("edited", "relaxation_gap")
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
"""Meanings of the fields that the records of every course have."""


class Run:
    """A run: a context manager that writes the run folder, even if the run ends early.

    Parameters
    ----------
    options : RunOptions
        Options of the command.
    domain : str
        Name of the domain, for the default folder.
    title : str
        Title of the tables and the page, and first line of README.txt.
    files : mapping of str to Rows
        CSV files, by name, for :meth:`write`.
    config : mapping, optional
        Settings for config.json in addition to the options.
    """

    def __init__(
        self,
        options: RunOptions,
        domain: str,
        title: str,
        files: Mapping[str, Rows],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.options, self.path, self.title = options, options.folder(domain), title
        self._begin = perf_counter()
        self._folder: RunFolder | None = None
        if self.path is not None:
            settings = options.settings() | dict(config or {})
            self._folder = RunFolder(
                self.path, f"{title}.", command_line(), settings, files, force=options.force
            )

    def write(self, name: str, row: Mapping[str, Any]) -> None:
        """Write a row to a CSV file at once, so that an interrupted run keeps it."""
        if self._folder is not None:
            self._folder.write(name, row)

    @property
    def wall_seconds(self) -> float:
        """Seconds since the beginning of the run."""
        return perf_counter() - self._begin

    def end(
        self,
        summary: Mapping[str, Any],
        tables: Sequence[ReportTable],
        sections: Callable[[], Iterable[Claim]] = tuple,
        **first: Any,
    ) -> None:
        """Write and print the results.

        Parameters
        ----------
        summary : mapping
            Figures for summary.json.
        tables : sequence of ReportTable
            Tables to print and to show on the page.
        sections : callable
            Function that returns further sections of the page report.html.
        **first
            Further items at the beginning of the ``--json`` document.
        """
        summary = {**summary, "wall_seconds": self.wall_seconds}
        if self._folder is not None:
            self._folder.write_json("summary.json", summary, "the figures of the tables, and more")
            figures = Claim("figures", "Figures", tables=tuple(tables))
            self._folder.write_page(self.title, [figures, *sections()])
        publish(first | summary, self.options.json_path, lambda: show_tables(tables))
        if self.path is not None:
            say(f"run folder: {self.path}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.close(error)


class PlayedRounds:
    """Records of the rounds of a run, with their table and pictures.

    Parameters
    ----------
    figures : sequence of Figure, optional
        Figures of the table; by default, the means of the figures of a :class:`copter.Rounds` domain.
    left_out : int
        Number of rounds at the start that the statistics exclude.
    """

    def __init__(self, figures: Sequence[Figure] | None = None, left_out: int = 0) -> None:
        self.records: list[Record] = []
        self._figures, self._left_out = figures, left_out

    def of(self, name: str, *, later: bool = False) -> NDArray[np.float64]:
        """Return a field of all records, or with `later` of the counted ones; NaN where it is missing."""
        chosen = (self.records[self._left_out :] or self.records) if later else self.records
        return np.array([record.get(name, np.nan) for record in chosen], float)

    @property
    def figures(self) -> list[Figure]:
        """Figures that the records have."""
        if self._figures is None:
            return [Figure(name, name, "mean") for name in self.records[0] if name not in ROW_MEANS]
        return [figure for figure in self._figures if figure.name in self.records[0]]

    def summary(self) -> dict[str, Any]:
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
                for each in self.figures
            },
            "records": records,
        }

    def table(self, title: str, one: Mapping[str, Any], wall_seconds: float) -> ReportTable:
        """Return the table of a :meth:`summary`."""
        own = [
            (f"{each.heading}, {each.shown}", format(one["figures"][f"{each.name}_{each.shown}"], each.form))
            for each in self.figures
        ]
        gaps = [("certified gap of the solver, largest", one["max_gap"])] if "gap" in self.records[0] else []
        gaps += [("certified gap of the answer, largest", one["max_answer_gap"])]
        parts = (np.median(self.of(f"{name}_seconds", later=True)) for name in ("edit", "solve", "rounding"))
        rows = [
            ("rounds", f"{one['rounds']}, {one['rounds_averaged']} of them averaged"),
            *own,
            ("fallbacks, of which late", f"{one['fallbacks']}, {one['late']}"),
            ("first round", seconds(one["first_round_s"])),
            ("round, p50 / p99", f"{seconds(one['round_p50_s'])} / {seconds(one['round_p99_s'])}"),
            ("edit / solve / rounding, p50", " / ".join(map(seconds, parts))),
            *((words, "-" if gap is None else f"{gap:.1e}") for words, gap in gaps),
            ("run time", seconds(wall_seconds)),
        ]
        return simple_table(title, ("figure", "value"), rows)

    def pictures(self) -> tuple[Picture, ...]:
        """Return a picture of each figure, and a picture of the times of the rounds."""
        from copter.cli.plots import over_time, round_times

        rounds, headings = self.of("round"), {each.name: each.heading for each in self.figures}
        figures = (
            over_time(name, rounds, {name: self.of(name)}, heading, f"{heading} by round", axis="round")
            for name, heading in headings.items()
        )
        return (*figures, round_times(rounds, self.of))


def run_course(
    run: Run,
    course: Course,
    chosen: SolverSettings,
    columns: Mapping[str, str],
    show: Callable[[Record], str],
    total: int,
) -> None:
    """Play the rounds of a course with a solver or a method, and end the run with the rounds' figures.

    Parameters
    ----------
    run : Run
        The run, with `columns` as the columns of its file rounds.csv.
    course, chosen : Course, SolverSettings
        The rounds, and the settings of the solver or method.
    columns : mapping of str to str
        Fields of a record to write to rounds.csv, with their meanings.
    show : callable
        Function that returns the text next to the progress bar, given a record.
    total : int
        Number of rounds.
    """
    from copter.bench.rounds import warm_up

    preparing(chosen.name)
    warm_up(course, chosen)
    played = PlayedRounds(course.figures, course.left_out)

    def rounds() -> Iterator[Record]:
        for record in course.play(chosen).records:
            played.records.append(record)
            run.write(ROUNDS, {name: record[name] for name in columns})
            yield record

    follow(rounds(), "rounds", total, show, quiet=run.options.quiet)
    end_rounds(run, played, chosen.name)


def end_rounds(run: Run, played: PlayedRounds, solver: str) -> None:
    """End a run with the figures and the pictures of its rounds."""
    summary = played.summary()
    tables = [played.table(run.title, summary, run.wall_seconds)]
    run.end(summary, tables, lambda: [Claim("rounds", "Rounds", pictures=played.pictures())], solver=solver)


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
        Results of the rounds; iterating plays the rounds.
    what : str
        Noun for the items that the bar counts.
    total : int
        Number of items.
    show : callable
        Function that returns the text next to the bar, given the result of a round.
    done : callable, optional
        Function that returns the number of finished items; by default, the bar counts rounds.
    quiet : bool
        True for no progress bar.
    """
    bar = progress("{task.fields[now]}", quiet=quiet)
    with bar:
        task = bar.add_task(what, total=total, now="")
        for number, record in enumerate(rounds, 1):
            bar.update(task, completed=number if done is None else done(), now=show(record))


def preparing(solver: str) -> None:
    """Print a message about the warm-up, and let later calls compile each kernel when it is first called."""
    compile_at_once()
    say(f"preparing {solver} (slower in the first run, which compiles its kernels)")
