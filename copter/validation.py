"""Validation of what users hand to the program: clean values, or an EditError that names what is wrong."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.store import AT_MOST, EXACTLY, NO_TOTAL

LARGEST_COST, LARGEST_SCALE = 1e150, 1e100
RELATIONS: dict[str, int] = {"<=": AT_MOST, "==": EXACTLY}


def number(subject: Hashable, field: str, value: Any) -> float:
    """``value`` as a float that is not NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise EditError(subject, field, value, "must be a number") from None
    if math.isnan(number):
        raise EditError(subject, field, value, "must not be NaN")
    return number


def row_bounds(id: Hashable, lower: float, upper: float) -> tuple[float, float]:
    """Bounds of a row, lower <= upper."""
    lower, upper = number(id, "lower", lower), number(id, "upper", upper)
    if lower > upper:
        raise EditError(id, "lower", lower, f"is above the upper bound {upper}")
    if lower == math.inf:
        raise EditError(id, "lower", lower, "must be below infinity")
    if upper == -math.inf:
        raise EditError(id, "upper", upper, "must be above minus infinity")
    return lower, upper


def _numbers(subject: Hashable, field: str, values: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise EditError(subject, field, values, "must be numbers") from None


def _columns(subject: Hashable, field: str, values: Any, n: int) -> NDArray[np.int64]:
    """Column indices: whole numbers from 0 to n - 1."""
    given = _numbers(subject, field, values)
    wrong = ~((given >= 0) & (given < n) & (given == np.floor(given)))
    if given.ndim != 1 or wrong.any():
        value = given.shape if given.ndim != 1 else float(given[wrong][0])
        raise EditError(subject, field, value, f"no such column (there are {n})")
    return given.astype(np.int64)


def vector(
    subject: Hashable,
    field: str,
    values: ArrayLike,
    length: int | None = None,
    owner: tuple[Sequence[Hashable], NDArray[np.int64]] | None = None,
) -> NDArray[np.float64]:
    """``values`` as a finite float vector; ``owner`` (ids, starts) says whose entry is a wrong one."""
    vector = _numbers(subject, field, values)
    if vector.ndim != 1 or (length is not None and vector.size != length):
        wanted = "n" if length is None else length
        raise EditError(subject, field, vector.shape, f"needs the shape ({wanted},)")
    if length is None and vector.size == 0:
        raise EditError(subject, field, vector.shape, "needs at least one column")
    finite = np.isfinite(vector)
    if not finite.all():
        where = int(finite.argmin())
        if owner is not None:
            subject = owner_of(owner, where)
        raise EditError(subject, field, float(vector[where]), f"entry {where} must be finite")
    return vector


def whole_numbers(subject: Hashable, field: str, values: ArrayLike, length: int) -> NDArray[np.int64]:
    """``values`` as integers."""
    given = vector(subject, field, values, length)
    wrong = given != np.floor(given)
    if wrong.any():
        raise EditError(subject, field, float(given[wrong][0]), "must be a whole number")
    return given.astype(np.int64)


def flag(subject: Hashable, field: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise EditError(subject, field, value, "must be True or False")
    return bool(value)


def cost_vector(
    subject: Hashable,
    field: str,
    values: ArrayLike,
    length: int | None = None,
    owner: tuple[Sequence[Hashable], NDArray[np.int64]] | None = None,
) -> NDArray[np.float64]:
    """Costs: finite, and so small that no scale makes them infinite."""
    costs = vector(subject, field, values, length, owner)
    if abs(costs).max(initial=0.0) > LARGEST_COST:
        where = int(abs(costs).argmax())
        subject = subject if owner is None else owner_of(owner, where)
        raise EditError(subject, field, float(costs[where]), f"must be at most {LARGEST_COST:g} in size")
    return costs


def owner_of(owner: tuple[Sequence[Hashable], NDArray[np.int64]], entry: int) -> Hashable:
    """Id of the request that a flat entry belongs to; ``owner`` is (ids, starts)."""
    return owner[0][int(np.searchsorted(owner[1], entry, side="right")) - 1]


def sum_row(subject: Hashable, total: float | None, relation: str) -> tuple[int, float]:
    """(relation, total) of a sum row, as the store keeps it."""
    if relation not in RELATIONS:
        raise EditError(subject, "relation", relation, "must be '<=' or '=='")
    if total is None:
        if relation == "==":
            raise EditError(subject, "relation", relation, "needs a total")
        return NO_TOTAL, math.inf
    amount = number(subject, "total", total)
    if not 0 <= amount < math.inf:
        raise EditError(subject, "total", total, "must be finite and not negative")
    return RELATIONS[relation], amount


def scale_factor(subject: Hashable, scale: float) -> float:
    """A finite, positive scale."""
    factor = number(subject, "scale", scale)
    if not 0 < factor < math.inf:
        raise EditError(subject, "scale", scale, "must be finite and positive")
    if not 1.0 / LARGEST_SCALE <= factor <= LARGEST_SCALE:
        raise EditError(subject, "scale", scale, f"must be between 1/{LARGEST_SCALE:g} and {LARGEST_SCALE:g}")
    return factor


def upper_bounds(
    subject: Hashable,
    upper: float | ArrayLike,
    n: int,
    owner: tuple[Sequence[Hashable], NDArray[np.int64]] | None = None,
) -> float | NDArray[np.float64]:
    """Upper bounds of n columns: a number for all, or one each."""
    bound = _numbers(subject, "upper", upper)
    if bound.ndim and bound.shape != (n,):
        raise EditError(subject, "upper", bound.shape, f"needs a number or the shape ({n},)")
    wrong = ~(bound >= 0)
    if wrong.any():
        value = float(bound[wrong][0]) if bound.ndim else float(bound)
        if bound.ndim and owner is not None:
            subject = owner_of(owner, int(wrong.argmax()))
        raise EditError(subject, "upper", value, "must not be negative or NaN")
    return bound.copy() if bound.ndim else float(bound)


def sparse_entries(
    subject: Hashable, field: str, entries: Mapping[int, float], n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(columns, values) of a mapping from column to finite number."""
    columns = _columns(subject, field, list(entries), n)
    return columns, cost_vector(subject, field, list(entries.values()), len(entries))


def coefficients_of(
    subject: Hashable, resource: Hashable, coefficients: Any, n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Nonzero coefficients of one resource: columns, ascending, and values."""
    field = f"usage[{resource!r}]"
    if isinstance(coefficients, tuple):
        if len(coefficients) != 2:
            raise EditError(subject, field, len(coefficients), "a pair (columns, values) is wanted")
        columns = _columns(subject, field, coefficients[0], n)
        values = vector(subject, field, coefficients[1], columns.size)
        if np.unique(columns).size < columns.size:
            raise EditError(subject, field, "columns", "a column is given twice")
        keep = values != 0
        return columns[keep], values[keep]
    dense = _numbers(subject, field, coefficients)
    values = np.full(n, float(dense)) if dense.ndim == 0 else dense
    values = vector(subject, field, values, n)
    columns = np.flatnonzero(values)
    return columns, values[columns]


def first_duplicate(ids: Iterable[Hashable]) -> Hashable:
    """First id that comes twice."""
    seen: set[Hashable] = set()
    for id in ids:
        if id in seen:
            return id
        seen.add(id)
    raise ValueError("no duplicate")
