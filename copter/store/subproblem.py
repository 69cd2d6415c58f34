"""Subproblem of a store: a store of a few of its requests, which shares the arrays and rows of the store.

Code that takes a whole store can then work on a few of many requests. A subproblem is valid until the next
edit of the store.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.store.local import LocalStore
from copter.store.term_table import TermTable


def subproblem(store: LocalStore, slots: NDArray[np.int64]) -> LocalStore:
    """Return a store of the requests in some slots, which get the slots 0, 1, ... in that order.

    The requests must not have convex terms. The result must not be edited, and is valid until the next edit
    of ``store``.
    """
    usages, place = np.unique(store.requests.usage[slots], return_inverse=True)
    some = LocalStore.__new__(LocalStore)
    vars(some).update(vars(store))
    some.requests, some.usages = store.requests.taken(slots), store.usages.taken(usages)
    some.requests.usage[: slots.size] = place
    some.usages.references[: usages.size] = np.bincount(place, minlength=usages.size)
    some.n_variables = int(some.requests.n_columns[: slots.size].sum())
    some.terms, some.packed_terms, some.last_view, some.known = TermTable(), None, None, (-1, {})
    return some
