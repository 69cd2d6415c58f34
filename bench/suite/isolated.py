"""A course with one solver in a process of its own, watched from outside: by its seconds and its memory.

The process sends each record as it is made, so that what was measured is there whatever happens to it.  A
solver plays rounds until they are over, until it misses its limit, or until it has used up its seconds on the
line; it is ended if it holds too much memory or does not come back from a solve long after its limit.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import CDLL
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, TypeVar

from copter.bench.course import Course
from copter.bench.machine import peak_memory_mb
from copter.bench.rounds import warm_up
from copter.bench.settings import Record
from copter.bench.suite.checker import CHECKERS, CheckedSettings
from copter.bench.suite.results import SolverResult, Status
from copter.bench.suite.rivals import RIVALS
from copter.errors import CopterError

T = TypeVar("T")
_WARM_UP_SECONDS = 2.0
"""Of a solver that compiles nothing."""
_COMPILING = 60.0
"""Seconds of a solve in which kernels may have to be compiled."""
_LEAST_ROUNDS = 3
"""Played whatever they take, as long as each is within the limit."""
_LOOK_SECONDS = 0.1
_WARM_UP_PATIENCE = 300.0
"""Seconds in which a process may compile: without a cache, and beside others, it takes minutes."""
_PATIENCE, _PATIENCE_SECONDS = 3.0, 90.0
"""Limits, and seconds beyond them, without a word, after which a process is ended."""
_END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""
_LATE, _CUT = 1.1, 0.9
"""Times its limit that an edit or a solve may take, and from which on one without a certified answer was cut
off; a model's compilation is in the edit, apart."""


@dataclass(frozen=True)
class Job:
    """What a process is to do.

    Attributes
    ----------
    settings : CheckedSettings
        Of a solver; its time limit is that of a solve.
    checker : str
        A key of :data:`copter.bench.suite.checker.CHECKERS`.
    seconds : float
        For all rounds of the solver, the warm-up not counted.
    memory_mb : float
        That the process may hold.
    brief : bool
        Whether two rounds of the course itself are warm-up enough: it is tiny, and nobody looks at seconds.
    """

    course: Course
    settings: CheckedSettings
    checker: str
    rounds: int
    seconds: float
    memory_mb: float
    brief: bool = False

    @property
    def limit(self) -> float:
        """Seconds of a solve."""
        assert self.settings.time_limit is not None
        return self.settings.time_limit


def run_job(job: Job, label: str, threads: int) -> SolverResult:
    """Play a course with one solver in a process of its own.

    Parameters
    ----------
    label : str
        Of the solver, for people.
    threads : int
        That it is given.

    Returns
    -------
    SolverResult
        Whatever happens to the process.
    """
    begin, heard = perf_counter(), _Heard()
    with _process(_play, job) as (process, words):
        patience = _PATIENCE * job.limit + _PATIENCE_SECONDS
        ended = _listen(process, words, heard, patience, job.memory_mb)
    status, reason = _outcome(job, heard, ended)
    return SolverResult(
        job.settings.name,
        label,
        threads,
        status,
        reason,
        heard.records,
        heard.peak_memory_mb,
        heard.warm_up,
        perf_counter() - begin,
        heard.stopping,
    )


def apart(call: Callable[..., T], *arguments: Any) -> T:
    """What a call returns in a process of its own, whose memory it does not leave behind.

    Parameters
    ----------
    call : callable
        Picklable, as are its arguments and what it returns.

    Raises
    ------
    CopterError
        It failed; the text has the error.
    """
    with _process(_call, call, *arguments) as (process, words):
        try:
            kind, value = words.recv()
        except EOFError:
            process.join()
            raise CopterError(f"the process ended with exit code {process.exitcode}") from None
    if kind == "failed":
        raise CopterError(value)
    found: T = value
    return found


@dataclass
class _Heard:
    """What a process said so far."""

    records: list[Record]
    stopping: dict[str, float]
    warm_up: float = float("nan")
    peak_memory_mb: float = float("nan")
    over: bool = False
    failure: str = ""

    def __init__(self) -> None:
        self.records, self.stopping = [], {}

    @property
    def ready(self) -> bool:
        """Whether the warm-up is over."""
        return not math.isnan(self.warm_up)

    def take(self, kind: str, value: Any) -> None:
        """Keep a word."""
        if kind == "record":
            self.records.append(value)
        elif kind == "failed":
            self.failure = value
        elif kind == "over":
            self.over, self.peak_memory_mb = True, value
        else:
            self.warm_up, self.stopping = value


@contextmanager
def _process(target: Callable[..., None], *arguments: Any) -> Iterator[tuple[BaseProcess, Connection]]:
    """A process that writes to the connection; it is over when the block is, also by Ctrl-C."""
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(there, *arguments))
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        process.join(_LOOK_SECONDS)
        if process.is_alive():
            process.kill()
        process.join()
        here.close()


def _listen(process: BaseProcess, words: Connection, heard: _Heard, patience: float, memory_mb: float) -> str:
    """Take all that a process says; why it was ended, empty if it was not."""
    last = perf_counter()
    while not (heard.over or heard.failure):
        if words.poll(_LOOK_SECONDS):
            try:
                heard.take(*words.recv())
            except EOFError:
                process.join()
                heard.failure = f"the process ended with exit code {process.exitcode}"
            last = perf_counter()
        elif _memory_mb(process) > memory_mb:
            return f"it held more than {memory_mb / 1e3:.1f} GB of memory"
        elif perf_counter() - last > (most := patience if heard.ready else _WARM_UP_PATIENCE):
            return f"no answer within {most:.0f} s"
    return ""


def _memory_mb(process: BaseProcess) -> float:
    """Memory that a process holds, where the system says so."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6


def _outcome(job: Job, heard: _Heard, ended: str) -> tuple[Status, str]:
    if ended:
        return "missed", f"round {len(heard.records)}: {ended}"
    if heard.failure:
        return "failed", heard.failure
    late = [record for record in heard.records if _is_late(record, job.limit)]
    if late:
        number, took = late[0]["round"], max(late[0]["t_edit"], late[0]["t_solve"])
        return "missed", f"round {number}: {late[0]['status']} after {took:.3g} s, of {job.limit:g} s"
    few = len(heard.records) < job.rounds
    spent = f"{len(heard.records)} of {job.rounds} rounds in its {job.seconds:g} s"
    return "measured", spent if few else ""


def _is_late(record: Record, limit: float) -> bool:
    """Whether a round has no answer, or one that its limit cut off or that came after it."""
    took = max(record["t_edit"], record["t_solve"])
    cut = record["status"] in ("deadline", "cancelled") or took > _CUT * limit
    return bool(record["missed"] or (cut and not record["certified"]) or took > _LATE * limit)


def _play(words: Connection, job: Job) -> None:
    """The process: warm up, play, say what came of it."""
    _belong()
    try:
        begin = perf_counter()
        _warm_up(job)
        job.settings.made.clear()
        play = job.course.play(job.settings)
        words.send(("ready", (perf_counter() - begin, play.stopping)))
        begin = perf_counter()
        for record in _rounds(job, play.records):
            words.send(("record", record))
            spent = perf_counter() - begin
            if _is_late(record, job.limit) or (record["round"] + 1 >= _LEAST_ROUNDS and spent > job.seconds):
                break
        words.send(("over", peak_memory_mb()))
    except BaseException as error:  # whatever a solver raises is said and ends no suite
        words.send(("failed", _said(error)))
    words.close()


def _belong() -> None:
    """Leave it to who started this process to end it, and end with them, also if they are killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    if sys.platform == "linux":  # at once, also in a solver that holds the interpreter
        CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _warm_up(job: Job) -> None:
    """Load kernels and start threads; of a tiny course itself, where nothing hangs on seconds."""
    if not job.brief:
        warm_up(job.course, job.settings, _WARM_UP_SECONDS)
    elif job.settings.name not in RIVALS:
        for _ in islice(job.course.play(replace(job.settings, time_limit=_COMPILING)).records, 2):
            pass


def _rounds(job: Job, records: Iterator[Record]) -> Iterator[Record]:
    checker = CHECKERS[job.checker]
    for record in islice(records, job.rounds):
        found: Mapping[str, float] = job.settings.found()
        yield record | checker.judge(record, found, job.settings.tolerance)


def _call(words: Connection, call: Callable[..., Any], *arguments: Any) -> None:
    _belong()
    try:
        words.send(("done", call(*arguments)))
    except BaseException as error:  # said to whoever called
        words.send(("failed", _said(error)))
    words.close()


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
