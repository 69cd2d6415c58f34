"""Columns that no bound and no sum row holds: what their reduced costs mean for the bound, exactly.

Such a column adds nothing to the bound where p_j >= 0, in exact arithmetic, and makes it minus infinity where
p_j < 0, unless the rows imply a bound for it.  Prices that come out of floating point give the columns of a
vertex a p_j of rounding errors, of either sign: so the signs are found exactly, and prices are moved by as
little as gives all of them the right one (:mod:`copter.proof.rigorous`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Floats, Ints
from copter.proof.rigorous import (
    BITS,
    EPS,
    exact_reduced_costs,
    falling_ray,
    implied_bounds,
    inward_prices,
    outward_bound,
    reduced_costs,
    right_prices,
    round_prices,
)
from copter.store.allocation import SparseX
from copter.store.compiled import FlatProgram, flatten
from copter.store.store import NO_TOTAL, ConstraintStore

_KNOWN: WeakKeyDictionary[ConstraintStore, tuple[int, _LooseProgram]] = WeakKeyDictionary()


class _LooseProgram(NamedTuple):
    """A program in flat arrays, of all requests, without convex terms, and which of its columns are loose.

    `slots`, `rows`: slots of its requests, and of its first rows. `loose` (k,): its loose columns. `curved`
    (k,): which of them have a convex term, and so the costs of that.
    """

    flat: FlatProgram
    slots: Ints
    rows: Ints
    loose: Ints
    curved: NDArray[np.bool_]

    @classmethod
    def of(cls, store: ConstraintStore) -> _LooseProgram:
        """The program as it is now; kept until the next edit."""
        if store in _KNOWN and _KNOWN[store][0] == store.clock:
            return _KNOWN[store][1]
        table = store.requests
        slots = np.flatnonzero(table.n_columns[: table.size])
        rows = np.flatnonzero(store.rows.alive[: store.rows.size])
        flat = flatten(store, slots, rows)
        curved = np.zeros(table.size, np.bool_)
        curved[store.terms.slots()] = True
        totals = np.where(table.relation[slots] != NO_TOTAL, table.total[slots], np.inf)
        upper = np.minimum(flat.upper, np.repeat(totals, np.diff(flat.column_start)))
        flat = flat._replace(upper=upper)
        loose = np.flatnonzero(np.isinf(upper))
        curved = np.repeat(curved[slots], np.diff(flat.column_start))
        found = cls(flat, slots, rows, loose, curved[loose])
        _KNOWN[store] = (store.clock, found)
        return found

    def prices(self, y: Floats) -> Floats:
        """Prices of the flat program's rows for prices of row slots; sum rows have none."""
        return np.concatenate((y[self.rows], np.zeros(self.flat.row_lower.size - self.rows.size)))

    def only(self, cost_factor: float, *, curved: bool = False) -> tuple[FlatProgram, Ints]:
        """Return the loose columns alone, with costs times a factor, and their numbers.

        Those with convex terms are included if asked for, and with a factor of 0, for a ray.
        """
        flat, loose = self.flat, self.loose[curved | ~self.curved] if cost_factor else self.loose
        return flat._replace(
            c=cost_factor * flat.c[loose],
            lower=flat.lower[loose],
            upper=flat.upper[loose],
            A=flat.A[:, loose],
        ), loose


def proved_bound(store: ConstraintStore, y: Floats, marginal: Floats) -> tuple[float, Floats]:
    """Return the best bound at prices next to y (row slots,), and the prices, where loose columns spoil it at
    y.

    The store has no convex terms; `marginal` (request slots,) are the marginal prices of a pass at y.
    """
    program = _LooseProgram.of(store)
    price = program.prices(y)
    summed = program.flat.sum_row >= 0
    price[program.flat.sum_row[summed]] = -marginal[program.slots[summed]]
    found = outward_bound(program.flat, price)
    there = np.zeros_like(y)
    there[program.rows] = found.y[: program.rows.size]
    return found.value, there


def loose_part(store: ConstraintStore, y: Floats, cost_factor: float = 1.0) -> float:
    """Return a lower bound on what loose columns add to the bound at prices y (row slots,): at most 0, maybe
    -inf.

    Costs count `cost_factor` times, 0 for a ray. Bounds that rows imply do not count for a ray, which must be
    one by itself.
    """
    program = _LooseProgram.of(store)
    (only, loose), price = program.only(cost_factor), program.prices(y)
    z, error, _ = reduced_costs(only, price)
    doubtful = np.flatnonzero(z <= error)
    z[doubtful] = exact_reduced_costs(only, price, doubtful)
    wrong = np.flatnonzero(z < 0)
    if not wrong.size:
        return 0.0
    if not cost_factor:
        return -math.inf
    caps = implied_bounds(program.flat)[1][loose[wrong]]
    if np.isinf(caps).any():
        return -math.inf
    return math.fsum((z[wrong] * caps).tolist()) * (1.0 + 4 * EPS)


def signed_prices(store: ConstraintStore, y: Floats, cost_factor: float = 1.0) -> list[Floats]:
    """Return prices near y (row slots,) that give every loose column a reduced cost of the right sign,
    nearest first.

    Costs count `cost_factor` times, 0 for a ray.
    """
    program = _LooseProgram.of(store)
    only, _ = program.only(cost_factor, curved=True)  # no slope of a term makes up for a price below 0
    found = []
    rounded = [partial(round_prices, bits=bits) for bits in BITS]
    ways: list[Callable[[FlatProgram, Floats], Floats | None]]
    ways = [*rounded, right_prices, inward_prices]
    for way in ways:
        moved = way(only, program.prices(y))
        if moved is not None:
            there = np.zeros_like(y)
            there[program.rows] = moved[: program.rows.size]
            found.append(there)
    return found


def unbounded_direction(store: ConstraintStore, direction: SparseX, costs: Floats) -> SparseX | None:
    """Return the direction next to a given one along which the objective falls for ever, in exact arithmetic.

    `costs`: unit cost of each of its nonzeros.
    """
    program = _LooseProgram.of(store)
    start = np.zeros(store.requests.size, np.int64)
    start[program.slots] = program.flat.column_start[:-1]
    at = start[direction.slot] + direction.column
    d, c = np.zeros(program.flat.c.size), program.flat.c.copy()
    d[at], c[at] = direction.value, costs
    found = falling_ray(program.flat._replace(c=c), d)
    return None if found is None else SparseX(direction.slot, direction.column, found[at])
