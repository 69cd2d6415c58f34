"""Calls of the code of a policy, each in its own thread, so that the service survives errors in this code.

A policy is code of other authors.  It may raise any exception, and it may never return.  Every exception,
including SystemExit and CancelledError, becomes a :class:`PolicyFailedError` of the caller.  A call that
takes too long is abandoned: the thread is a daemon thread, so the process can end, and a late result is
ignored.  A policy that ends the process itself (``os._exit``), or that never releases Python's global lock,
cannot be contained.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

from copter.errors import CopterError
from copter.live.untrusted import words

NO_DECISION = "no decision"
"""Beginning of the message about a policy that did not return in time."""
THREAD = "policy"
"""Name of the threads."""
_log = logging.getLogger("copter.live")
_T = TypeVar("_T")


class PolicyFailedError(CopterError, RuntimeError):
    """The code of a policy raised an exception; the message names the exception."""


class PolicySilentError(PolicyFailedError):
    """The code of a policy did not return in time."""


async def call_policy(function: Callable[[], _T], seconds: float) -> _T:
    """Return the result of a function of a policy; no other function must be called in the meantime.

    Raises
    ------
    PolicyFailedError
        If the function raises an exception.
    PolicySilentError
        If the function does not return within `seconds`.  It may still be running.
    """
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[_T] = loop.create_future()

    def answer(value: Any, error: str | None) -> None:
        if answered.done():  # nothing waits for the answer any more
            return
        if error is None:
            answered.set_result(value)
        else:
            answered.set_exception(PolicyFailedError(error))

    def call() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:  # also SystemExit, StopIteration and CancelledError
            where = "".join(traceback.format_exception(raised))
            _log.error("the policy failed: %s", where.encode(errors="backslashreplace").decode())
            error = described(raised)
        with suppress(RuntimeError):  # the loop is closed, because the service has ended
            loop.call_soon_threadsafe(answer, value, error)

    Thread(target=call, name=THREAD, daemon=True).start()
    try:
        return await asyncio.wait_for(answered, seconds)
    except TimeoutError:
        raise PolicySilentError(f"{NO_DECISION} within {seconds:g} s") from None


def described(error: BaseException) -> str:
    """Return the type and the text of an exception, whose text may itself raise an exception."""
    try:
        return words(f"{type(error).__name__}: {error}")
    except BaseException:
        return type(error).__name__
