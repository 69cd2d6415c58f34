"""The thread that runs the code of a policy, whatever that code does.

A policy is code of other authors.  It may raise any exception, and it may never return.  Every exception,
also SystemExit and CancelledError, becomes a :class:`PolicyFailedError` of the caller.  A call that takes too
long is abandoned: the thread is a daemon thread, so the process can end, and a late result is ignored.  A
policy that ends the process itself (``os._exit``), that never releases Python's global lock, or that changes
the jobs and the cluster that it is shown, cannot be contained.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar, cast

from copter.errors import CopterError
from copter.live.untrusted import words

NO_DECISION = "no decision"
"""Begin of the message about a policy that did not return in time."""
_log = logging.getLogger("copter.live")
_T = TypeVar("_T")


class PolicyFailedError(CopterError, RuntimeError):
    """The code of a policy raised an exception, which the message names."""


class PolicySilentError(PolicyFailedError):
    """The code of a policy did not return in time."""


class PolicyThread:
    """A daemon thread that makes one call at a time."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._waiting: dict[asyncio.Future[tuple[Any, str | None]], None] = {}
        self._abandoned = False
        self._thread = Thread(target=self._run, name="policy", daemon=True)
        self._thread.start()

    def start(self, call: Callable[[], object]) -> None:
        """Make a call, which must not raise, after all earlier calls."""
        self._calls.put(call)

    async def call(self, function: Callable[[], _T], seconds: float | None) -> _T:
        """Return the result of a function that is called in the thread.

        Raises
        ------
        PolicyFailedError
            The function raised an exception, or the thread was abandoned before the function was called.
        PolicySilentError
            The function did not return within `seconds`. It may still be running.
        """
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[tuple[Any, str | None]] = loop.create_future()

        def answer(value: Any, error: str | None) -> None:
            if not answered.done():  # it is done if nothing waits for the answer any more
                answered.set_result((value, error))

        def call() -> None:
            value, error = None, None
            try:
                value = function()
            except BaseException as raised:  # also SystemExit, StopIteration and CancelledError
                where = "".join(traceback.format_exception(raised))
                _log.error("the policy failed: %s", where.encode(errors="backslashreplace").decode())
                error = described(raised)
            try:
                loop.call_soon_threadsafe(answer, value, error)
            except RuntimeError:  # the loop is closed, because the service has ended
                _log.debug("the answer of a policy came after the end of the service")

        self.start(call)
        self._waiting[answered] = None
        try:
            value, error = await asyncio.wait_for(answered, seconds)
        except TimeoutError:
            raise PolicySilentError(f"{NO_DECISION} within {seconds:g} s") from None
        finally:
            del self._waiting[answered]
        if error is not None:
            raise PolicyFailedError(error)
        return cast(_T, value)

    def abandon(self) -> None:
        """Never make the calls that wait for the present one, which does not return; their callers fail."""
        self._abandoned = True
        for answered in self._waiting:
            if not answered.done():
                answered.set_result((None, f"{NO_DECISION}, because an earlier call did not return"))
        self.close()

    def close(self, seconds: float = 0.0) -> None:
        """End the thread after its calls; wait at most `seconds` for that."""
        self._calls.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None and not self._abandoned:
            call()


def described(error: BaseException) -> str:
    """Return the type and the text of an exception, whose text may itself raise an exception."""
    try:
        return words(f"{type(error).__name__}: {error}")
    except BaseException:
        return type(error).__name__
