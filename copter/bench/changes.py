"""Course in which a few of many requests change, to measure whether round times depend only on the changes.

A request chooses one of ``_WIDTH`` columns, each of which uses one to three of ``_ROWS`` resources.  Requests
of a kind share their coefficients, or each request has its own; every column has its own cost.  A round draws
new costs for some requests and makes no other edits.  A scarce program has many resources, and each column
uses one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from copter.bench.course import EditedCourse
from copter.program.program import ContinualProgram, SharedColumns

_WIDTH, _ROWS, _KINDS = 20, 16, 8
_AT_ONCE = 200_000
"""Largest number of requests that one edit adds."""
_SMALL = 60_000
"""Number of columns of the warm-up's program: more than 50,000, so that passes use threads."""


@dataclass(frozen=True)
class ChangesCourse(EditedCourse):
    """Rounds in which `changed` requests get new costs, in a program of `columns` columns.

    `own`: True if each request has its own coefficients. `scarce`: number of resources of a scarce program,
    for which `own` must be true; 0 for an ordinary program. `left_out`: number of rounds at the start that
    are excluded, because the first round is cold, and the next rounds find the requests that do not change.
    """

    columns: int
    changed: int
    rounds: int = 40
    seed: int = 0
    own: bool = False
    left_out: int = 8
    scarce: int = 0

    @property
    def requests(self) -> int:
        """Number of requests of the program."""
        return max(2, self.columns // _WIDTH)

    def small(self) -> ChangesCourse:
        """Return a few rounds of a small program of the same kind."""
        columns = min(self.columns, _SMALL)
        return replace(
            self, columns=columns, changed=min(self.changed, columns // _WIDTH // 20 + 1), rounds=12
        )

    def edits(self, program: ContinualProgram) -> Iterator[Iterable[Callable[[], object]]]:
        """Yield the edits that fill the program, and those that change costs in each further round."""
        rng = np.random.default_rng(self.seed)
        kinds = [_coefficients(rng) for _ in range(_KINDS)]
        typical = np.mean([kind.mean(axis=1) for kind in kinds], axis=0)
        upper = typical * self.requests * rng.uniform(0.5, 0.9, _ROWS)
        if self.scarce:
            upper = np.full(self.scarce, 1.2 * self.requests / self.scarce)
        program.add_resources(range(upper.size), upper=upper)
        shared = [program.share_columns(_by_row(kind), _WIDTH) for kind in ([] if self.own else kinds)]
        yield self._fill(program, rng, shared)
        for _ in range(self.rounds - 1):
            count = min(self.changed, self.requests)
            some = rng.choice(self.requests, count, replace=False, shuffle=False).tolist()
            yield [partial(program.update_requests, some, costs=_costs(rng, count))]

    def _fill(
        self, program: ContinualProgram, rng: np.random.Generator, shared: Sequence[SharedColumns]
    ) -> Iterator[Callable[[], object]]:
        for begin in range(0, self.requests, _AT_ONCE):
            ids = np.arange(begin, min(begin + _AT_ONCE, self.requests))
            kind = rng.integers(0, _KINDS, ids.size)
            for number in range(_KINDS):
                mine = ids[kind == number]
                costs, sizes = _costs(rng, mine.size).ravel(), np.full(mine.size, _WIDTH)
                usage: Any = self._own(rng, mine.size) if self.own else shared[number]
                yield partial(program.add_requests, mine.tolist(), costs, sizes, usage, totals=1.0)

    def _own(self, rng: np.random.Generator, requests: int) -> csc_array:
        """Return random coefficients for the columns of `requests` requests, in the order of the requests."""
        columns, rows = requests * _WIDTH, self.scarce
        if rows:
            once = rng.uniform(0.5, 2.0, columns), rng.integers(0, rows, columns), np.arange(columns + 1)
            return csc_array(once, shape=(rows, columns))
        count = rng.integers(1, 4, columns)
        row = np.argsort(rng.random((columns, _ROWS)), axis=1)[:, :3]
        taken = np.arange(3) < count[:, None]
        pointer = np.concatenate(([0], np.cumsum(count)))
        value = rng.uniform(0.5, 1.5, int(pointer[-1]))
        return csc_array((value, row[taken], pointer), shape=(_ROWS, columns))


def _costs(rng: np.random.Generator, requests: int) -> NDArray[np.float64]:
    return -rng.uniform(0.1, 1.0, (requests, _WIDTH))


def _coefficients(rng: np.random.Generator) -> NDArray[np.float64]:
    """Return random coefficients for the columns of a kind, (rows, columns)."""
    coefficients = np.zeros((_ROWS, _WIDTH))
    for column in range(_WIDTH):
        rows = rng.choice(_ROWS, rng.integers(1, 4), replace=False)
        coefficients[rows, column] = rng.uniform(0.5, 1.5, rows.size)
    return coefficients


def _by_row(coefficients: NDArray[np.float64]) -> dict[Hashable, NDArray[np.float64]]:
    return {row: each for row, each in enumerate(coefficients) if each.any()}
