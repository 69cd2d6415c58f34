"""Suite of benchmarks: every case of a profile with each of its solvers, with results in a folder.

The result of each solver is kept in the folder, so that an interrupted suite can continue, with the same
settings, versions and machine.  A solver that misses its limit does not run on larger cases of the same
sequence of sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from copter.bench.calm import FIELD
from copter.bench.case import Case, Inputs, Profile, all_cases
from copter.bench.conditions import contents, differences, rerun
from copter.bench.course import Course
from copter.bench.machine import machine, memory_mb
from copter.bench.result_files import (
    SUITE,
    LineResult,
    SolverResult,
    SuiteResult,
    load_suite,
    save_line,
    save_solver,
    save_suite,
)
from copter.bench.rounds import BenchJob, run_watched
from copter.bench.settings import SolverSettings
from copter.bench.solvers import BASELINES, MODES, entrant, is_ours
from copter.errors import CopterError, MissingExtraError, choices
from copter.solvers.registry import SOLVERS
from copter.tasks.processes import Processes
from copter.tasks.tasks import Task

_BYTES_A_COLUMN = 250.0
"""Least bytes that a solver with its own matrix needs for a column, with two or three nonzeros a column."""
_MEMORY_SHARE = 0.85
"""Share of the machine's memory that a process may use."""
_WARM_UP_SECONDS = 2.0
"""Time limit of the warm-up of a solver that compiles nothing, in seconds."""


@dataclass(frozen=True)
class SuiteSettings:
    """Settings of a suite.

    `threads`: number for every solver with such a setting. `limit`: seconds of a solve. `seconds`: time for
    all rounds of a solver on a line; it plays at least three. `rounds`: largest number a line. `data`, `lps`:
    see :class:`copter.bench.case.Inputs`. `solvers`: names of the solvers to run; all if empty.
    """

    profile: Profile
    threads: int
    limit: float
    seconds: float
    seed: int = 0
    rounds: int | None = None
    data: Path | None = None
    lps: Path | None = None
    solvers: tuple[str, ...] = ()

    def stated(self) -> dict[str, object]:
        """Return the settings as in ``suite.json``, without paths."""
        data, lps = (False if folder is None else contents(folder) for folder in (self.data, self.lps))
        return asdict(self) | {"data": data, "lps": lps, "solvers": list(self.solvers)}


_QUICK = SuiteSettings("quick", 1, limit=10.0, seconds=2.0)
_FULL = SuiteSettings("full", 1, limit=20.0, seconds=8.0)
DEFAULTS: dict[Profile, SuiteSettings] = {"quick": _QUICK, "full": _FULL}


@dataclass(frozen=True)
class SuiteStep:
    """A solver on a line, before or after its run; it is run number `number` of `of`.

    `result`: None before the run. `left`: estimated seconds until the end of the suite; NaN if unknown.
    """

    line: str
    solver: str
    number: int
    of: int
    result: SolverResult | None = None
    left: float = math.nan


_Follow = Callable[[SuiteStep], None]


class Suite:
    """A suite and its folder, which is created, or continued if it exists.

    `only`: names of lines or families; all if empty. Raise CopterError if the folder was begun with other
    settings, with another version or on another machine, or if a name is unknown.
    """

    def __init__(self, folder: Path, settings: SuiteSettings, only: Sequence[str] = ()) -> None:
        self.folder, self.settings = folder, settings
        lines = all_cases(settings.profile, Inputs(settings.seed, settings.data, settings.lps))
        self.lines = _chosen(lines, only)
        self.result = self._begun([line.name for line in lines])
        self._missed = self._misses()
        self._spent, self._ran = 0.0, 0
        done = [one for line in self.result.lines.values() for one in line.solvers.values()]
        self._best = _fastest(done, math.inf)

    def run(self, follow: _Follow = lambda step: None) -> SuiteResult:
        """Run each solver that has no result on a line yet; return the results of all lines in the folder.

        `follow` is called before and after each run.
        """
        waiting = [(line, solver) for line in self.lines for solver in self._waiting(line)]
        save_suite(self.folder, self.result)
        number = 0
        for line in self.lines:
            mine = [solver for one, solver in waiting if one is line]
            if not mine:
                continue
            save_line(self.folder, self._line_result(line))
            there = self.result.lines.get(line.name)
            played = {} if there is None else dict(there.solvers)
            with _course(line) as course:
                for solver in mine:
                    number += 1
                    step = SuiteStep(
                        line.name, solver, number, len(waiting), left=self._left(waiting[number - 1 :])
                    )
                    follow(step)
                    result = self._one(line, solver, course, _rival(solver, played))
                    played[solver] = result
                    save_solver(self.folder, line.name, result)
                    save_suite(self.folder, self.result)
                    follow(replace(step, result=result))
        return load_suite(self.folder)

    def _begun(self, order: list[str]) -> SuiteResult:
        """Return the folder's results, or new results without lines."""
        mine = {line.name for line in self.lines}
        beginning = SuiteResult(
            self.settings.profile,
            version("copter-opt"),
            machine(),
            self.settings.stated(),
            datetime.now(UTC).isoformat(timespec="seconds"),
            0.0,
            tuple(name for name in order if name in mine),
        )
        if not (self.folder / SUITE).is_file():
            return beginning
        there = load_suite(self.folder)
        if other := differences(there, beginning):
            raise CopterError(
                f"{self.folder}: was begun with {'; '.join(other)}; use the same conditions or another folder"
            )
        names = tuple(name for name in order if name in mine or name in there.order)
        return replace(there, order=names)

    def _misses(self) -> dict[tuple[str, str], tuple[float, str]]:
        """Return, by size sequence and solver, columns and name of the first line that the solver missed."""
        found: dict[tuple[str, str], tuple[float, str]] = {}
        for line in self.lines:
            there = self.result.lines.get(line.name)
            for name, one in ({} if there is None else there.solvers).items():
                if one.status == "missed":
                    found.setdefault((line.step_of, name), (line.columns, line.name))
        return found

    def _solvers(self, line: Case) -> list[str]:
        wanted = self.settings.solvers
        return [name for name in line.solvers if not wanted or name in wanted]

    def _waiting(self, line: Case) -> list[str]:
        there = self.result.lines.get(line.name)
        done = {} if there is None else there.solvers
        return [name for name in self._solvers(line) if name not in done]

    def _rounds(self, line: Case) -> int:
        most = self.settings.rounds
        return line.rounds if most is None else min(most, line.rounds)

    def _line_result(self, line: Case) -> LineResult:
        limit, command = self.settings.limit * line.patience, rerun(self.result, line.name)
        made = line.line(command, self._solvers(line), self.settings.threads, limit)
        return replace(made, rounds=self._rounds(line))

    def _one(
        self, line: Case, solver: str, course: Callable[[], Course], rival: tuple[str, float]
    ) -> SolverResult:
        """Run a solver on a line, unless there is a reason not to; `rival`: see :class:`BenchJob`."""
        threads, label = self.settings.threads, entrant(solver).label
        why = self._why_not(line, solver)
        if why:
            return SolverResult(solver, label, threads, "not run", why)
        begin, limit = perf_counter(), self.settings.limit * line.patience
        try:
            job = BenchJob(
                course(),
                SolverSettings(solver, line.tolerance, limit, threads, line.mip_gap),
                line.checker,
                self._rounds(line),
                self.settings.seconds * line.patience,
                limit,
                _WARM_UP_SECONDS,
                brief=self.settings.profile == "quick",
                best=self._best,
                rival=rival,
            )
        except Exception as error:  # the course of a domain may raise any error
            said = " ".join(f"{type(error).__name__}: {error}".split())
            result = SolverResult(solver, label, threads, "failed", said)
        else:
            found = run_watched(job, _MEMORY_SHARE * memory_mb())
            result = replace(found, label=label, threads=threads)
        spent = perf_counter() - begin
        self._spent, self._ran = self._spent + spent, self._ran + 1
        self.result = replace(self.result, seconds=self.result.seconds + spent)
        self._best = _fastest([result], self._best)
        if result.status == "missed":
            self._missed.setdefault((line.step_of, solver), (line.columns, line.name))
        return result

    def _why_not(self, line: Case, solver: str) -> str:
        """Return the reason why a solver is not run on a line; empty if it is run."""
        columns, missed = self._missed.get((line.step_of, solver), (math.inf, ""))
        if columns <= line.columns and missed != line.name:
            return f"missed at {missed}"
        if not is_ours(solver):
            needed = _BYTES_A_COLUMN * line.columns / 1e6
            if needed > _MEMORY_SHARE * memory_mb():
                return f"memory: a matrix of its own needs {needed / 1e3:,.0f} GB"
        entry = BASELINES.get(solver) or SOLVERS.get(solver)
        try:
            if entry is not None:
                entry.load()
        except MissingExtraError as error:
            return str(error)
        return ""

    def _left(self, waiting: Sequence[tuple[Case, str]]) -> float:
        """Return the estimated remaining seconds, if a run takes as long as the mean of the previous runs."""
        runs = sum(not self._why_not(line, solver) for line, solver in waiting)
        return runs * self._spent / self._ran if self._ran else math.nan


@contextmanager
def _course(line: Case) -> Iterator[Callable[[], Course]]:
    """Yield a function that makes the line's course when first called; its files exist within the block."""
    made: list[Course] = []
    with TemporaryDirectory(prefix="copter-suite-") as scratch:

        def course() -> Course:
            if not made:
                (ended,) = Processes(1).each([Task(line.name, line.make, (Path(scratch),))])
                made.append(ended.result())
            return made[0]

        yield course


def _rival(solver: str, played: Mapping[str, SolverResult]) -> tuple[str, float]:
    """Return the fastest mode so far of the same solver, and the seconds of its second round.

    Modes are compared for HiGHS, OR-Tools and cvxpy.  Only modes with certified answers count.
    """
    house = entrant(solver).house
    found = [
        (one.records[1]["seconds"], name)
        for name, one in played.items()
        if house in MODES
        and entrant(name).house == house
        and one.status == "measured"
        and len(one.records) > 1
        and all(record["certified"] is True for record in one.records)
    ]
    seconds, name = min(found, default=(math.inf, ""))
    return name, seconds


def _fastest(results: Sequence[SolverResult], best: float) -> float:
    """Return the least time of the calibration loop so far."""
    return min(best, *(record.get(FIELD, math.inf) for one in results for record in one.records), math.inf)


def _chosen(lines: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """Return the lines with the given names or families."""
    known = [*dict.fromkeys(line.family for line in lines), *(line.name for line in lines)]
    for name in only:
        if name not in known:
            raise CopterError(f"no line {name!r}; {choices(name, known)}")
    return [line for line in lines if not only or line.name in only or line.family in only]
