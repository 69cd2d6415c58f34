"""The rounds of a course run with one solver after the other, one record per (solver, round).

Each solver gets its own program and the same events.  A round's time is edit, solve and shim.

- `t_edit` is what the solver needs to have this round's problem before it.  For copter's solvers that is
  applying the deltas to the program, and what the domain does for a start.  For the others, and for
  `copter-rebuild`, it is bringing up to date a model of their own: `highs-hot` finds the differences by the
  program's stamps and pushes them, all others build flat arrays and a model again.  Applying the deltas to
  copter's program is not their work; those seconds are in `t_store`, for every solver, and in the others'
  `t_edit` and `t_total` they are not.
- `t_solve` is, for copter's solvers, all that `solve` does, its certificate too; for the others only the
  seconds in the solver itself (of `highs-hot`'s first round also those in which copter looks for a basis).
  Reading their answer and certifying it is this package's work, kept apart as `t_certify`.

Compilation is never timed: a small course of the same kind runs through the same code first, large enough for
the passes that use threads, and copter's solvers that choose their inner solver run coordinate descent too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

from copter.bench.course import Course
from copter.bench.machine import machine, peak_memory_mb
from copter.bench.settings import Measured, Record, SolverSettings
from copter.solvers.features import Feature
from copter.solvers.registry import SOLVERS
from copter.spreading.processes import Processes
from copter.spreading.tasks import Task, Tell

_WARM_UP_SECONDS = 60.0
_WARM_UP_SECONDS_OTHERS = 10.0


def measure(
    course: Course, settings: SolverSettings, on_record: Callable[[Record], None] | None = None
) -> Measured:
    """Run a course with one solver, in this process.

    Parameters
    ----------
    on_record : callable, optional
        Called with each record as it is made.
    """
    warm_up(course, settings)
    play = course.play(settings)
    measured = Measured(settings.name, stopping=play.stopping)
    for record in play.records:
        measured.records.append(record)
        if on_record is not None:
            on_record(record)
    play.close()
    return measured


def warm_up(course: Course, settings: SolverSettings, seconds_of_others: float | None = None) -> None:
    """Run the small version of a course: compiles or loads every kernel, starts the threads.

    What a later round may be the first to need is rehearsed too.  The deadline of the settings does not hold
    here.

    Parameters
    ----------
    seconds_of_others : float, optional
        Solvers that compile nothing play one round only, and have so many seconds for it.
    """
    # a method of the course's own is no solver
    solver = settings.make() if settings.name in SOLVERS else None
    compiles = solver is not None and Feature.COMPILES in solver.features
    brief = seconds_of_others is not None and not compiles
    limit = _WARM_UP_SECONDS if compiles else seconds_of_others or _WARM_UP_SECONDS_OTHERS
    play = course.small().play(replace(settings, time_limit=limit))
    for _ in islice(play.records, 1 if brief else None):
        pass
    if solver is not None and play.program is not None:
        solver.rehearse(play.program)
    play.close()


def measure_task(course: Course, settings: SolverSettings) -> Task:
    """Return the measuring of a course with one solver as a task.

    It tells the name of the solver as it begins, then each record, and returns what was measured; in a
    process of its own it also weighs that.  Tasks like this are timed: they run alone.
    """
    return Task(settings.name, _measure, (course, settings, os.getpid()))


def _measure(course: Course, settings: SolverSettings, caller: int, *, tell: Tell | None = None) -> Measured:
    if tell is not None:
        tell(settings.name)
    measured = measure(course, settings, tell)
    if os.getpid() != caller:
        measured.peak_memory_mb = peak_memory_mb()
        measured.machine = machine()
    return measured


def measure_isolated(
    course: Course, settings: SolverSettings, on_record: Callable[[Record], None] | None = None
) -> Measured:
    """Run a course in a process of its own, so that its peak memory is the solver's.

    Parameters
    ----------
    on_record : callable, optional
        Called with each record as it is made.
    """

    def hear(task: Task, said: Any) -> None:
        if on_record is not None and not isinstance(said, str):
            on_record(said)

    (ended,) = Processes(1).each([measure_task(course, settings)], hear)
    measured: Measured = ended.result()
    return measured
