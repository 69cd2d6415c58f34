"""Results of benchmarks: records of rounds by solver and line, and the folder of `copter bench all`.

    DIR/suite.json              profile, version, machine, settings, start time, seconds, order of lines
    DIR/lines/LINE/line.json    description of a line: the program, its rounds, tolerance, limit, checker
    DIR/lines/LINE/SOLVER.json  result of a solver on the line

Files are written atomically, so that a folder is valid at any time and an interrupted suite can continue.
The JSON is strict: NaN and infinities are null, and are read as NaN.  Rounds are stored as a list for each
field.  Objectives and bounds have all digits, and all other fractions have four significant digits.
The document of `copter bench X --json` also has the keys of ``line.json``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from copter.bench.formats import count, plain, share
from copter.bench.settings import Record
from copter.errors import FileError

Status: TypeAlias = Literal["measured", "missed", "failed", "not run"]
"""`measured`: every round has an answer in time. `missed`: a round has no answer in time. `failed`: the
solver ended with an error. `not run`: the solver was not run, for the stated reason.
"""
_STATUSES: tuple[Status, ...] = get_args(Status)
SUITE, _LINE = "suite.json", "line.json"
_EXACT = ("objective", "bound", "answer_objective", "answer_bound")
_DIGITS = 4
_MAY_LACK = ("peak_memory_mb", "compile_seconds", "seconds")


@dataclass(frozen=True)
class Family:
    """Lines of one kind, with their presentation in a report.

    `axis`: key of `LineResult.x` with the position of a line; `across` is the label of the axis, and `shown`
    the function that formats its values. `grows`: True if the lines are the same program in several sizes, so
    that a picture may connect them. `integral`: True if bounds hold for the integral allocation.
    """

    title: str
    text: str
    axis: str = "columns"
    across: str = "columns of the program"
    shown: Callable[[float], str] = count
    grows: bool = True
    integral: bool = False


FAMILIES: Mapping[str, Family] = {
    "sia": Family(
        "Rounds of a GPU cluster",
        "Sia's program: every job chooses one configuration of GPUs. In each round jobs leave and arrive, "
        "and nearly all costs change.",
    ),
    "exact": Family(
        "Integer allocations, proven optimal",
        "The same rounds, with a proof that each allocation is optimal.",
        integral=True,
    ),
    "shards": Family(
        "Shards on servers",
        "Loads change in each round, and as few shards as possible are moved to restore balance. Every "
        "method continues from its own last placement.",
        grows=False,
    ),
    "traffic": Family(
        "Flows on a network", "Demands drift or links fail; flows are assigned to paths.", grows=False
    ),
    "shockwave": Family(
        "Plans of Shockwave",
        "In each round the window of the market is planned for all jobs, in whole rounds.",
        integral=True,
    ),
    "lp": Family("General linear programs", "Programs that are not from a domain of copter."),
    "columns": Family(
        "Time over the number of columns",
        "One kind of program in increasing sizes.",
    ),
    "changes": Family(
        "Few changes",
        "A few of many requests get new costs in each round; the time should depend on the changes only.",
    ),
    "churn": Family(
        "Time over churn",
        "The same program with different shares of the requests replaced in each round.",
        axis="churn",
        across="requests replaced a round",
        shown=share,
    ),
}
"""The families of the suite, in order."""


@dataclass(frozen=True)
class SolverResult:
    """Result of a solver on a line.

    `solver`, `label`: name of the file, and name in reports. `threads`: number of threads given to every
    solver of the suite; 0 outside a suite. `reason`: explanation of the status; empty if every round was
    measured. `records`: a record of each round, as of :func:`copter.bench.course.solved_record`, with further
    fields. ``certified`` is True if the line's checker found the answer within the tolerance, and
    ``disagrees`` is True if the solver claimed this but the checker did not find it
    (:mod:`copter.bench.checks`). ``checked_primal`` and ``checked_gap`` are the checker's figures, and
    ``calibration_seconds`` shows the speed of the machine before the round.
    `peak_memory_mb`: peak memory of the solver's process; NaN if it had no separate process.
    `compile_seconds`: time before the first round, which no round includes. `seconds`: time of the whole run,
    including the warm-up. `stopping`: the solver's own stopping criteria, by the solver's names for them.
    `machine`: machine of its process (:func:`copter.bench.machine.machine`).
    """

    solver: str
    label: str = ""
    threads: int = 0
    status: Status = "measured"
    reason: str = ""
    records: list[Record] = field(default_factory=list)
    peak_memory_mb: float = math.nan
    compile_seconds: float = math.nan
    seconds: float = math.nan
    stopping: dict[str, float] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LineResult:
    """Result of a case, as a line of the report: the program and its rounds, and its solvers.

    `name`: name of the line's folder. `title`: name in reports. `command`: command that measures only this
    line again (:func:`copter.bench.conditions.rerun`). `tolerance`: relative tolerance of residuals and gap;
    `tolerance`, `threads` and `rounds` are the same for every solver. `left_out`: number of rounds at the
    start that are excluded from statistics. `limit`: largest number of seconds of a solve. `x`: coordinates
    on the axes ``columns``, ``churn``, ``gpus``, ... `checker`: meaning of `certified` in a record, as a
    sentence. `order`: names of the solvers to show. `solvers`: results, in this order. `own_rounds`: True if
    a round depends on the solver's own last answer, so that solvers have different programs and objectives.
    """

    name: str
    family: str
    title: str
    command: str
    tolerance: float
    threads: int | None
    rounds: int
    left_out: int
    limit: float
    x: dict[str, float]
    checker: str
    order: tuple[str, ...] = ()
    solvers: dict[str, SolverResult] = field(default_factory=dict)
    own_rounds: bool = False

    def measured_rounds(self, solver: str) -> list[Record]:
        """Return the counted records: those after the excluded rounds.

        If a solver ended within the excluded rounds, its rounds after the first round count; if there are
        none, the first round counts.
        """
        records = self.solvers[solver].records
        return records[self.left_out :] or records[1:] or records

    def certified(self, solver: str) -> bool:
        """Return whether a solver has a certified answer to every round that it played.

        A solver that used up its time on the line has played fewer rounds than other solvers; its `reason`
        states this.
        """
        one = self.solvers.get(solver)
        if one is None or one.status != "measured" or not one.records:
            return False
        return all(record["certified"] for record in one.records)


@dataclass(frozen=True)
class SuiteResult:
    """A folder of results.

    `profile`: ``quick`` or ``full``. `version`: version of copter. `machine`: description of the machine
    (:func:`copter.bench.machine.machine`). `settings`: settings of the suite; a folder is continued only with
    the same settings, version and machine. `begun`: start time in UTC, ISO 8601. `seconds`: total time of all
    solvers, without interruptions. `order`: names of the lines to show. `lines`: lines that were begun, in
    this order.
    """

    profile: str
    version: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    begun: str
    seconds: float
    order: tuple[str, ...]
    lines: dict[str, LineResult] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """True if every line has the results of all its solvers."""
        return all(
            name in self.lines and set(self.lines[name].order) == set(self.lines[name].solvers)
            for name in self.order
        )


Loaded = TypeVar("Loaded", SolverResult, LineResult, SuiteResult)


def load_suite(folder: Path) -> SuiteResult:
    """Read a folder of results, complete or not; raise FileError if it or one of its files is invalid."""
    if not (folder / SUITE).is_file():
        raise FileError(folder, f"must contain {SUITE}, which copter bench all makes")
    suite = _read(SuiteResult, folder / SUITE)
    there = [name for name in suite.order if (_line_folder(folder, name) / _LINE).is_file()]
    return replace(suite, lines={name: _load_line(_line_folder(folder, name)) for name in there})


def _load_line(folder: Path) -> LineResult:
    """Read the folder of a line, with the results of its solvers."""
    line = _read(LineResult, folder / _LINE)
    files = {name: _solver_file(folder, name) for name in line.order}
    there = {name: _read(SolverResult, file) for name, file in files.items() if file.is_file()}
    return replace(line, solvers=there)


def save_suite(folder: Path, suite: SuiteResult) -> None:
    """Write ``suite.json``, without the lines, which have their own files."""
    _write(folder / SUITE, _without(suite, "lines"))


def save_line(folder: Path, line: LineResult) -> None:
    """Write ``line.json`` of a line in the folder of the suite, without the solvers, which have their own."""
    _write(_line_folder(folder, line.name) / _LINE, described(line))


def save_solver(folder: Path, line: str, result: SolverResult) -> None:
    """Write the result of a solver on a line to the folder of the suite."""
    document = _without(result, "records") | {"records": _by_field(result.records)}
    document.pop("machine")  # the same as the suite's
    _write(_solver_file(_line_folder(folder, line), result.solver), document)


def _line_folder(folder: Path, line: str) -> Path:
    """Return the folder of a line."""
    return folder / "lines" / line


def _solver_file(folder: Path, solver: str) -> Path:
    """Return the file of a solver in the folder of a line."""
    return folder / f"{solver}.json"


def described(line: LineResult) -> dict[str, Any]:
    """Return the content of ``line.json``: the line without its solvers."""
    return _without(line, "solvers")


def _without(value: Any, name: str) -> dict[str, Any]:
    return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.name != name}


def _by_field(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Return a list of values for each field, with None for rounds without the field."""
    names = dict.fromkeys(name for record in records for name in record if name != "solver")
    return {name: [_short(name, record.get(name)) for record in records] for name in names}


def _short(name: str, value: Any) -> Any:
    """Return the value, rounded to the stored number of digits."""
    value = plain(value)
    if isinstance(value, float) and name not in _EXACT:
        return float(f"{value:.{_DIGITS}g}")
    return value


def _by_round(solver: str, columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    length = max((len(column) for column in columns.values()), default=0)
    return [
        {"solver": solver} | {name: _number(column[k]) for name, column in columns.items()}
        for k in range(length)
    ]


def _number(value: Any) -> Any:
    return math.nan if value is None else value


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file atomically: readers see the complete file or the previous file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n")
    os.replace(part, path)


def _read(kind: type[Loaded], path: Path) -> Loaded:
    try:
        document = json.loads(path.read_text())
        known = {one.name: document[one.name] for one in fields(kind) if one.name in document}
        if kind is SolverResult:
            known["records"] = _by_round(known["solver"], known["records"])
        known |= {name: tuple(known[name]) for name in ("order",) if name in known}
        known |= {name: _number(known[name]) for name in _MAY_LACK if name in known}
        return kind(**known)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(path, f"must be a file of a benchmark: {type(error).__name__}: {error}") from None
