"""BLAS with one thread while solves are under way: its own only get in the way of small dense systems."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_change = threading.Lock()
_users = 0
_limit: Any = None


_SMALL = 32
"""Systems of up to so many rows take one thread in any case, and less time than a limit takes."""


@contextmanager
def one_blas_thread(rows: int | None) -> Iterator[None]:
    """Keep BLAS at one thread for systems of so many rows, at most; None if that is not known.

    The limit is the process', so that the last of several users lifts it.
    """
    global _users, _limit
    if rows is not None and rows <= _SMALL:
        yield
        return
    with _change:
        if not _users:
            _limit = _controller().limit(limits=1)
        _users += 1
    try:
        yield
    finally:
        with _change:
            _users -= 1
            if not _users:
                _limit.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
