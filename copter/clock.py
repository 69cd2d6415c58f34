"""The clock of a solve: how long it may go on, and the word to stop, wherever its work is done.

Much of a solve is passes over all columns, deep below the solver: certificates, rays, builds of models.  They
ask :func:`check` between pieces of work, which raises :class:`Interrupted` once the solve that this thread is
in has used up its deadline, or was cancelled.  Outside a solve it does nothing.  A solver looks ahead: it
stops in good time by itself, so that the exception is left for what took longer than it looked.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from types import FrameType

from copter.errors import CopterError

_GRACE, _GRACE_SHARE = 0.025, 0.05
"""Seconds, and share of the deadline, by which work under way may overrun it before it is interrupted."""
_LOOK = 0.01
"""Seconds between checks for cancellation while waiting for another thread."""


class Interrupted(CopterError, RuntimeError):
    """The solve has no time left, or was cancelled; solvers catch this error, users never get it."""


class Clock:
    """Seconds of a solve, by calling it; its deadline in seconds, if any; and whether it was cancelled.

    A solve that is part of another one ends when the `parent` clock is cancelled or late.
    """

    def __init__(self, deadline: float | None = None, parent: Clock | None = None) -> None:
        self._start = perf_counter()
        self.deadline = math.inf if deadline is None else deadline
        self._parent = parent
        self._cancelled = self._patient = False

    def __call__(self) -> float:
        """Return the seconds since the solve began."""
        return perf_counter() - self._start

    @property
    def cancelled(self) -> bool:
        """Whether it, or the solve that it is a part of, was cancelled."""
        return self._cancelled or (self._parent is not None and self._parent.cancelled)

    def cancel(self) -> None:
        """Say, from any thread, that it is to end now."""
        self._cancelled = True

    def left(self, reserve: float = 0.0) -> float:
        """Return the seconds until ``reserve`` seconds before the deadline; 0 if late or cancelled."""
        left = 0.0 if self._cancelled else max(0.0, self.deadline - reserve - self())
        return left if self._parent is None else min(left, self._parent.left(reserve))

    def over(self, reserve: float = 0.0) -> bool:
        """Whether it is time to end, if ending takes ``reserve`` seconds."""
        return self.left(reserve) <= 0.0

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Let work in this context overrun the deadline; a cancelled solve ends all the same."""
        before, self._patient = self._patient, True
        try:
            yield
        finally:
            self._patient = before

    def check(self) -> None:
        """Raise Interrupted if the solve was cancelled, or is later than work in progress may make it."""
        late = self() > self.deadline + max(_GRACE, _GRACE_SHARE * self.deadline)
        if self.cancelled or (late and not self._patient):
            raise Interrupted(self.why())
        if self._parent is not None and not self._patient:
            self._parent.check()

    def why(self) -> str:
        """Return why it ended, in words."""
        if self.cancelled:
            return "cancelled"
        if self._parent is not None and self._parent.over():
            return self._parent.why()
        return f"deadline of {self.deadline:g} s reached"

    def wait(self, finished: threading.Event, reserve: float = 0.0) -> bool:
        """Wait until another thread sets ``finished``; return whether it did, ``reserve`` seconds before the
        deadline.

        Ctrl-C ends the wait with a KeyboardInterrupt.
        """
        while not finished.is_set():
            left = self.left(reserve)
            if left <= 0.0:
                return False
            finished.wait(min(left, _LOOK))
        return True


@contextmanager
def ctrl_c_cancels(clock: Clock) -> Iterator[None]:
    """Let Ctrl-C cancel the solve of a clock, and raise KeyboardInterrupt when it has ended, by an exception
    or not.

    In the middle of compiled code the exception would leave data inconsistent. A second Ctrl-C raises at
    once. An existing handler of the process is kept; it may call a solver's ``cancel``.
    """
    ours = (
        current() is None
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    pressed = False

    def cancel(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        clock.cancel()

    if ours:
        signal.signal(signal.SIGINT, cancel)
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as other:
        if pressed:  # it was asked for, whatever else went wrong
            raise KeyboardInterrupt from other
        raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


_local = threading.local()


def current() -> Clock | None:
    """Clock of the solve that this thread is in."""
    clock: Clock | None = getattr(_local, "clock", None)
    return clock


@contextmanager
def running(clock: Clock) -> Iterator[Clock]:
    """Make a clock the one of this thread."""
    before = current()
    _local.clock = clock
    try:
        yield clock
    finally:
        _local.clock = before


def over() -> bool:
    """Whether this thread is in a solve, or in a round, that has no time left or was cancelled."""
    clock = current()
    return clock is not None and clock.over()


def check_for(seconds: float) -> None:
    """Raise Interrupted if this thread's solve has no time for ``seconds`` of uninterrupted work, or was
    cancelled.

    Work of less than a moment is always begun.
    """
    clock = current()
    if clock is not None and seconds > _GRACE and clock.over(seconds):
        raise Interrupted(clock.why())


def check() -> None:
    """Raise Interrupted if the solve that this thread is in, if any, is late or was cancelled."""
    clock = current()
    if clock is not None:
        clock.check()
