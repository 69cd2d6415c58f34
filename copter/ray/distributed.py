"""DistributedProgram: a ContinualProgram whose columns are in other processes."""

from __future__ import annotations

from copter.program.program import ContinualProgram
from copter.program.sense import Sense
from copter.ray.store import DistributedStore
from copter.ray.workers import Workers


class DistributedProgram(ContinualProgram):
    """Program without columns at first, whose columns are stored on workers.

    Edits are validated in this process. They are sent together when a solve or a query needs them, or earlier
    if the log is long.
    """

    store: DistributedStore

    def __init__(self, workers: Workers, *, sense: Sense = "min") -> None:
        super().__init__(sense=sense)
        self.store = DistributedStore(workers)

    def close(self) -> None:
        """Release the columns; later edits, solves and reads of columns raise an UnusableError."""
        self.store.executor.close()
