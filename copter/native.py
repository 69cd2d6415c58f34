"""Calls into libraries that look at no clock while they work, and through which no Ctrl-C gets.

HiGHS keeps its time limit in the loops of its solvers, but not in presolve, in the setting up of a run and in
the clearing up after it, and GLOP likewise: of a program of 1,000,000 columns both took 5.7 s where 3 s were
the limit, HiGHS' PDLP 7.7 s.  So they run in a thread of their own, on data of their own, and a solve that is
over leaves them there: they end when they next look at their limit, and nobody reads what they found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from copter.clock import Clock, Interrupted

T = TypeVar("T")


def run_apart(
    work: Callable[[], T], clock: Clock, *, reserve: float = 0.0, stop: Callable[[], Any] | None = None
) -> T:
    """Return ``work()``, called in a thread of its own.

    The work must release the GIL and not touch a program. It must end `reserve` seconds before the deadline;
    `stop` asks it to end if it is given up. Raise Interrupted if it did not end in time, or the solve was
    cancelled. The work may continue for a while, so that whatever it uses must not be used again.
    """
    finished = threading.Event()
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            failure.append(error)
        finally:
            finished.set()

    threading.Thread(target=run, name="copter-native").start()
    try:
        done = clock.wait(finished, reserve)
    except BaseException:
        if stop is not None:
            stop()
        raise
    if not done:
        if stop is not None:
            stop()
        raise Interrupted(clock.why())
    if failure:
        raise failure[0]
    return result[0]
