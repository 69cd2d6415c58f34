"""Numbers of requests that are read from all parts, a run of them each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.store.edit import Runs
from copter.store.executor import Part, cut

if TYPE_CHECKING:
    from copter.store.store import ConstraintStore


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
