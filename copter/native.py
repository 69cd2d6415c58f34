"""Calls into native libraries that check the deadline and Ctrl-C only in some of their code.

HiGHS and GLOP check their time limit in the loops of their solvers, but not in presolve, set-up and clean-up.
With 1,000,000 columns and a limit of 3 s both took 5.7 s, and HiGHS' PDLP took 7.7 s. Therefore such a call
runs in its own thread, on its own data. If the solve must end before the call returns, the solve abandons the
thread. The thread ends when the library next checks its limit, and the result of the call is discarded.
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
    """Call ``work()`` in a thread of its own and return its result.

    The work must release the GIL and must not read or change a program. It must end `reserve` seconds before
    the deadline of `clock`. If it does not, or the solve is cancelled, call `stop` to ask the work to end,
    and raise Interrupted. The work may then continue for a while, so the caller must not use the work's data
    again.
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
