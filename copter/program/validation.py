"""Validation of the arguments of edit methods.

The functions return checked values, or raise an EditError with the request, the field and the value.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.arrays import INFINITE, as_bounds
from copter.errors import EditError, TermError
from copter.store.kernels import all_within, sound_entries
from copter.store.slabs import contiguous
from copter.store.term_table import TermTable
from copter.terms.compiled import addresses
from copter.terms.convex import ConvexTerm

LARGEST_COST, _LARGEST_SCALE = 1e150, 1e100
_LARGEST = sys.float_info.max
FINITE_COST = f"must be finite, and at most {LARGEST_COST:g} in absolute value"
_AMOUNT = (0.0, LARGEST_COST), f"must be from 0 to {LARGEST_COST:g}"
_SCALE = (1.0 / _LARGEST_SCALE, _LARGEST_SCALE), f"must be from 1/{_LARGEST_SCALE:g} to {_LARGEST_SCALE:g}"
"""Limits of totals and of scales, and the reason for an error."""

_Owner: TypeAlias = tuple[Sequence[Hashable], NDArray[np.int64] | None]
"""Ids, and the number of entries of a flat array that each has; None means one entry each."""

_FEW = 64
_PLAIN, _PLAIN_MOST = 2.0**10, 2.0**42
"""Sums of multiples of 1/1024 that are smaller than 2**42 are exact."""
_LOST = 1e-12
"""Tolerance, relative to a change, within which a bound counts as reached."""
MOST_COLUMNS = 2**31 - 1
"""Largest number that the store's pointers can hold."""
_FLAGS = (bool, np.bool_)
_NO_NUMBERS = (*_FLAGS, str, bytes, type(None), np.datetime64, np.timedelta64, np.ma.core.MaskedConstant)
"""Types that are rejected although Python or numpy can convert them to numbers."""
_WHOLE, _REAL = np.dtype(np.int64), np.dtype(np.float64)


def number(subject: Hashable, field: str, value: Any) -> float:
    """Return ``value`` as a float that is not NaN."""
    if isinstance(value, _NO_NUMBERS) or (isinstance(value, np.ndarray) and value.ndim):
        raise EditError(subject, field, value, "must be a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise EditError(subject, field, value, "must be a number") from None
    if math.isnan(number):
        raise EditError(subject, field, value, "must not be NaN")
    return number


def whole_number(subject: Hashable, field: str, value: Any) -> int:
    """Return ``value`` as an integer from 1 to 2^31 - 1, the range of the store's pointers."""
    given = number(subject, field, value)
    if not (1 <= given <= MOST_COLUMNS and given == math.floor(given)):
        raise EditError(subject, field, value, f"must be a whole number from 1 to {MOST_COLUMNS}")
    return int(given)


def _row_bounds(id: Hashable, lower: float, upper: float) -> tuple[float, float]:
    """Return the checked bounds of a row, lower <= upper; absolute values from 1e20 on are infinite."""
    lower, upper = (_bound(number(id, *each)) for each in (("lower", lower), ("upper", upper)))
    if lower > upper:
        raise EditError(id, "lower", lower, f"must not be above the upper bound {upper}")
    if lower == math.inf:
        raise EditError(id, "lower", lower, "must be below infinity")
    if upper == -math.inf:
        raise EditError(id, "upper", upper, "must be above minus infinity")
    return lower, upper


def _bound(value: float) -> float:
    return value if -INFINITE < value < INFINITE else math.copysign(math.inf, value)


def _numbers(subject: Hashable, field: str, values: Any) -> NDArray[np.float64]:
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        where = int(np.ma.getmaskarray(values).ravel().argmax())
        raise EditError(subject, field, np.ma.masked, f"entry {where} must be a number, and is masked")
    try:
        # In a list with numbers, numpy converts truth values to numbers and masked entries to NaN.
        kinds = set(map(type, values)) if isinstance(values, (list, tuple)) else ()
        if any(issubclass(kind, _NO_NUMBERS) for kind in kinds):
            raise TypeError
        given = np.asarray(values)
        if given.dtype.kind in "mMV":
            raise TypeError
        doubtful = given.dtype.kind in "OSUbc"
        if doubtful and any(isinstance(each, (*_NO_NUMBERS, complex)) for each in given.flat):
            raise TypeError
        return np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EditError(subject, field, values, "must be numbers") from None


def _plain(values: Any, dtype: np.dtype[Any]) -> TypeGuard[NDArray[Any]]:
    """Return whether a kernel can check values without a conversion: a contiguous vector of this dtype."""
    return type(values) is np.ndarray and values.dtype is dtype and values.ndim == 1 and values.flags.carray


def _columns(subject: Hashable, field: str, values: Any, n: int) -> NDArray[np.int64]:
    """Return checked column numbers: whole numbers from 0 to n - 1."""
    given = _numbers(subject, field, values)
    wrong = ~((given >= 0) & (given < n) & (given == np.floor(given)))
    if given.ndim != 1 or wrong.any():
        value = given.shape if given.ndim != 1 else _as_written(float(given[wrong][0]))
        raise EditError(subject, field, value, f"the request has no such column; it has {n} columns")
    return given.astype(np.int64)


def _as_written(value: float) -> int | float:
    """Return a whole number as an int, as the caller most likely wrote it."""
    return int(value) if value.is_integer() else value


def is_vector(value: Any) -> bool:
    """Return whether a value is a sequence or array, and not one number, text or other object."""
    if type(value) is np.ndarray:
        return value.ndim > 0
    if isinstance(value, (float, int)):
        return False
    if isinstance(value, Sequence):
        return not isinstance(value, (str, bytes))
    return hasattr(value, "__array__") and np.ndim(value) > 0


def within(values: NDArray[Any], low: float, high: float) -> bool:
    """Return whether ``low <= value <= high`` holds for all values; False with a NaN."""
    return all_within(values, float(low), float(high))


def all_are(counts: NDArray[np.int64], count: int) -> bool:
    """Return whether all of `counts` are equal to `count`."""
    if counts.size <= _FEW:
        return counts.tolist().count(count) == counts.size
    return within(counts, count, count)


def _shaped(subject: Hashable, field: str, values: Any, length: int | None) -> NDArray[np.float64]:
    """Return ``values`` as a float vector of ``length`` entries, or of at least one entry."""
    vector = _numbers(subject, field, values)
    if vector.ndim != 1 or (length is not None and vector.size != length):
        wanted = "n" if length is None else length
        raise EditError(subject, field, vector.shape, f"must have the shape ({wanted},)")
    if length is None and vector.size == 0:
        raise EditError(subject, field, vector.shape, "must have at least one column")
    return vector


def _ranged(
    subject: Hashable,
    field: str,
    values: ArrayLike,
    length: int | None,
    owner: _Owner | None,
    limits: tuple[float, float],
    why: str,
) -> NDArray[np.float64]:
    """Return ``values`` as a vector within limits; ``owner`` finds the request of an invalid entry."""
    vector = _shaped(subject, field, values, length)
    if not within(vector, *limits):
        where = int((~((vector >= limits[0]) & (vector <= limits[1]))).argmax())
        entry = f"entry {where} " if owner is None else ""
        raise EditError(owner_of(subject, owner, where), field, float(vector[where]), entry + why)
    return vector


def vector(
    subject: Hashable, field: str, values: ArrayLike, length: int | None = None, owner: _Owner | None = None
) -> NDArray[np.float64]:
    """Return ``values`` as a finite float vector; ``owner`` finds the request of an invalid entry."""
    return _ranged(subject, field, values, length, owner, (-_LARGEST, _LARGEST), "must be finite")


def whole_numbers(subject: Hashable, field: str, values: ArrayLike, length: int) -> NDArray[np.int64]:
    """Return ``values`` as ``length`` integers."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.shape == (length,):
        return contiguous(np.asarray(values, np.int64))
    given = vector(subject, field, values, length)
    wrong = (given != np.floor(given)) | (abs(given) > MOST_COLUMNS)
    if wrong.any():
        why = f"must be a whole number, at most {MOST_COLUMNS}"
        raise EditError(subject, field, float(given[wrong][0]), why)
    return given.astype(np.int64)


def flag(subject: Hashable, field: str, value: Any) -> bool:
    """Return a truth value as a bool."""
    if value is False or value is True:
        return value
    if not isinstance(value, _FLAGS):
        raise EditError(subject, field, value, "must be True or False")
    return bool(value)


def cost_vector(
    subject: Hashable, field: str, values: ArrayLike, length: int | None = None, owner: _Owner | None = None
) -> NDArray[np.float64]:
    """Return checked costs or coefficients: finite, and so small that no scale makes them infinite."""
    return _ranged(subject, field, values, length, owner, (-LARGEST_COST, LARGEST_COST), FINITE_COST)


def owner_of(subject: Hashable, owner: _Owner | None, entry: int) -> Hashable:
    """Return the id of the request that a flat entry belongs to; the subject without an owner."""
    if owner is None:
        return subject
    ids, counts = owner
    return ids[entry if counts is None else int(np.searchsorted(np.cumsum(counts), entry, side="right"))]


def is_exact(subject: Hashable, relation: Any, has_total: bool) -> bool:
    """Return whether a sum row is an equation; False without a total."""
    if not (isinstance(relation, str) and relation in ("<=", "==")):
        raise EditError(subject, "relation", relation, "must be '<=' or '=='")
    if relation == "==" and not has_total:
        raise EditError(subject, "relation", relation, "needs a total")
    return relation == "=="


def upper_bounds(
    subject: Hashable, upper: float | ArrayLike, n: int, owner: _Owner | None = None
) -> float | NDArray[np.float64]:
    """Return the checked upper bounds of n columns: one number for all, or one each."""
    if isinstance(upper, float) and upper >= 0:
        return _bound(upper)
    bound = _numbers(subject, "upper", upper)
    if bound.ndim and bound.shape != (n,):
        raise EditError(subject, "upper", bound.shape, f"must be a number or have the shape ({n},)")
    wrong = ~(bound >= 0)
    if wrong.any():
        value = float(bound[wrong][0]) if bound.ndim else float(bound)
        who = owner_of(subject, owner, int(wrong.argmax())) if bound.ndim else subject
        raise EditError(who, "upper", value, "must not be negative or NaN")
    return as_bounds(bound).copy() if bound.ndim else _bound(float(bound))


def term_of(subject: Hashable, term: Any, n: int) -> tuple[ConvexTerm, NDArray[np.float64]]:
    """Return a checked convex term and its image, one coefficient for each of n columns."""
    if not isinstance(term, ConvexTerm):
        raise EditError(subject, "term", term, "must be a copter.ConvexTerm, for example a LogTerm")
    try:
        addresses(type(term), tuple(term.parameters))
    except TermError as error:
        raise EditError(subject, "term", term, str(error)) from error
    for name, value in term.parameters.items():
        if not math.isfinite(number(subject, f"term.{name}", value)):
            raise EditError(subject, f"term.{name}", value, "must be finite")
    dense = _numbers(subject, "term.image", term.image)
    whole = np.full(n, float(dense)) if dense.ndim == 0 else dense
    image = _ranged(subject, "term.image", whole, n, None, *_AMOUNT).copy()
    _check_terms([subject], type(term), image.max(keepdims=True), term.parameters)
    return term, image


def parameters_of(
    label: Hashable,
    ids: Sequence[Hashable],
    given: Mapping[str, ArrayLike],
    table: TermTable,
    slots: NDArray[np.int64],
) -> dict[str, Any]:
    """Return new parameters for terms of one kind, as the fields ``names`` and ``parameters`` of an edit."""
    if not ids:
        return {}
    kind = table.kind_of(slots)
    first = int(kind[0])
    wrong = kind < 0 if (kind < 0).any() else kind != first
    if wrong.any():
        where = int(wrong.argmax())
        why = "the request has no convex term" if kind[where] < 0 else "its convex term is of another class"
        raise EditError(ids[where], "terms", ", ".join(map(str, given)), why)
    cls, names = table.kinds[first]
    for name in given:
        if name not in names:
            raise EditError(label, "terms", name, f"must be a parameter of the terms: {', '.join(names)}")
    values = {
        name: vector(label, f"term.{name}", value, len(ids), owner=(ids, None))
        for name, value in given.items()
    }
    now = dict(zip(names, table.parameters(slots, first), strict=True))
    sizes, images = table.images(slots)
    largest = np.maximum.reduceat(images, np.cumsum(sizes) - sizes)
    _check_terms(ids, cls, largest, now | values)
    columns = [np.empty((len(ids), 0)), *values.values()]
    return {"names": tuple(values), "parameters": np.column_stack(columns)}


def _check_terms(
    ids: Sequence[Hashable],
    cls: type[ConvexTerm],
    largest: NDArray[np.float64],
    parameters: Mapping[str, float | NDArray[np.float64]],
) -> None:
    columns = [np.asarray(value, np.float64).reshape(largest.shape) for value in parameters.values()]
    wrong = cls.check(largest, *columns)
    if wrong is not None:
        field, where, why = wrong
        shown = largest if field == "image" else columns[list(parameters).index(field)]
        raise EditError(ids[where], f"term.{field}", float(shown[where]), why)


def totals_of(label: Hashable, ids: Sequence[Hashable], totals: ArrayLike) -> NDArray[np.float64]:
    """Return checked totals: finite, not negative, and so small that no cost makes them infinite."""
    return _ranged(
        label, "total", _shaped(label, "totals", totals, len(ids)), len(ids), (ids, None), *_AMOUNT
    )


def total_of(subject: Hashable, total: Any) -> float:
    """Return a checked total: finite, not negative, and so small that no cost makes it infinite."""
    return _number_within(subject, "total", total, *_AMOUNT)


def scales_of(
    label: Hashable, ids: Sequence[Hashable], scales: Any, widths: NDArray[np.int64]
) -> float | NDArray[np.float64]:
    """Return the checked scales of many requests, given as one for all or one each."""
    if not is_vector(scales):
        return _number_within(label, "scale", scales, *_SCALE)
    return _ranged(label, "scale", _shaped(label, "scales", scales, len(ids)), len(ids), (ids, None), *_SCALE)


def _number_within(subject: Hashable, field: str, value: Any, limits: tuple[float, float], why: str) -> float:
    given = number(subject, field, value)
    if not limits[0] <= given <= limits[1]:
        raise EditError(subject, field, value, why)
    return given


def row_bounds_of(
    label: Hashable,
    ids: Sequence[Hashable],
    bounds: tuple[ArrayLike | None, ArrayLike | None],
    old: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return checked lower and upper bounds of many rows; None keeps the old bounds."""
    lower, upper = (
        before if given is None else as_bounds(_shaped(label, field, given, len(ids)))
        for field, given, before in zip(("lower", "upper"), bounds, old, strict=True)
    )
    wrong = ~(lower <= upper) | (lower == math.inf) | (upper == -math.inf)
    if wrong.any():
        where = int(wrong.argmax())
        _row_bounds(ids[where], float(lower[where]), float(upper[where]))
    return lower, upper


def moved_bounds(
    label: Hashable,
    ids: Sequence[Hashable],
    by: ArrayLike,
    old: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return the upper bounds of many rows plus a change of each.

    Raise EditError if a bound would fall below 0 or below the lower bound. For the sum, each number is
    replaced by the simplest fraction that rounds to it: 0.3 is treated as three tenths. So adding a change
    and then subtracting it restores the bound exactly. A sum that misses 0 or the lower bound by a rounding
    error is set to that value.
    """
    change = np.asarray(_shaped(label, "by", by, len(ids)), np.float64)
    lower, upper = old[0], _moved(old[1], change)
    lost = _LOST * np.where(np.isfinite(change), abs(change), 0.0)
    lost = np.maximum(lost, np.where(np.isfinite(old[1]), 4.0 * np.spacing(abs(old[1])), 0.0))
    with np.errstate(invalid="ignore"):  # infinite bounds have no difference
        for edge in (np.where(old[1] >= 0.0, 0.0, -math.inf), lower):
            upper = np.where(abs(upper - edge) <= lost, edge, upper)
    wrong = ~np.isfinite(change) | (upper < lower) | ((upper < 0.0) & (old[1] >= 0.0))
    if wrong.any():
        where = int(wrong.argmax())
        if not np.isfinite(change[where]):
            raise EditError(ids[where], "by", float(change[where]), "must be finite")
        why = f"would leave an upper bound of {upper[where]:g} (lower bound {lower[where]:g})"
        raise EditError(ids[where], "by", float(change[where]), why)
    return upper


def _moved(old: NDArray[np.float64], change: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return old + change, each read as the fraction with the smallest denominator that rounds to it."""
    total = old + change
    fine = np.isfinite(total) & (abs(old) + abs(change) < _PLAIN_MOST)
    plain = (old * _PLAIN == np.rint(old * _PLAIN)) & (change * _PLAIN == np.rint(change * _PLAIN))
    for at in np.flatnonzero(fine & ~plain).tolist():
        total[at] = float(_simplest(float(old[at])) + _simplest(float(change[at])))
    return total


def _simplest(value: float) -> Fraction:
    """Return the fraction with the least denominator that rounds to a finite number."""
    if value < 0.0:
        return -_simplest(-value)
    whole = Fraction(value)
    room = Fraction(math.ulp(value)) * Fraction(499, 1000)
    low, high = whole - room, whole + room
    # Convergents of the common continued fraction of both ends (Stern-Brocot tree).
    before, now = (0, 1), (1, 0)
    while True:
        part = math.ceil(low) if math.ceil(low) <= high else math.floor(low)
        before, now = now, (before[0] + part * now[0], before[1] + part * now[1])
        if low <= part <= high:
            return Fraction(*now)
        low, high = 1 / (high - part), 1 / (low - part)


def places_of(
    label: Hashable, ids: Sequence[Hashable], columns: Any, widths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return one column for each of many requests; -1 if no column is given."""
    given = [columns] if columns is None or isinstance(columns, int | np.integer) else list(columns)
    if len(given) != len(ids):
        raise EditError(label, "columns", len(given), f"must have one for each of {len(ids)} requests")
    places: list[Any] = [-1 if at is None else at for at in given]
    checked = whole_numbers(label, "columns", places, len(ids))
    wrong = checked >= widths
    if wrong.any():
        where = int(wrong.argmax())
        raise EditError(
            ids[where],
            "columns",
            int(checked[where]),
            f"must be below {widths[where]}, its number of columns",
        )
    return np.maximum(checked, -1)


def prices_of(label: Hashable, ids: Sequence[Hashable], prices: ArrayLike) -> NDArray[np.float64]:
    """Return checked prices, one for each request: finite and not negative."""
    why = "must be finite and not negative"
    return _ranged(label, "prices", prices, len(ids), (ids, None), (0.0, _LARGEST), why)


def sparse_entries(
    subject: Hashable, field: str, entries: Mapping[int, float], n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (columns, values) of a mapping from column to finite number, ascending by column."""
    if not isinstance(entries, Mapping):
        why = "must be a mapping of column to number, for example {0: -1.5}"
        raise EditError(subject, field, entries, why)
    if len(entries) <= _FEW and all([_sound_entry(j, value, n) for j, value in entries.items()]):
        each = sorted(entries.items())
        return np.array([j for j, _ in each], np.int64), np.array([value for _, value in each], np.float64)
    columns = _columns(subject, field, list(entries), n)
    values, order = cost_vector(subject, field, list(entries.values()), len(entries)), columns.argsort()
    return columns[order], values[order]


def _sound_entry(column: Any, value: Any, n: int) -> bool:
    """Return whether an entry is valid and of the most common types, an int and a float."""
    return type(column) is int and 0 <= column < n and isinstance(value, float) and abs(value) <= LARGEST_COST


def coefficients_of(
    subject: Hashable, resource: Hashable, coefficients: Any, n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nonzero coefficients of one resource: distinct columns, and values."""
    if isinstance(coefficients, tuple) and len(coefficients) == 2:
        columns, values = coefficients
        if (
            _plain(columns, _WHOLE)
            and _plain(values, _REAL)
            and sound_entries(columns, values, n, LARGEST_COST)
        ):
            return columns, values
    field = f"usage[{resource!r}]"
    if isinstance(coefficients, tuple):
        if len(coefficients) != 2:
            raise EditError(subject, field, len(coefficients), "must be a pair (columns, values)")
        columns = _columns(subject, field, coefficients[0], n)
        values = cost_vector(subject, field, coefficients[1], columns.size)
        if np.unique(columns).size < columns.size:
            raise EditError(subject, field, "columns", "a column is given twice")
        keep = values != 0
        return columns[keep], values[keep]
    dense = _numbers(subject, field, coefficients)
    values = np.full(n, float(dense)) if dense.ndim == 0 else dense
    values = cost_vector(subject, field, values, n)
    columns = np.flatnonzero(values)
    return columns, values[columns]
