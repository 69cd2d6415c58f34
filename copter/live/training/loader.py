"""The order in which a job sees its examples, independent of batch sizes and numbers of processes.

Epoch e visits all n examples in the order of a permutation drawn from (seed, e).  The state of the loader is
the count c of examples that were seen: c // n epochs, and c % n examples of the next epoch's order.  So every
example of an epoch is seen exactly once before the next epoch begins.  After a stop, a job continues with the
next example, whatever its new batch size and number of processes.  A batch is never shortened: at the end of
an epoch it takes its remaining examples from the beginning of the next epoch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Loader:
    """Position of a job in its n examples, after it has seen c of them (`consumed`)."""

    def __init__(self, examples: int, seed: int = 0, consumed: int = 0) -> None:
        if examples < 1:
            raise ValueError(f"examples = {examples}: must be at least 1")
        if seed < 0 or consumed < 0:
            raise ValueError(f"seed = {seed}, consumed = {consumed}: must not be negative")
        self.examples, self.seed, self.consumed = examples, seed, consumed
        self._order: tuple[int, NDArray[np.int64]] | None = None

    @property
    def epoch(self) -> int:
        """Number of completed epochs."""
        return self.consumed // self.examples

    @property
    def position(self) -> int:
        """Number of examples seen in the present epoch."""
        return self.consumed % self.examples

    def take(self, count: int) -> NDArray[np.int64]:
        """Return the indices of the next examples, and advance past them."""
        parts = []
        while count > 0:
            part = self._permutation(self.epoch)[self.position : self.position + count]
            self.consumed += len(part)
            count -= len(part)
            parts.append(part)
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _permutation(self, epoch: int) -> NDArray[np.int64]:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.seed, epoch]).permutation(self.examples)
        return self._order[1]
