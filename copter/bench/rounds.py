"""Runner of benchmarks, which plays a course with one solver and returns a record for each round.

`copter bench X`, the suite and the papers' figures all call :func:`play`.  Each solver gets its own program
and the same events.  The time of a round is the sum of edit, solve and shim.

- `edit_seconds` is the time until the solver has the problem of the round.  For copter's solvers it is the
  time of the edits, including their validation, and of the domain's start.  For other solvers it is the time
  of updating their own model: solvers that keep a model, such as `highs-dual`, find the differences from the
  program's revisions and apply them, and all other solvers build flat arrays and a new model.  The edits of
  copter's program do not count for other solvers than copter's: their seconds are in `store_seconds` for
  every solver, and in `edit_seconds` and `seconds` for copter's solvers only.
- `solve_seconds` is, for copter's solvers, the time of `solve`, including the certificate. For other solvers
  it is the time in the solver itself; in the first round of HiGHS with a kept basis, it includes the time in
  which copter computes a basis. Reading and certifying another solver's answer is the work of this package,
  and its time is `certify_seconds`.

Compilation is never timed, because a small course of the same kind runs through the same code first. This
course is large enough for the passes that use threads. Those of copter's solvers that choose their inner
solver also run coordinate descent before the rounds. Rounds wait until the machine runs at full speed
(:mod:`copter.bench.calm`), and every answer is checked outside the measured time
(:mod:`copter.bench.checks`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple

from copter.bench.calm import FIELD, Calm
from copter.bench.checks import CHECKERS, Checks
from copter.bench.course import Course
from copter.bench.machine import machine, peak_memory_mb
from copter.bench.result_files import SolverResult, Status
from copter.bench.settings import Record, SolverSettings
from copter.bench.solvers import BASELINES
from copter.compile.first_calls import compile_at_once
from copter.solvers.features import Feature
from copter.solvers.registry import SOLVERS
from copter.tasks.processes import Processes
from copter.tasks.tasks import FinishedTask, StoppedTaskError, Task, TaskRunner, Tell

_WARM_UP_SECONDS = 60.0
_WARM_UP_SECONDS_OTHERS = 10.0
_LEAST_ROUNDS = 3
"""Number of rounds that are played even if the time for all rounds is over, unless a round is late."""
_HOPELESS = 20.0
"""A mode of a solver ends after two rounds if its second round takes more than this multiple of the seconds
of another mode of the same solver.
"""
_LATE, _CUT = 1.1, 0.9
"""Multiples of the limit: the longest permitted edit or solve, and the time above which an answer without a
certificate counts as cut off.
"""
_WARM_UP_PATIENCE = 300.0
"""Seconds in which a process may compile; without a cache and next to other processes, this takes minutes."""
_PATIENCE, _PATIENCE_SECONDS = 3.0, 90.0
"""A process that sends no message for this multiple of the limit plus this number of seconds is killed."""
_REASON_LENGTH = 300


@dataclass(frozen=True)
class BenchJob:
    """A course to play with one solver.

    `checker`: a key of :data:`copter.bench.checks.CHECKERS`. `rounds`: largest number of rounds; None for
    all. `seconds`: time for all rounds after the first; two of them are played in any case. `limit`: largest
    number of seconds of an edit or a solve; a round that takes longer is missed and is the last round.
    `warm_up_seconds`: time of the only warm-up round of solvers without compilation; None for several rounds.
    `brief`: True if two rounds of the course itself suffice as warm-up, because the course is tiny and times
    do not matter. `best`: least known seconds of the calibration loop on this machine. `rival`: name of the
    fastest mode so far of the same solver, and the seconds of its second round.
    """

    course: Course
    settings: SolverSettings
    checker: str = "certificate"
    rounds: int | None = None
    seconds: float = math.inf
    limit: float = math.inf
    warm_up_seconds: float | None = None
    brief: bool = False
    best: float = math.inf
    rival: tuple[str, float] = ("", math.inf)


class _Ready(NamedTuple):
    """Message at the end of the warm-up: seconds of the warm-up, and the solver's stopping criteria."""

    seconds: float
    stopping: dict[str, float]


def play(job: BenchJob, tell: Tell = lambda said: None) -> SolverResult:
    """Warm up and play a job in this process; `tell` is called with a :class:`_Ready`, then each record."""
    begin = perf_counter()
    _prepare(job)
    checks, checker = Checks(), CHECKERS[job.checker]
    under_way = job.course.play(replace(job.settings, wrap=checks.watch))
    result = SolverResult(job.settings.name, stopping=under_way.stopping)
    result = replace(result, compile_seconds=perf_counter() - begin)
    tell(_Ready(result.compile_seconds, result.stopping))
    rounds = islice(under_way.records, job.rounds)
    playing, waited = perf_counter(), 0.0
    with Calm(job.best, patience=0.0 if job.brief else None) as calm:
        while True:
            reading = calm.wait()
            record = next(rounds, None)
            if record is None:
                break
            record["certify_seconds"] = max(0.0, record["certify_seconds"] - checks.seconds)
            record |= checker.judge(record, checks.found, job.settings.tolerance) | {FIELD: reading}
            result.records.append(record)
            tell(record)
            if len(result.records) == 1:
                playing, waited = perf_counter(), calm.waited
            spent = perf_counter() - playing - (calm.waited - waited)
            if _is_late(record, job.limit) or (record["round"] + 1 >= _LEAST_ROUNDS and spent > job.seconds):
                break
            if _is_hopeless(job, record):
                break
    under_way.close()
    return _judged(job, replace(result, seconds=perf_counter() - begin))


def run(
    jobs: Iterable[BenchJob], spread: TaskRunner, hear: Callable[[str, Any], None] = lambda name, said: None
) -> Iterator[tuple[SolverResult, Exception | None]]:
    """Play jobs, one at a time on each machine, and yield each result in order, with its error or None.

    If a job raises an error or its process is lost, its result has the records reported so far. `hear` is
    called with the name of a solver and a message: first the name itself, then the messages of :func:`play`.
    """
    jobs = list(jobs)
    tasks = [Task(job.settings.name, _play, (job, os.getpid())) for job in jobs]
    heard = {id(task): _Heard() for task in tasks}

    def listen(task: Task, said: Any) -> None:
        heard[id(task)].take(said)
        hear(task.name, said)

    for job, ended in zip(jobs, spread.each(tasks, listen, alone=True), strict=True):
        yield _result(job, heard[id(ended.task)], ended), ended.error


def run_watched(job: BenchJob, memory_mb: float) -> SolverResult:
    """Play a job in a process that is killed if it uses too much memory or stops responding."""
    ready: list[_Ready] = []

    def hear(name: str, said: Any) -> None:
        if isinstance(said, _Ready):
            ready.append(said)

    def silence() -> float:
        return _PATIENCE * job.limit + _PATIENCE_SECONDS if ready else _WARM_UP_PATIENCE

    begin = perf_counter()
    with Processes(1, memory_mb=memory_mb, silence=silence) as spread:
        ((result, _),) = run([job], spread, hear)
    return replace(result, seconds=perf_counter() - begin)


def warm_up(course: Course, settings: SolverSettings, seconds_of_others: float | None = None) -> None:
    """Run the small version of a course, to compile and load every kernel and to start the threads.

    The solver's :meth:`warm_up` prepares code that only later rounds need. The time limit of the settings
    does not apply. If `seconds_of_others` is given, solvers that compile nothing play only one round, with
    this time limit.
    """
    compile_at_once()  # so that no measured round compiles
    # a method of the course is not a registered solver
    solver = settings.make() if settings.name in SOLVERS else None
    compiles = solver is not None and Feature.COMPILES in solver.features
    brief = seconds_of_others is not None and not compiles
    limit = _WARM_UP_SECONDS if compiles else seconds_of_others or _WARM_UP_SECONDS_OTHERS
    under_way = course.small().play(replace(settings, time_limit=limit))
    for _ in islice(under_way.records, 1 if brief else None):
        pass
    if solver is not None and under_way.program is not None:
        solver.warm_up(under_way.program)
    under_way.close()


def _prepare(job: BenchJob) -> None:
    """Warm up; a brief job plays two rounds of the course itself, unless its solver is a baseline."""
    if not job.brief:
        warm_up(job.course, job.settings, job.warm_up_seconds)
    elif job.settings.name not in BASELINES:
        compiling = replace(job.settings, time_limit=_WARM_UP_SECONDS)
        for _ in islice(job.course.play(compiling).records, 2):
            pass


def _play(job: BenchJob, caller: int, *, tell: Tell) -> SolverResult:
    """Play a job in its task's process; a separate process adds its peak memory and its machine."""
    tell(job.settings.name)
    result = play(job, tell)
    if os.getpid() == caller:
        return result
    return replace(result, peak_memory_mb=peak_memory_mb(), machine=machine())


@dataclass
class _Heard:
    """Messages of a job so far, in case its process is lost."""

    records: list[Record] = field(default_factory=list)
    ready: _Ready = _Ready(math.nan, {})

    def take(self, said: Any) -> None:
        if isinstance(said, _Ready):
            self.ready = said
        elif isinstance(said, dict):
            self.records.append(said)


def _result(job: BenchJob, heard: _Heard, ended: FinishedTask) -> SolverResult:
    if ended.error is None:
        found: SolverResult = ended.value
        return found
    status: Status = "failed"
    reason = " ".join(f"{type(ended.error).__name__}: {ended.error}".split())[:_REASON_LENGTH]
    if isinstance(ended.error, StoppedTaskError):
        status, reason = "missed", f"round {len(heard.records)}: {ended.error}"
    return SolverResult(
        job.settings.name,
        status=status,
        reason=reason,
        records=heard.records,
        compile_seconds=heard.ready.seconds,
        stopping=heard.ready.stopping,
    )


def _judged(job: BenchJob, result: SolverResult) -> SolverResult:
    """Return the result with its status, missed if a round was late, and a reason if rounds are missing."""
    late = [record for record in result.records if _is_late(record, job.limit)]
    if late:
        number, took = late[0]["round"], max(late[0]["edit_seconds"], late[0]["solve_seconds"])
        reason = f"round {number}: {late[0]['status']} after {took:.3g} s, of {job.limit:g} s"
        return replace(result, status="missed", reason=reason)
    count = len(result.records)
    if result.records and _is_hopeless(job, result.records[-1]):
        name, seconds = job.rival
        over = result.records[-1]["seconds"] / seconds
        reason = f"ended after round 1, because it took {over:.3g} times the seconds of {name}"
        return replace(result, reason=reason)
    if job.rounds is not None and count < job.rounds and math.isfinite(job.seconds):
        return replace(result, reason=f"{count} of {job.rounds} rounds in its {job.seconds:g} s")
    return result


def _is_hopeless(job: BenchJob, record: Record) -> bool:
    """Return whether a record is of a second round so slow that the mode cannot be its solver's fastest."""
    return bool(record["round"] == 1 and record["seconds"] > _HOPELESS * job.rival[1])


def _is_late(record: Record, limit: float) -> bool:
    """Return whether a round has no answer, was cut off by its limit, or exceeded it."""
    if math.isinf(limit):
        return False
    took = max(record["edit_seconds"], record["solve_seconds"])
    cut = record["status"] in ("deadline", "cancelled") or took > _CUT * limit
    return bool(record["missed"] or (cut and not record["certified"]) or took > _LATE * limit)
