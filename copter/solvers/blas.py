"""Limit of one BLAS thread during solves, because the dense systems are too small for more threads."""

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
"""Systems of up to this many rows use one thread in any case, and are solved faster than a limit is set."""


@contextmanager
def one_blas_thread(rows: int | None) -> Iterator[None]:
    """Limit BLAS to one thread while systems of at most `rows` rows are solved.

    `rows`: None if the number is not known. The limit holds for the process; the last user removes it.
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
