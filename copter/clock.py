"""Clock of a solve: its deadline and its cancellation.

A large part of a solve is spent in functions called by the solver: certificates, rays and builds of models.
These functions call :func:`check` between pieces of work. It raises :class:`Interrupted` if the present
thread runs a solve that was cancelled, or that is later than its deadline by more than a grace time. Outside
a solve it does nothing. A solver usually stops before its deadline. The exception handles work that takes
longer than the solver expected.
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
"""Running work may exceed the deadline by these seconds, or by this fraction of it if that is more."""
_LOOK = 0.01
"""Seconds between checks for cancellation while waiting for another thread."""


class Interrupted(CopterError, RuntimeError):
    """A solve has no time left or was cancelled; solvers catch this error, so users never see it."""


class Clock:
    """Clock of a solve; calling it returns the seconds since the solve began.

    Parameters
    ----------
    deadline : float, optional
        Seconds from now until the solve must end.
    parent : Clock, optional
        Clock of the solve or round that this solve is a part of. The solve ends when `parent` is cancelled or
        late.
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
    def seconds(self) -> float:
        """Time limit of the solve in seconds, at most that of the solve or round that contains it."""
        return self.deadline if self._parent is None else min(self.deadline, self._parent.seconds)

    @property
    def cancelled(self) -> bool:
        """True if this solve, or the solve or round that contains it, was cancelled."""
        return self._cancelled or (self._parent is not None and self._parent.cancelled)

    def cancel(self) -> None:
        """Cancel the solve; any thread can call it."""
        self._cancelled = True

    def left(self, reserve: float = 0.0) -> float:
        """Return the seconds until ``reserve`` seconds before the deadline; 0 if late or cancelled."""
        left = 0.0 if self._cancelled else max(0.0, self.deadline - reserve - self())
        return left if self._parent is None else min(left, self._parent.left(reserve))

    def over(self, reserve: float = 0.0) -> bool:
        """Return whether the solve must end now, if ending takes ``reserve`` seconds."""
        return self.left(reserve) <= 0.0

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Allow work in this context to exceed the deadline; a cancelled solve still ends."""
        before, self._patient = self._patient, True
        try:
            yield
        finally:
            self._patient = before

    def check(self) -> None:
        """Raise Interrupted if the solve was cancelled or is later than its deadline plus a grace time."""
        late = self() > self.deadline + max(_GRACE, _GRACE_SHARE * self.deadline)
        if self.cancelled or (late and not self._patient):
            raise Interrupted(self.why())
        if self._parent is not None and not self._patient:
            self._parent.check()

    def why(self) -> str:
        """Return the reason why the solve ended, in words."""
        if self.cancelled:
            return "cancelled"
        if self._parent is not None and (self._parent.over() or self.deadline == math.inf):
            return self._parent.why()
        return f"deadline of {self.deadline:g} s reached"

    def wait(self, finished: threading.Event, reserve: float = 0.0) -> bool:
        """Wait until another thread sets ``finished``; return whether it did so in time.

        Return False ``reserve`` seconds before the deadline, or as soon as the solve is cancelled, for
        example by Ctrl-C.
        """
        while not finished.is_set():
            left = self.left(reserve)
            if left <= 0.0:
                return False
            finished.wait(min(left, _LOOK))
        return True


@contextmanager
def ctrl_c_cancels(clock: Clock) -> Iterator[None]:
    """Let Ctrl-C cancel the solve of a clock, and raise KeyboardInterrupt after the solve has ended.

    An exception in the middle of compiled code would leave data inconsistent. A second Ctrl-C raises at once.
    If the process has installed its own handler of Ctrl-C, that handler is kept. It may call a solver's
    ``cancel``.
    """
    installs = (
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

    if installs:
        signal.signal(signal.SIGINT, cancel)
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as other:
        if pressed:  # the user asked for the interrupt, so it takes precedence over the other exception
            raise KeyboardInterrupt from other
        raise
    finally:
        if installs:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


_local = threading.local()


def current() -> Clock | None:
    """Return the clock of the solve that this thread runs, or None."""
    clock: Clock | None = getattr(_local, "clock", None)
    return clock


@contextmanager
def running(clock: Clock) -> Iterator[Clock]:
    """Set the clock of this thread for a ``with`` block."""
    before = current()
    _local.clock = clock
    try:
        yield clock
    finally:
        _local.clock = before


def time_left() -> float:
    """Return the seconds left for the solve or round that this thread runs; infinity outside of both."""
    clock = current()
    return math.inf if clock is None else clock.left()


def over() -> bool:
    """Return whether this thread runs a solve or a round that has no time left or was cancelled."""
    clock = current()
    return clock is not None and clock.over()


def check_for(seconds: float) -> None:
    """Raise Interrupted if this thread's solve was cancelled or has less than ``seconds`` left.

    Call it before work that cannot be interrupted. Work of at most 25 ms is always allowed to begin.
    """
    clock = current()
    if clock is not None and seconds > _GRACE and clock.over(seconds):
        raise Interrupted(clock.why())


def check() -> None:
    """Raise Interrupted if this thread runs a solve that is late or was cancelled."""
    clock = current()
    if clock is not None:
        clock.check()
