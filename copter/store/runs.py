"""Runs: some numbers of each of many requests, flat, and how they are brought into another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.store.executor import Part, cut
from copter.store.slabs import contiguous

if TYPE_CHECKING:
    from copter.store.store import ConstraintStore


class Runs(NamedTuple):
    """Numbers of requests, a run of them each.

    Attributes
    ----------
    lengths : (k,) ndarray
    values : (sum(lengths),) ndarray
    """

    lengths: NDArray[np.int64]
    values: NDArray[Any]

    def sorted(self, order: NDArray[np.int64]) -> Runs:
        """The runs in another order."""
        starts = self.lengths.cumsum() - self.lengths
        picked = np.empty(self.values.size, self.values.dtype)
        _pick(contiguous(self.values), starts, contiguous(self.lengths), order, picked)
        return Runs(self.lengths[order], picked)

    def between(self, begin: int, end: int) -> Runs:
        """The runs of some requests next to one another, in views.

        Parameters
        ----------
        begin, end : int
            Places of the first, and behind the last.
        """
        first, own = int(self.lengths[:begin].sum()), self.lengths[begin:end]
        return Runs(own, self.values[first : first + int(own.sum())])


def runs_of(store: ConstraintStore, slots: NDArray[np.int64], task: Reader) -> Sequence[Runs]:
    """What parts say of some requests, in the order in which these were asked for.

    Parameters
    ----------
    slots : (k,) ndarray
        Of different requests.
    task : callable
        Of a part and the slots that some of its requests have there; at the top of its module.
    """
    answers = store.executor.map(task, slots=slots)
    if len(answers) == 1:
        return answers[0]
    order = np.empty(slots.size, np.int64)
    order[np.concatenate(cut(slots, len(answers)))] = np.arange(slots.size)
    return [
        Runs(*(np.concatenate(each) for each in zip(*runs, strict=True))).sorted(order)
        for runs in zip(*answers, strict=True)
    ]


Reader: TypeAlias = Callable[[Part, NDArray[np.int64]], Sequence[Runs]]
"""Says runs of some requests of a part."""


@kernel
def _pick(values, starts, lengths, order, picked):  # type: ignore[no-untyped-def]
    """Runs in another order."""
    at = 0
    for k in range(order.size):
        start, length = starts[order[k]], lengths[order[k]]
        for j in range(length):
            picked[at + j] = values[start + j]
        at += length
