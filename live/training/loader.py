"""The order in which a job sees its examples, whatever batch sizes and processes it has.

Epoch e goes through all n examples in the order of a permutation drawn from (seed, e), and the loader is no
more than the count c of examples that were seen: c // n epochs, and c % n examples of the next one's order.
So every example of an epoch is seen exactly once before the next epoch begins, and a job goes on at the very
next example after any stop, with any other batch size and number of processes.  A batch is never cut short:
one that reaches over the end of an epoch takes its remaining examples from the beginning of the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Loader:
    """Position of a job in its examples.

    Parameters
    ----------
    examples : int
        n, of the data set.
    seed : int
        Of all epochs' orders.
    consumed : int
        c, examples that were seen before.

    Raises
    ------
    ValueError
        There are no examples, or fewer than none were seen.
    """

    def __init__(self, examples: int, seed: int = 0, consumed: int = 0) -> None:
        if examples < 1:
            raise ValueError(f"examples = {examples}: there must be at least one")
        if seed < 0 or consumed < 0:
            raise ValueError(f"seed = {seed}, consumed = {consumed}: neither may be negative")
        self.examples, self.seed, self.consumed = examples, seed, consumed
        self._order: tuple[int, NDArray[np.int64]] | None = None

    @property
    def epoch(self) -> int:
        """Epochs that were gone through."""
        return self.consumed // self.examples

    @property
    def position(self) -> int:
        """Examples that were seen of the epoch under way."""
        return self.consumed % self.examples

    def take(self, count: int) -> NDArray[np.int64]:
        """The next examples' numbers, and go on behind them."""
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
