"""DistributedExecutor: tasks on the parts of a store that workers have, and the columns that came from there.

Edits are logged, and sent before the next that is asked of the parts, or earlier when the log is long.

What takes a round trip is guessed ahead.  Rounds are much alike: the tasks that were asked once in the last
one (:meth:`copter.store.executor.Executor.once`), and the columns that were looked at and edited since, are
asked for along with the first task of this one that fetches columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from copter.errors import UnusableError
from copter.ray.column_cache import ColumnCache, Message, answer, fetch
from copter.ray.part_store import PartStore
from copter.store.executor import Columns, Executor, Task, cut
from copter.store.slabs import slice_indices
from copter.store.store import ConstraintStore
from copter.store.view import StoreView

if TYPE_CHECKING:
    from copter.ray.workers import Workers
    from copter.store.edit import Edit
    from copter.store.executor import Key, Offloaded
    from copter.store.local import LocalStore

Result = TypeVar("Result")
_SEND_FROM = 1 << 26
"""Bytes from which on logged edits are sent without waiting for the round."""


class DistributedExecutor(Executor):
    """Runs tasks on workers that have the parts of a store; `store` has the tables, without columns."""

    local = False

    def __init__(self, store: ConstraintStore, workers: Workers) -> None:
        super().__init__(store)
        self.workers = workers
        self._log: list[Edit] = []
        self._logged = 0
        self._cache: ColumnCache | None = None
        self._asked_once: dict[Key, NDArray[np.int64] | None] = {}
        self._refusal = ""

    # ---- edits ---------------------------------------------------------------------------------

    def log(self, edit: Edit, slots: NDArray[np.int64]) -> None:
        """Log an edit after which the columns of requests in some slots are others."""
        self.check()
        if edit.verb == "remove_resources":  # entries go when enough rows have been dropped
            self._cache = None
        elif self._cache is not None:
            self._cache.edited(slots)
        self._log.append(edit)
        self._logged += edit.nbytes
        if self._logged > _SEND_FROM:
            self.flush()

    def flush(self) -> None:
        """Send the edits of the log; raise UnusableError if the parts are closed or have missed edits."""
        self.check()
        if self._log:
            log, self._log, self._logged = self._log, [], 0
            try:
                self.workers.send(log)
            except BaseException as error:  # some parts may have them, others not: Ctrl-C counts as well
                why = f"{type(error).__name__}: {error}"
                again = "close the program and make it again, or open its journal"
                self.refuse(f"edits did not reach all parts ({why}): {again}")
                raise

    def refuse(self, why: str) -> None:
        """Refuse edits and tasks from now on, with an error that says why, and what to do."""
        self._refusal = why
        self._log, self._logged = [], 0

    def check(self) -> None:
        """Raise the UnusableError that :meth:`refuse` was told."""
        if self._refusal:
            raise UnusableError(self._refusal)

    # ---- tasks and columns ---------------------------------------------------------------------

    def map(
        self,
        task: Callable[..., Result],
        *common: Any,
        slots: NDArray[np.int64] | None = None,
        fetch: bool = False,
    ) -> list[Result]:
        """See :meth:`Executor.map`; one that fetches columns takes along what is likely to be asked next."""
        if fetch:
            return self._map_and_fetch(task, common, self._cut(slots))
        self.flush()
        return self.workers.each(task, common, None if slots is None else self._cut(slots))

    def _map_and_fetch(
        self, task: Callable[..., Result], common: tuple[Any, ...], own: Sequence[tuple[Any, ...]]
    ) -> list[Result]:
        """Map a task, together with those that were asked once in the last round, and prefetch columns."""
        cache, answers, parts = self._columns(), self._answers(), self.workers.parts
        others = {key: slots for key, slots in self._asked_once.items() if key not in answers}
        message = Message(task, common, tuple((key.task, key.common) for key in others), cache.mark)
        prefetched = slot, column = cache.prefetch(self.store)
        stale = np.concatenate([slot[:0], *cache.stale])
        mine = zip(cut(stale, parts), cut(slot, parts), own, *map(self._cut, others.values()), strict=True)
        own = [(stale[old], slot[k], column[k], *each) for old, k, *each in mine]
        self.flush()
        found = self.workers.each(answer, (message,), own)
        if others:
            self._asked_once = {}
        for number, key in enumerate(others):
            answers[key] = [others[number] for _, others, _ in found]
        cache.stale = []
        cache.take([given for _, _, given in found], unseen=prefetched)
        return [result for result, _, _ in found]

    def once(
        self, task: Callable[..., Result], *common: Any, slots: NDArray[np.int64] | None = None
    ) -> list[Result]:
        """See :meth:`Executor.once`."""
        self._asked_once[self._key(task, common, slots)] = slots
        return super().once(task, *common, slots=slots)

    def _cut(self, slots: NDArray[np.int64] | None) -> list[tuple[NDArray[np.int64], ...]]:
        """Return each part's own of some requests, by their slots there, as the last arguments of a task."""
        parts = self.workers.parts
        return [()] * parts if slots is None else [(slots[own] // parts,) for own in cut(slots, parts)]

    def ask(self, task: Task, slot: int, *arguments: Any) -> Any:
        """Return ``task(part, slot there, *arguments)`` of the part with a request."""
        self.flush()
        parts = self.workers.parts
        return self.workers.one(slot % parts, task, slot // parts, *arguments)

    def columns(
        self, slot: NDArray[np.int64], column: NDArray[np.int64], *more: Columns
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """See :meth:`Executor.columns`."""
        cache = self._columns()
        slots, columns = cache.missing((slot, column), *more)
        if slots.size:
            self.flush()
            own = [(slots[k], columns[k]) for k in cut(slots, self.workers.parts)]
            cache.take(self.workers.each(fetch, (cache.mark,), own))
        return cache.view(self.store), cache.places(slot, column)

    def _columns(self) -> ColumnCache:
        """The cache, without the columns that were edited."""
        if self._cache is None or not self._cache.fits(self.store):
            self._cache = ColumnCache(self.store)
        return self._cache

    def all_columns(self) -> StoreView:
        """See :meth:`Executor.all_columns`: all of them are fetched."""
        sizes = self.store.requests.n_columns[: self.store.requests.size]
        every = np.repeat(np.arange(sizes.size), sizes), slice_indices(np.zeros_like(sizes), sizes)
        return self.columns(*every)[0]

    def offload(self, pieces: Sequence[Any]) -> Offloaded | None:
        """See :meth:`Executor.offload`."""
        self.check()
        return None if self.workers.parts == 1 else self.workers.offload(pieces)

    def blank_parts(self) -> list[LocalStore]:
        """See :meth:`Executor.blank_parts`."""
        return [PartStore() for _ in range(self.workers.parts)]

    def restore_parts(self, stores: Sequence[LocalStore]) -> None:
        """See :meth:`Executor.restore_parts`."""
        self.workers.restore(stores)

    def close(self) -> None:
        """Let the columns go; edits and questions are refused from now on."""
        self.refuse("the program was closed: make another one")
        self.workers.close()

    def diagnostics(self) -> dict[str, float]:
        """See :meth:`Executor.diagnostics`."""
        return self.workers.diagnostics()
