"""Programs whose stores are in parts, all in this process: what actors do, without Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from copter.clock import check
from copter.program import program as program_module
from copter.ray.part_store import PartStore
from copter.ray.store import DistributedStore
from copter.store.edit import Edit
from copter.store.executor import Part, Task
from copter.store.local import LocalStore

Made = TypeVar("Made")


class InProcess:
    """All parts in this process, one after the other."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.stores = [PartStore() for _ in range(parts)]

    def send(self, edits: list[Edit]) -> None:
        for edit in edits:
            for number, store in enumerate(self.stores):
                own = edit.of(number, number + 1)
                if own is not None:
                    store.apply(own)

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        results = []
        for number in range(self.parts):
            check()
            mine = () if own is None else own[number]
            results.append(self.one(number, task, *common, *mine))
        return results

    def one(self, number: int, task: Task, *arguments: Any) -> Any:
        return task(Part(self.stores[number], number, self.parts), *arguments)

    def restore(self, stores: Sequence[LocalStore]) -> None:
        self.stores = list(stores)

    def diagnostics(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        self.stores = []


@contextmanager
def spread_stores(parts: int) -> Iterator[None]:
    """Cut the store of every new program into `parts` parts of this process, within a ``with`` block."""
    usual = program_module.LocalStore
    program_module.LocalStore = lambda: DistributedStore(InProcess(parts))
    try:
        yield
    finally:
        program_module.LocalStore = usual


def made(parts: int, make: Callable[..., Made], *arguments, **options) -> Made:
    """What ``make`` makes with a store in so many parts; 0: with a store of one process."""
    if not parts:
        return make(*arguments, **options)
    with spread_stores(parts):
        return make(*arguments, **options)
