"""Edits that add, remove or change single columns of requests.

Each function returns one edit, which replaces all columns of the named requests by a selection of their old
and new columns. The running time is proportional to the number of columns of the named requests.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.program.index import listed
from copter.program.names import Names, Numbers, check_names
from copter.program.parse import Parser, usual_bounds
from copter.program.sense import in_sense
from copter.program.series import by_id, by_name
from copter.program.usage import Compressed
from copter.program.validation import cost_vector, is_vector, number, term_of, upper_bounds
from copter.store.edit import OWN, ColumnNames, Edit, EditedColumns, Entries, Runs
from copter.store.reading import given_costs, overrides_of, usage_columns
from copter.store.reading import upper_bounds as upper_bounds_of
from copter.store.slabs import slice_indices
from copter.terms.convex import make_term


class _Named(NamedTuple):
    """Columns that an edit names, and their requests.

    `ids`, `slots`, `widths` and `names` (k,) describe the k distinct requests. `owner` (m,) has, for each
    named column, the position of its request among these k. `given` (m,) has the names or numbers of the
    columns. `labels` (m,) has the labels that a Series needs as its index: the names of the columns if one
    request is given, else their requests. It is None for one request whose columns have no names.
    """

    ids: list[Hashable]
    slots: NDArray[np.int64]
    widths: NDArray[np.int64]
    names: list[Names]
    owner: NDArray[np.int64]
    given: Sequence[Any]
    labels: Sequence[Any] | None

    @property
    def begin(self) -> NDArray[np.int64]:
        """Position of the first column of each request among the columns of all these requests."""
        return self.widths.cumsum() - self.widths

    def of(self, column: int) -> Hashable:
        """Return the request of a column."""
        return self.ids[self.owner[column]]


def added_columns(
    parser: Parser, requests: Any, names: Any, costs: Any, usage: Any, upper: Any
) -> Edit | None:
    """Return the edit of ``add_columns``; None if no column is named."""
    label = "add_columns"
    named = _named(parser, label, requests, names, costs if is_vector(costs) else None)
    m = len(named.given)
    if not m:
        return None
    cost = in_sense(_one_each(named, "costs", costs), parser.sense)
    own = _compressed(parser, label, named, usage)
    bound = _uppers(named, upper)
    whole = int(named.widths.sum())
    # The new columns of a request follow its old columns.
    owners = np.concatenate((np.repeat(np.arange(named.widths.size), named.widths), named.owner))
    source = np.argsort(owners, kind="stable")
    kept = np.where(source < whole, source - named.begin[owners[source]], -1)
    widths = np.bincount(owners, minlength=named.widths.size)
    labels = _extended(named)
    return _replacement(parser, named, widths, source, kept, labels, (cost, own, bound))


def removed_columns(parser: Parser, requests: Any, names: Any) -> Edit | None:
    """Return the edit of ``remove_columns``; None if no column is named."""
    named = _named(parser, "remove_columns", requests, names, None)
    if not len(named.given):
        return None
    gone = _places(named)
    owners = np.repeat(np.arange(named.widths.size), named.widths)
    stays = np.ones(owners.size, np.bool_)
    stays[gone] = False
    widths = np.bincount(owners[stays], minlength=named.widths.size)
    if not widths.all():
        where = int(widths.argmin())
        name = named.given[int((named.owner == where).argmax())]
        why = "is the last column of the request; at least one column must stay"
        raise EditError(named.ids[where], "names", name, why)
    source = np.flatnonzero(stays)
    kept = source - named.begin[owners[source]]
    labels = [
        None if own is None else tuple(own[j] for j in kept[end - n : end].tolist())
        for own, n, end in zip(named.names, widths.tolist(), widths.cumsum().tolist(), strict=True)
    ]
    return _replacement(parser, named, widths, source, kept, labels, None)


def changed_columns(
    parser: Parser, requests: Any, names: Any, costs: Any, usage: Any, upper: Any
) -> Edit | None:
    """Return the edit of ``update_columns``; None if no column is named or nothing changes."""
    label, store = "update_columns", parser.store
    named = _named(parser, label, requests, names, None)
    m = len(named.given)
    if not m or (costs is None and usage is None and upper is None):
        return None
    places = _places(named)
    cost = None if costs is None else in_sense(_one_each(named, "costs", costs), parser.sense)
    bound = None if upper is None else _uppers(named, upper)
    if usage is None:
        given: dict[str, Any] = {}
        for field, new, old in (("costs", cost, given_costs), ("upper", bound, upper_bounds_of)):
            if new is not None:
                values = old(store, named.slots)
                values[places] = new
                given[field] = Runs(named.widths, values)
        return Edit("update_requests", slots=named.slots, **given)
    own = _compressed(parser, label, named, usage)
    if cost is None:
        cost = given_costs(store, named.slots)[places]
    if bound is None:
        bound = upper_bounds_of(store, named.slots)[places]
        bound = None if (store.requests.upper_start[named.slots] < 0).all() else bound
    whole = int(named.widths.sum())
    source = np.arange(whole)
    source[places] = whole + np.arange(m)
    kept = slice_indices(np.zeros_like(named.widths), named.widths)
    return _replacement(parser, named, named.widths, source, kept, named.names, (cost, own, bound))


def _named(parser: Parser, label: str, requests: Any, names: Any, counted: Any) -> _Named:
    """Return the named columns, given as one request with names, or as a request and a name for each column.

    For columns without names, `counted` is a sequence with one entry for each column.
    """
    one = parser.requests.is_one(requests)
    if not one:
        requests = parser.requests.listed(requests)
        names = by_id(label, "names", names, requests)
    given = None if names is None else listed(names)
    if one:
        m = len(given) if given is not None else 1 if counted is None else len(counted)
        ids, owner = [requests], np.zeros(m, np.int64)
    else:
        m = len(requests)
        ids = parser.requests.distinct(requests)
        place = {id: k for k, id in enumerate(ids)}
        owner = np.array([place[id] for id in requests], np.int64)
    if given is None:
        given = [None] * m
    if len(given) != m:
        raise EditError(label, "names", len(given), f"must have one for each of {m} columns")
    slots = parser.requests.slots(ids, label)
    widths = parser.store.requests.n_columns[slots]
    names = [parser.names.of(slot) for slot in slots.tolist()]
    labels = requests if not one else given if names[0] is not None else None
    return _Named(ids, slots, widths, names, owner, given, labels)


def _compressed(parser: Parser, label: Hashable, named: _Named, usage: Any) -> Compressed:
    """Return the coefficients of the named columns."""
    subject = named.ids[0] if len(named.ids) == 1 else label  # named by errors that concern no single column
    return parser.compressed(subject, by_name(subject, "usage", usage, named.labels), len(named.given))


def _places(named: _Named) -> NDArray[np.int64]:
    """Return the position of each named column among all columns of the requests."""
    numbers, found, begin, widths = Numbers(), [], named.begin.tolist(), named.widths.tolist()
    for k, name in zip(named.owner.tolist(), named.given, strict=True):
        own = named.names[k]
        if own is not None:
            column = numbers.find(named.ids[k], "names", own, name)
        elif isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < widths[k]:
            column = int(name)
        else:
            why = f"the request has no such column; it has {widths[k]} columns"
            raise EditError(named.ids[k], "names", name, why)
        found.append(begin[k] + column)
    places = np.array(found, np.int64)
    _, first = np.unique(places, return_index=True)
    if first.size < places.size:
        twice = int(np.setdiff1d(np.arange(places.size), first)[0])
        raise EditError(named.of(twice), "names", named.given[twice], "the column is given twice")
    return places


def _extended(named: _Named) -> list[Names]:
    """Return the old and new names of the columns of requests; raise EditError if one is invalid."""
    new: list[list[Any]] = [[] for _ in named.ids]
    for k, name in zip(named.owner.tolist(), named.given, strict=True):
        new[k].append(name)
    labels: list[Names] = []
    for id, own, more in zip(named.ids, named.names, new, strict=True):
        if own is None:
            for name in more:
                if name is not None:
                    why = "must be None, because the columns of the request have no names"
                    raise EditError(id, "names", name, why)
            labels.append(None)
        else:
            labels.append((*own, *more))
            check_names(id, "names", (*own, *more))
    return labels


def _one_each(named: _Named, field: str, given: float | ArrayLike) -> NDArray[np.float64]:
    """Return one cost for each named column."""
    m = len(named.given)
    if is_vector(given):
        each = by_name(named.of(0), field, given, named.labels)
    else:
        each = np.full(m, number(named.of(0), field, given))
    return cost_vector(named.of(0), field, each, m, owner=([named.of(k) for k in range(m)], None))


def _uppers(named: _Named, upper: Any) -> NDArray[np.float64] | None:
    """Return the upper bound of each named column; None if `upper` is None."""
    if upper is None:
        return None
    m = len(named.given)
    upper = by_name(named.of(0), "upper", upper, named.labels)
    bound = upper_bounds(named.of(0), upper, m, owner=([named.of(k) for k in range(m)], None))
    return np.broadcast_to(bound, m)


def _replacement(
    parser: Parser,
    named: _Named,
    widths: NDArray[np.int64],
    source: NDArray[np.int64],
    kept: NDArray[np.int64],
    labels: Sequence[Names],
    new: tuple[NDArray[np.float64], Compressed, NDArray[np.float64] | None] | None,
) -> Edit:
    """Return the edit that replaces the columns of the named requests.

    Parameters
    ----------
    widths : (k,) ndarray
        Number of columns of each request after the edit.
    source : (sum(widths),) ndarray
        Position of each column among the old columns of all requests, followed by the new columns.
    kept : (sum(widths),) ndarray
        Number of each column among the old columns of its request; -1 for a new column.
    labels : sequence of k names
        Names of the columns after the edit.
    new : (costs, usage, upper bounds) of the new columns, or None
        If the bounds are None, a new column gets the bound that all columns of its request have.
    """
    store, slots = parser.store, named.slots
    table, old = store.requests, usage_columns(store, slots)
    counts, row, value = old.counts, old.row, old.value
    cost = given_costs(store, slots)
    bounds = upper_bounds_of(store, slots) if (table.upper_start[slots] >= 0).any() else None
    if new is not None:
        more, own, limit = new
        counts = np.concatenate((counts, np.diff(own.pointer)))
        row, value = np.concatenate((row, own.row)), np.concatenate((value, own.value))
        cost = np.concatenate((cost, more))
        if limit is not None or bounds is not None:
            old_bounds = upper_bounds_of(store, slots) if bounds is None else bounds
            if limit is None:
                limit = usual_bounds(store, slots)[1][named.owner]
            bounds = np.concatenate((old_bounds, limit))
    entries = slice_indices((counts.cumsum() - counts)[source], counts[source])
    pointer = np.concatenate(([0], counts[source].cumsum()))
    width = np.int32 if entries.size < 2**31 else np.int64
    return Edit(
        "update_requests",
        slots=slots,
        sizes=widths,
        usage=OWN,
        columns=EditedColumns(widths, pointer.astype(width), row[entries].astype(np.int32), value[entries]),
        costs=Runs(widths, cost[source]),
        upper=None if bounds is None else Runs(widths, bounds[source]),
        overrides=_overrides(parser, named, widths, kept),
        terms=_terms(parser, named, widths, kept),
        labels=ColumnNames.of(labels),
        kept=Runs(widths, kept),
    )


def _overrides(
    parser: Parser, named: _Named, widths: NDArray[np.int64], kept: NDArray[np.int64]
) -> Entries | None:
    """Return the overrides of the columns that stay; None if no column has an override."""
    columns, values = overrides_of(parser.store, named.slots)
    if not values.values.size:
        return None
    begin, first = named.begin, widths.cumsum() - widths
    owner = np.repeat(np.arange(widths.size), widths)
    place = np.full(int(named.widths.sum()), -1)
    old = kept >= 0
    place[begin[owner[old]] + kept[old]] = (np.arange(kept.size) - first[owner])[old]
    request = np.repeat(np.arange(widths.size), columns.lengths)
    column = place[begin[request] + columns.values]
    stays = column >= 0
    counts = np.bincount(request[stays], minlength=widths.size)
    return Entries(None, counts, column[stays], values.values[stays])


def _terms(
    parser: Parser, named: _Named, widths: NDArray[np.int64], kept: NDArray[np.int64]
) -> NDArray[Any] | None:
    """Return the convex terms of the requests, with an image of 0 for new columns; None without terms."""
    table = parser.store.terms
    if not table or not any(slot in table for slot in named.slots.tolist()):
        return None
    terms = np.empty(widths.size, object)
    ends = widths.cumsum().tolist()
    for k, (id, slot, n, end) in enumerate(
        zip(named.ids, named.slots.tolist(), widths.tolist(), ends, strict=True)
    ):
        term = table.get(slot)
        if term is not None:
            image = np.append(np.broadcast_to(term.image, int(named.widths[k])), 0.0)
            term = make_term(type(term), image[kept[end - n : end]], term.parameters)
            terms[k] = term_of(id, term, n)
    return terms
