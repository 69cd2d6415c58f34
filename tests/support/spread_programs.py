"""Programs whose stores are in parts, made by whatever makes programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from copter.program import program as program_module
from copter.store.spread import SpreadStore
from copter.store.workers import InProcess

Made = TypeVar("Made")


@contextmanager
def spread_stores(parts: int) -> Iterator[None]:
    """Within it the store of every new program is in so many parts, in this process."""
    usual = program_module.ConstraintStore
    program_module.ConstraintStore = lambda: SpreadStore(InProcess(parts))
    try:
        yield
    finally:
        program_module.ConstraintStore = usual


def made(parts: int, make: Callable[..., Made], *arguments, **options) -> Made:
    """What ``make`` makes with a store in so many parts; 0: with a store of one process."""
    if not parts:
        return make(*arguments, **options)
    with spread_stores(parts):
        return make(*arguments, **options)
