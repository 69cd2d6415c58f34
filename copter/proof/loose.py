"""Free columns (no upper bound, no sum row): exact effect of their reduced costs on the bound.

In exact arithmetic, a free column adds 0 to the bound if p_j >= 0. If p_j < 0, the bound is minus infinity
unless the rows imply a bound of the column. With floating-point prices, p_j of a basic column is a rounding
error of either sign. So the signs are computed exactly, and prices are changed by the least amount that gives
all p_j the right sign (:mod:`copter.proof.rigorous`).
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
    """Program as flat arrays, without convex terms, and its free columns.

    `slots` has the slots of its requests, and `rows` the slots of its resource rows, which come first.
    `loose` (k,) has its free columns. `curved` (k,) is True if the request of a free column has a convex
    term.
    """

    flat: FlatProgram
    slots: Ints
    rows: Ints
    loose: Ints
    curved: NDArray[np.bool_]

    @classmethod
    def of(cls, store: ConstraintStore) -> _LooseProgram:
        """Return the present program of a store; it is cached until the next edit."""
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
        """Return prices of the flat program's rows from prices of row slots; sum rows have the price 0."""
        return np.concatenate((y[self.rows], np.zeros(self.flat.row_lower.size - self.rows.size)))

    def only(self, cost_factor: float, *, curved: bool = False) -> tuple[FlatProgram, Ints]:
        """Return the program of the free columns only, with costs times a factor, and their numbers.

        Columns of requests with convex terms are included if `curved`, or if the factor is 0 (for a ray).
        """
        flat, loose = self.flat, self.loose[curved | ~self.curved] if cost_factor else self.loose
        return flat._replace(
            c=cost_factor * flat.c[loose],
            lower=flat.lower[loose],
            upper=flat.upper[loose],
            A=flat.A[:, loose],
        ), loose


def proved_bound(store: ConstraintStore, y: Floats, marginal: Floats) -> tuple[float, Floats]:
    """Return the best bound at prices near y (row slots,), and these prices.

    It is for bounds that are minus infinity at y because of free columns. The store must have no convex
    terms. `marginal` (request slots,) has the marginal prices of a pass at y.
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
    """Return a lower bound, <= 0 and possibly -inf, on the contribution of free columns to the bound.

    The bound is at prices y (row slots,). Costs are multiplied by `cost_factor`, which is 0 for a ray. For a
    ray, bounds that rows imply are not used, because the ray must be a proof by itself.
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
    """Return prices near y (row slots,) with reduced costs >= 0 of all free columns, from several methods.

    Costs are multiplied by `cost_factor`, which is 0 for a ray.
    """
    program = _LooseProgram.of(store)
    only, _ = program.only(cost_factor, curved=True)  # a convex term does not change the condition p_j >= 0
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
    """Return a direction near a given one along which the objective falls without limit, in exact arithmetic.

    `costs` has the unit cost of each nonzero. Return None if no such direction is found.
    """
    program = _LooseProgram.of(store)
    start = np.zeros(store.requests.size, np.int64)
    start[program.slots] = program.flat.column_start[:-1]
    at = start[direction.slot] + direction.column
    d, c = np.zeros(program.flat.c.size), program.flat.c.copy()
    d[at], c[at] = direction.value, costs
    found = falling_ray(program.flat._replace(c=c), d)
    return None if found is None else SparseX(direction.slot, direction.column, found[at])
