"""SpreadProgram: a program whose requests are spread over workers, with the verbs of any other."""

from __future__ import annotations

from copter.program.program import ContinualProgram
from copter.store.spread import SpreadStore
from copter.store.workers import Workers


class SpreadProgram(ContinualProgram):
    """A continual program whose columns are elsewhere.

    Edits are validated here and sent when a solve or a query asks for something, those of a round together.

    Parameters
    ----------
    workers : Workers
        Empty; who has the columns.
    """

    store: SpreadStore

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self.store = SpreadStore(workers)

    def close(self) -> None:
        """Let the columns go; whoever uses the program afterwards gets an UnusableError."""
        self.store.executor.refuse("the program was closed: make another one")
        self.store.executor.workers.close()
