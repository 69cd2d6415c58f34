"""Conversion of the arguments of bulk edit methods to flat arrays.

- Costs of columns are given flat with sizes, or as one array for each request.
- Values of single columns (overrides, starts) are given flat with counts, or as one mapping for each request.
- Values of a request (totals, relations, terms, integrality) are given as one value for all requests, or as
  one for each request.

Flat arrays are the fastest form.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.program.validation import (
    cost_vector,
    flag,
    is_exact,
    is_vector,
    owner_of,
    sparse_entries,
    term_of,
    total_of,
    totals_of,
    upper_bounds,
    whole_numbers,
    within,
)
from copter.store.edit import Entries, Runs
from copter.store.kernels import first_outside
from copter.store.slabs import SlotTable
from copter.terms.convex import ConvexTerm


class _Keep:
    def __repr__(self) -> str:
        return "<as it is>"


KEEP: Any = _Keep()
"""Default of update arguments for which None has a meaning of its own: leave the field unchanged."""


_SumRows = tuple[NDArray[np.bool_] | bool | None, NDArray[np.float64] | None]
"""For all requests or for each: True if the sum row is an equation; and the totals (:func:`sum_rows_of`)."""


def in_parts(values: Any) -> bool:
    """Return whether numbers are given as one array for each request, and not flat."""
    if isinstance(values, np.ndarray):
        return values.ndim > 1
    return isinstance(values, (list, tuple)) and len(values) > 0 and is_vector(values[0])


def parts_of(
    ids: Sequence[Hashable], label: Hashable, costs: Any, sizes: Sequence[int] | None
) -> list[NDArray[np.float64]]:
    """Return the checked costs of requests, one array each; `sizes`, if given, are the required lengths.

    Raise EditError, with request, field and value, if an entry is invalid.
    """
    if len(costs) != len(ids):
        raise EditError(label, "costs", len(costs), f"must have one array for each of {len(ids)} requests")
    lengths = [None] * len(ids) if sizes is None else sizes
    return [cost_vector(id, "costs", own, n) for id, own, n in zip(ids, costs, lengths, strict=True)]


def columns_of(
    label: Hashable, ids: Sequence[Hashable], costs: Any, sizes: ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return sizes and flat costs of requests with new columns, from flat costs with sizes, or from k arrays.

    Raise EditError, with request, field and value, if an entry is invalid.
    """
    widths = None if sizes is None else whole_numbers(label, "sizes", sizes, len(ids))
    if widths is not None and not within(widths, 1, math.inf):
        raise EditError(ids[int(widths.argmin())], "sizes", int(widths.min()), "must be at least 1")
    if in_parts(costs) or (widths is None and not ids):
        parts = parts_of(ids, label, costs, None if widths is None else widths.tolist())
        widths = np.array([part.size for part in parts], np.int64)
        return widths, parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts])
    if widths is None:
        cost_vector(label, "costs", costs)
        why = "must be given with flat costs; or give one array of costs for each request"
        raise EditError(label, "sizes", sizes, why)
    return widths, cost_vector(label, "costs", costs, int(widths.sum()), owner=(ids, widths))


def sum_rows_of(
    label: Hashable,
    ids: Sequence[Hashable],
    totals: Any,
    relation: Any,
    old: tuple[SlotTable, NDArray[np.int64]] | None = None,
) -> _SumRows:
    """Return the sum rows of many requests.

    A total of None, for all or in a list, means no sum row. The relation is "<=" or "==", or a sequence with
    one for each request. `old`, the table of requests and their slots, is given for an update: then KEEP
    leaves the totals unchanged, and a relation of None leaves the relation of each request with a total
    unchanged. Return which sum rows are equations, or None if no relation changes; and the totals, or None if
    new requests have no sum rows. The total of a request without a sum row is infinite. Raise EditError, with
    the request, the field and the value, if one is invalid.
    """
    if old is None and isinstance(totals, (float, int, np.ndarray)) and isinstance(relation, str):
        return is_exact(label, relation, has_total=True), _amounts(label, ids, totals)
    before = None if old is None else old[0].total[old[1]]
    if before is not None and relation is None and isinstance(totals, np.ndarray) and (before < np.inf).all():
        return None, totals_of(label, ids, totals)
    amounts = _totals(label, ids, totals) if before is None or totals is not KEEP else before
    has = amounts < np.inf
    if isinstance(relation, str) and (has.all() or not has.any()):
        summed = totals is not None and bool(has.all())
        return is_exact(label, relation, summed), amounts if summed or old is not None else None
    if relation is None and old is not None:
        return old[0].exact[old[1]] & has, amounts
    each = [relation] * len(ids) if isinstance(relation, str) else _one_each(label, ids, "relation", relation)
    pairs = zip(ids, each, has.tolist(), strict=True)
    return np.array([is_exact(id, own, summed) for id, own, summed in pairs], np.bool_), amounts


def _totals(label: Hashable, ids: Sequence[Hashable], totals: Any) -> NDArray[np.float64]:
    """Return the totals of many requests, infinite for those without one."""
    if totals is None:
        return np.full(len(ids), np.inf)
    if isinstance(totals, (list, tuple)) and any(total is None for total in totals):
        each, amounts = _one_each(label, ids, "totals", totals), np.full(len(ids), np.inf)
        has = np.array([total is not None for total in each], np.bool_)
        some = [id for id, total in zip(ids, each, strict=True) if total is not None]
        amounts[has] = totals_of(label, some, [total for total in each if total is not None])
        return amounts
    return _amounts(label, ids, totals)


def _amounts(label: Hashable, ids: Sequence[Hashable], totals: Any) -> NDArray[np.float64]:
    """Return the checked totals of requests that all have one, given as one for all or one each."""
    if is_vector(totals):
        return totals_of(label, ids, totals)
    return np.full(len(ids), total_of(label, totals))


def _one_each(label: Hashable, ids: Sequence[Hashable], field: str, values: Any) -> Any:
    if not isinstance(values, (list, tuple, np.ndarray)) or len(values) != len(ids):
        given = len(values) if isinstance(values, (list, tuple, np.ndarray)) else values
        raise EditError(label, field, given, f"must have one for each of {len(ids)} requests")
    return values


def uppers_of(
    label: Hashable, ids: Sequence[Hashable], upper: Any, widths: NDArray[np.int64]
) -> float | Runs:
    """Return the upper bounds of the columns of many requests: one number, or one run for each.

    They are given as one number, as one flat array, or as a number or an array for each request. `widths`
    (k,) has the number of columns of each request. Raise EditError, with the request, the field and the
    value, if one is invalid.
    """
    if isinstance(upper, float):
        return float(upper_bounds(label, upper, 0))
    given = upper if isinstance(upper, (list, tuple, np.ndarray)) else ()
    in_all = int(widths.sum())
    flat = isinstance(given, np.ndarray) and given.ndim == 1 or not any(map(is_vector, given))
    if flat and (len(given) != len(ids) or len(given) == in_all):
        bound = upper_bounds(label, upper, in_all, owner=(ids, widths))
        return Runs(widths, bound) if isinstance(bound, np.ndarray) else bound
    pairs = zip(ids, _one_each(label, ids, "upper", given), widths.tolist(), strict=True)
    bounds = [np.broadcast_to(upper_bounds(id, own, n), n) for id, own, n in pairs]
    return Runs(widths, np.concatenate(bounds))


def flags_of(
    label: Hashable, ids: Sequence[Hashable], given: Any, widths: NDArray[np.int64]
) -> bool | NDArray[np.bool_]:
    """Return whether requests are integral: one truth value for all, or one each.

    Raise EditError, with request, field and value, if an entry is invalid.
    """
    if given is False or given is True:
        return given
    if not isinstance(given, (list, tuple, np.ndarray)):
        return flag(label, "integral", given)
    each = _one_each(label, ids, "integral", given)
    if isinstance(given, np.ndarray) and given.dtype == np.bool_:
        return given
    return np.array([flag(id, "integral", own) for id, own in zip(ids, each, strict=True)], np.bool_)


def entries_of(
    field: str, label: Hashable, ids: Sequence[Hashable], given: Any, widths: NDArray[np.int64]
) -> Entries:
    """Return numbers for single columns of many requests.

    They are given flat, as (counts, columns, values), or as k mappings. A request whose mapping is None is
    left out. Messages use `label`, the edit method, and `field`, the meaning of the numbers. `widths` (k,)
    has the number of columns of each request. Raise EditError, with the request, the field and the value, if
    one is invalid.
    """
    if is_flat(given):
        return Entries(None, *_flat_entries(label, field, ids, given, widths))
    each = _one_each(label, ids, f"{field}s", given)
    which = np.array([own is not None for own in each], np.bool_)
    found = [sparse_entries(ids[k], field, each[k], int(widths[k])) for k in np.flatnonzero(which).tolist()]
    counts = np.zeros(len(ids), np.int64)
    counts[which] = [columns.size for columns, _ in found]
    columns = np.concatenate([np.empty(0, np.int64), *(columns for columns, _ in found)])
    values = np.concatenate([np.empty(0), *(values for _, values in found)])
    return Entries(None if which.all() else which, counts, columns, values)


def is_flat(given: Any) -> bool:
    """Return whether numbers for single columns are given as (counts, columns, values)."""
    return (
        isinstance(given, tuple)
        and len(given) == 3
        and (isinstance(given[0], np.ndarray) or is_vector(given[0]))
    )


def _flat_entries(
    label: Hashable,
    field: str,
    ids: Sequence[Hashable],
    given: tuple[Any, Any, Any],
    widths: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return checked counts (k,), columns and values, flat, of requests that have ``widths`` (k,) columns.

    Raise EditError, with request, field and value, if an entry is invalid.
    """
    counts = whole_numbers(label, f"{field} counts", given[0], len(ids))
    if not within(counts, 0, math.inf):
        worst = int(counts.argmin())
        raise EditError(ids[worst], f"{field} counts", int(counts[worst]), "must not be negative")
    columns = whole_numbers(label, f"{field} columns", given[1], int(counts.sum()))
    kind = "costs" if field == "override" else "values"
    values = cost_vector(label, f"{field} {kind}", given[2], columns.size, owner=(ids, counts))
    where = first_outside(columns, counts, widths)
    if where >= 0:
        who = owner_of(label, (ids, counts), where)
        raise EditError(who, field, int(columns[where]), "the request has no such column")
    if not within(counts, 0, 1):
        n = int(columns.max()) + 1
        key = np.repeat(np.arange(len(ids)), counts) * n + columns
        if not (key[1:] > key[:-1]).all():
            order = key.argsort()
            key, columns, values = key[order], columns[order], values[order]
            twice = key[1:][key[1:] == key[:-1]]
            if twice.size:
                which, column = divmod(int(twice[0]), n)
                raise EditError(ids[which], field, column, "the column is given twice")
    return counts, columns, values


def terms_of(label: Hashable, ids: Sequence[Hashable], terms: Any, widths: NDArray[np.int64]) -> NDArray[Any]:
    """Return an array of objects with (term, image), or None for no term, of each of many requests.

    `widths` (k,) has the number of columns of each request. Raise EditError, with the request, the field and
    the value, if one is invalid.
    """
    one = terms is None or isinstance(terms, ConvexTerm)
    each = [terms] * len(ids) if one else _one_each(label, ids, "terms", terms)
    checked = np.empty(len(ids), object)
    for k, (id, term, n) in enumerate(zip(ids, each, widths.tolist(), strict=True)):
        checked[k] = None if term is None else term_of(id, term, n)
    return checked
