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
from copter.cli.console import errors, print_json, progress, seconds, table
from copter.cli.plots import over_time, round_times
from copter.cli.runfolder import RowFile, RunFolder
from copter.compile.first_calls import compile_at_once
from copter.rounds.record import ROW_MEANS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from copter.bench.course import Course, Figure
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


class RoundsRun(CommandRun):
    """A run with a row of rounds.csv per round, figures over the rounds, and a plot of each figure.

    Parameters
    ----------
    columns : mapping of str to str
        Fields of the records that rounds.csv has, and their meanings.
    figures : sequence of Figure
        Fields in the table at the end, with the statistic of each. A field that the records lack is left out.
    left_out : int
        Rounds at the start that the statistics leave out, if there are more.
    """

    meaning: ClassVar[str] = "the figures of the table, over the rounds that are averaged, and all records"

    def __init__(
        self,
        options: RunOptions,
        path: Path | None,
        title: str,
        columns: Mapping[str, str],
        figures: Sequence[Figure],
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
        if self._folder is not None and not self.records:
            self._rows = self._folder.rows("rounds.csv", self._columns, "a row per round:")
        self.records.append(record)
        if self._rows is not None:
            self._rows.write({name: record[name] for name in self._columns})

    def rounds(self, course: Course, chosen: SolverSettings) -> Iterator[Record]:
        """Play the rounds of a course; each row is in rounds.csv before the record is given."""
        for record in course.play(chosen).records:
            self.take(record)
            yield record

    def of(self, name: str, *, later: bool = False) -> NDArray[np.float64]:
        """Return a field of all records; `later`, of the records that the statistics include."""
        chosen = (self.records[self._left_out :] or self.records) if later else self.records
        return np.array([record[name] for record in chosen], float)

    def _known(self) -> list[Figure]:
        return [figure for figure in self.shown if figure.name in self.records[0]]

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
                f"{each.name}_{each.shown}": _STATISTICS[each.shown](self.of(each.name, later=True))
                for each in self._known()
            },
            "records": records,
        }

    def write(self, folder: RunFolder) -> None:
        """Write a plot of each figure, and of the time of the rounds."""
        rounds = self.of("round")
        for name, heading in {each.name: each.heading for each in self._known()}.items():
            picture = over_time(rounds, {name: self.of(name)}, heading, f"{heading} by round", axis="round")
            folder.save_figure(f"{name}.png", picture, f"{heading}, by round")
        picture = round_times(rounds, self.of, axis="round")
        folder.save_figure("time.png", picture, "milliseconds of edit, solve and rounding, by round")

    def print_summary(self) -> None:
        """Print the table at the end of the run."""
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
_STATISTICS: Mapping[str, Callable[[NDArray[np.float64]], float]] = {
    "median": lambda values: float(np.median(values)),
    "mean": lambda values: float(np.mean(values)),
    "p99": lambda values: float(np.percentile(values, 99)),
    "min": lambda values: float(np.min(values)),
    "max": lambda values: float(np.max(values)),
}


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
