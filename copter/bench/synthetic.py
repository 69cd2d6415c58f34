"""Synthetic rounds of any size and churn: requests with shared columns, and data determined by a seed.

A request chooses one of ``width`` columns. Each column uses 1 to 64 units of one of a few resources, as a
job's configurations use GPUs of one type.  Requests of a kind share columns, because the coefficients depend
only on the kind; every column of a request has its own cost.  In each round, a share of the requests leaves,
the same number arrives, and the same number of the remaining requests change their weight.  All solvers get
the same edits, because the edits do not depend on answers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.bench.course import EditedCourse
from copter.program.program import ContinualProgram, SharedColumns

_RESOURCES, _KINDS = 7, 16
_BUSY = 0.3
"""Approximate total capacity, as a share of the usage if each request took a column of mean usage."""
_AT_ONCE = 4_000_000
"""Largest number of columns that one edit adds."""
_SMALL = 60_000
"""Number of columns of the warm-up's program: more than 50,000, so that passes use threads."""


@dataclass(frozen=True)
class Synthetic(EditedCourse):
    """Rounds of a synthetic program of ``requests * width`` columns.

    `churn`: share of the requests that leave, that arrive, and that change, in each round.
    """

    requests: int
    width: int
    churn: float = 0.01
    rounds: int = 5
    seed: int = 0

    def small(self) -> Synthetic:
        """Return a few rounds of a small program of the same kind."""
        return replace(self, requests=max(2, _SMALL // self.width), rounds=3)

    def edits(self, program: ContinualProgram) -> Iterator[Iterable[Callable[[], object]]]:
        """Yield the edits of the first round, in which all requests arrive, and of each further round."""
        requests = _Requests(self, program)
        yield requests.arrive(self.requests)
        for _ in range(self.rounds - 1):
            yield requests.change()


class _Requests:
    """The requests that are present in a program, and edits that change them."""

    def __init__(self, course: Synthetic, program: ContinualProgram) -> None:
        self.rng = rng = np.random.default_rng(course.seed)
        self.program, self.course = program, course
        capacity = _BUSY * 32.0 * course.requests / _RESOURCES
        for row in range(_RESOURCES):
            self.program.add_resource(row, upper=capacity * rng.uniform(0.5, 1.5))
        self.kinds = [self._kind() for _ in range(_KINDS)]
        self.present = np.zeros(0, np.int64)
        self.next_id = 0

    def _kind(self) -> tuple[SharedColumns, NDArray[np.float64]]:
        """Return the shared columns and the gains of a kind; gains are roughly concave in the used units."""
        width, rng = self.course.width, self.rng
        row, units = rng.integers(0, _RESOURCES, width), rng.integers(1, 65, width).astype(float)
        usage: dict[Hashable, Any] = {
            k: (np.flatnonzero(row == k), units[row == k]) for k in range(_RESOURCES) if (row == k).any()
        }
        speed = rng.uniform(0.5, 2.0, _RESOURCES)[row]
        gains = speed * units ** rng.uniform(0.5, 0.9) * rng.uniform(0.95, 1.05, width)
        return self.program.share_columns(usage, width), gains

    def arrive(self, count: int) -> Iterator[Callable[[], object]]:
        """Yield edits that add requests, kind by kind; each edit adds a limited number of columns."""
        ids = np.arange(self.next_id, self.next_id + count)
        self.next_id += count
        self.present = np.concatenate((self.present, ids))
        kind, most = self.rng.integers(0, _KINDS, count), max(1, _AT_ONCE // self.course.width)
        for number in range(_KINDS):
            mine = ids[kind == number]
            for begin in range(0, mine.size, most):
                yield self._adding(number, mine[begin : begin + most])

    def _adding(self, kind: int, ids: NDArray[np.int64]) -> Callable[[], object]:
        template, gains = self.kinds[kind]
        width, weight = gains.size, self.rng.uniform(0.2, 2.0, ids.size)
        sizes, names = np.full(ids.size, width), ids.tolist()
        costs = self.rng.uniform(-1.1, -0.9, (ids.size, width))
        costs *= gains * weight[:, None]
        flat = costs.ravel()
        return lambda: self.program.add_requests(names, flat, sizes, template, totals=np.ones(ids.size))

    def change(self) -> Iterator[Callable[[], object]]:
        """Yield edits that remove, change and add requests."""
        count = min(max(1, round(self.course.churn * self.present.size)), self.present.size - 1)
        gone = self.rng.choice(self.present.size, count, replace=False)
        leaving = self.present[gone].tolist()
        self.present = np.delete(self.present, gone)
        changed = self.rng.choice(self.present, min(count, self.present.size), replace=False).tolist()
        weight = self.rng.uniform(0.5, 1.5, len(changed))
        yield lambda: self.program.remove_requests(leaving)
        yield lambda: self.program.update_requests(changed, scales=weight)
        yield from self.arrive(len(leaving))
