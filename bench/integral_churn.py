"""Integral churn: the share of requests whose integral allocation changes from one round to the next.

A request that is in both rounds changed if what it uses of the resources did.  Another column may use the
same (a pinned job's only column is the one that it had among many), and the same place may use something else
(a request's columns were replaced).  So what is compared is the usage of the chosen column, entry by entry.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from copter.store.view import take_entries

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.shims.choose_one import Choice


class IntegralChurn:
    """Follows the integral allocations of a program's rounds."""

    def __init__(self) -> None:
        self._last: dict[Hashable, bytes] = {}

    def measure(self, program: ContinualProgram, choice: Choice) -> float:
        """Compare a round's allocation with the one before.

        Parameters
        ----------
        program : ContinualProgram
            As it was rounded.
        choice : Choice
            Column of each request, None for none.

        Returns
        -------
        float
            Share of the requests in both; NaN if there are none.
        """
        now = _usages(program, choice)
        both = [(used, now[id]) for id, used in self._last.items() if id in now]
        self._last = now
        return sum(old != new for old, new in both) / len(both) if both else math.nan


def _usages(program: ContinualProgram, choice: Choice) -> dict[Hashable, bytes]:
    """Entries of each request's column, rows and coefficients, as they lie in memory; nothing for none."""
    store, slots = program.store, program.request_slots
    column = choice.of(slots)
    some = np.flatnonzero(column >= 0)
    some = some[np.argsort(slots[some])]
    slot = slots[some]
    view, place = store.excerpt(slot, column[some])
    pointer, row, value = take_entries(view, slot, place, np.ones(store.rows.size, np.bool_))
    counts = np.zeros(slots.size, np.int64)
    counts[some] = np.diff(pointer)
    used = np.column_stack((row, value))
    begin = np.zeros(slots.size, np.int64)
    begin[some] = pointer[:-1]
    whole, width = used.tobytes(), used.itemsize * 2
    cuts = zip((width * begin).tolist(), (width * (begin + counts)).tolist(), strict=True)
    return {id: whole[first:last] for id, (first, last) in zip(program.request_ids, cuts, strict=True)}
