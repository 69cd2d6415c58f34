"""DistributedExecutor: runs tasks on the parts of a store on workers, and fetches columns from them.

Edits are logged, and sent before the next task, or earlier if the log is long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from copter.errors import UnusableError
from copter.ray.columns import FetchedColumns
from copter.ray.part_store import PartStore
from copter.store.executor import Columns, Executor, Task, cut
from copter.store.slabs import every_column
from copter.store.store import ConstraintStore
from copter.store.view import StoreView

if TYPE_CHECKING:
    from copter.ray.workers import Workers
    from copter.store.edit import Edit
    from copter.store.local import LocalStore

Result = TypeVar("Result")
_SEND_FROM = 1 << 26
"""Bytes of logged edits from which on they are sent at once."""


class DistributedExecutor(Executor):
    """Executor on workers that hold the parts of a store; `store` has the tables, without columns."""

    local = False

    def __init__(self, store: ConstraintStore, workers: Workers) -> None:
        super().__init__(store)
        self.workers = workers
        self._log: list[Edit] = []
        self._logged = 0
        self._columns: FetchedColumns | None = None
        self._refusal = ""

    # ---- edits ---------------------------------------------------------------------------------

    def log(self, edit: Edit) -> None:
        """Log an edit of the parts."""
        self.check()
        self._columns = None
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
            except BaseException as error:  # also Ctrl-C: some parts may have the edits, others not
                why = f"{type(error).__name__}: {error}"
                again = "close the program and make a new one, or open its journal"
                self.refuse(f"edits did not reach all parts ({why}); {again}")
                raise

    def refuse(self, why: str) -> None:
        """Reject all later edits and tasks with an error that has the text `why`."""
        self._refusal = why
        self._log, self._logged = [], 0

    def check(self) -> None:
        """Raise an UnusableError if :meth:`refuse` was called."""
        if self._refusal:
            raise UnusableError(self._refusal)

    # ---- tasks and columns ---------------------------------------------------------------------

    def map(
        self,
        task: Callable[..., Result],
        *common: Any,
        slots: NDArray[np.int64] | None = None,
    ) -> list[Result]:
        """Return ``task(part, *common)`` of every part."""
        self.flush()
        return self.workers.each(task, common, None if slots is None else self._cut(slots))

    def _cut(self, slots: NDArray[np.int64] | None) -> list[tuple[NDArray[np.int64], ...]]:
        """Return the slots in each part of some requests, as the last arguments of a task."""
        parts = self.workers.parts
        return [()] * parts if slots is None else [(slots[own] // parts,) for own in cut(slots, parts)]

    def ask(self, task: Task, slot: int, *arguments: Any) -> Any:
        """Return ``task(part, slot in the part, *arguments)`` of the part with a request."""
        self.flush()
        parts = self.workers.parts
        return self.workers.one(slot % parts, task, slot // parts, *arguments)

    def columns(
        self, slot: NDArray[np.int64], column: NDArray[np.int64], *more: Columns
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """Return a view of given columns, which are fetched, and their positions."""
        self.flush()
        if self._columns is None:
            self._columns = FetchedColumns(self.store, self.workers)
        return self._columns.with_all(slot, column, *more)

    def all_columns(self) -> StoreView:
        """Return a view of all columns, which are fetched."""
        sizes = self.store.requests.n_columns[: self.store.requests.size]
        return self.columns(*every_column(np.arange(sizes.size), sizes))[0]

    def blank_parts(self) -> list[LocalStore]:
        """Return stores to be filled for :meth:`restore_parts`, one for each part."""
        return [PartStore() for _ in range(self.workers.parts)]

    def restore_parts(self, stores: Sequence[LocalStore]) -> None:
        """Replace the stores of the parts."""
        self.workers.restore(stores)

    def close(self) -> None:
        """Release the columns; later edits and tasks raise an UnusableError."""
        self.refuse("the program was closed; make a new one")
        self.workers.close()

    def diagnostics(self) -> dict[str, float]:
        """Return irregularities of the workers since the last call."""
        return self.workers.diagnostics()
