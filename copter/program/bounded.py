"""Refusal of edits that leave a column of a program without a finite bound.

Every column of a program has a finite upper bound, or its request has a sum row, whose total is finite. So a
certificate has a finite bound at any finite prices, and no program is unbounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from copter.errors import EditError
from copter.store.edit import Edit, Runs
from copter.store.reading import upper_bounds

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_WHY = (
    "must be finite for column {!r}, because the request has no total; give upper= or total=, or use "
    "copter.from_arrays or copter.Model for a linear program with unbounded columns"
)


def check_bounded(program: ContinualProgram, edit: Edit) -> None:
    """Raise EditError, with the request and the column, if an edit of requests leaves a column unbounded."""
    new, store = edit.verb == "add_requests", program.store
    if _all_bounded(edit) or (edit.upper is None and edit.totals is None and edit.usage is None):
        return
    slots = np.arange(len(edit.ids)) if new else edit.slots
    before = np.inf if new else store.requests.total[slots]
    total = np.asarray(before if edit.totals is None else edit.totals)
    summed = np.broadcast_to(total < np.inf, slots.shape)
    if summed.all():
        return
    if isinstance(edit.upper, Runs):
        owner, upper = np.repeat(np.arange(slots.size), edit.upper.lengths), edit.upper.values
    elif edit.upper is not None:
        owner, upper = np.arange(slots.size), np.full(slots.size, np.inf)
    elif edit.usage is not None:  # bounds that differ between the columns do not remain
        owner, upper = np.arange(slots.size), store.requests.upper[slots]
    else:
        owner = np.repeat(np.arange(slots.size), store.requests.n_columns[slots])
        upper = upper_bounds(store, slots)
    unbounded = np.flatnonzero(np.isinf(upper) & ~summed[owner])
    if not unbounded.size:
        return
    k = int(owner[unbounded[0]])
    column, slot = int(unbounded[0] - np.searchsorted(owner, k)), int(slots[k])
    if edit.labels is not None:
        labels = edit.labels.each()[k]
    else:
        labels = None if edit.usage is not None else program.column_names.of(slot)
    id = edit.ids[k] if new else program.request_ids[program.request_slots.tolist().index(slot)]
    raise EditError(id, "upper", np.inf, _WHY.format(column if labels is None else labels[column]))


def _all_bounded(edit: Edit) -> bool:
    """Return whether an edit gives all columns of its requests a bound."""
    if isinstance(edit.upper, Runs):
        bounded = bool(np.isfinite(edit.upper.values).all())
    else:
        bounded = isinstance(edit.upper, float) and edit.upper < np.inf
    return bounded or (edit.totals is not None and bool((np.asarray(edit.totals) < np.inf).all()))
