"""Changes of requests: checked first, altogether, and made only if all of them are right."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.program.forms import (
    KEEP,
    Entries,
    columns_of,
    entries_of,
    flags_of,
    in_parts,
    is_flat,
    parts_of,
    sum_rows_of,
    terms_of,
    uppers_of,
)
from copter.program.validation import (
    checked_overrides,
    cost_vector,
    flag,
    parameters_of,
    scale_factor,
    scales_of,
    sparse_entries,
    sum_row,
    term_of,
    totals_of,
    upper_bounds,
    whole_numbers,
)
from copter.store.costs import CostsOfVectors
from copter.store.edits import EXACTLY, NO_TOTAL
from copter.store.store import ConstraintStore
from copter.terms.convex import ConvexTerm

Starts = dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]
"""Columns and values by request slot, from which the next warm start begins."""
Parts = list[NDArray[np.float64]]
Costs = Parts | CostsOfVectors


class Change:
    """Checked changes of some requests; None leaves a field as it is.

    Attributes
    ----------
    costs : an array for each request, or vectors
    usage : slot of the new columns' usage, one for all or one each; then ``costs`` are those of new columns
    scales : (k,) array
    overrides : new overrides
    rows : kinds (None: as they are) and totals of the sum rows
    upper : one number or flat
    integral : one truth value or (k,)
    starts : (place of the request, (columns, values))
    terms : (place of the request, (term, image) or None for no term)
    parameters : kind of the terms, and new values of their parameters
    """

    costs: Costs | None = None
    usage: NDArray[np.int64] | int | None = None
    scales: NDArray[np.float64] | None = None
    overrides: Entries | None = None
    rows: tuple[NDArray[np.int8] | int | None, Any] | None = None
    upper: float | NDArray[np.float64] | None = None
    integral: bool | NDArray[np.bool_] | None = None
    starts: list[tuple[int, tuple[NDArray[np.int64], NDArray[np.float64]]]] | None = None
    terms: list[tuple[int, tuple[ConvexTerm, NDArray[np.float64]] | None]] | None = None
    parameters: tuple[int, dict[str, NDArray[np.float64]]] | None = None

    def make(self, store: ConstraintStore, slots: NDArray[np.int64], starts: Starts) -> None:
        """Make the changes of the requests in some slots.

        Parameters
        ----------
        slots : (k,) array
        starts : mapping
            Those of the program, edited in place.
        """
        if self.costs is not None:
            self._set_columns(store, slots, starts)
        if self.starts is not None:
            for place, start in self.starts:
                starts[int(slots[place])] = start
        if self.rows is not None:
            kinds, totals = self.rows
            if kinds is None:
                store.set_totals(slots, totals)
            else:
                store.set_sum_rows(slots, kinds, totals)
        if self.upper is not None:
            store.set_uppers(slots, self.upper)
        if self.integral is not None:
            store.set_integral(slots, self.integral)
        if self.overrides is not None or self.scales is not None:
            self._set_scales(store, slots)
        if self.terms is not None:
            for place, term in self.terms:
                store.set_term(int(slots[place]), term)
        if self.parameters is not None:
            store.restate_terms(slots, *self.parameters)

    def _set_columns(self, store: ConstraintStore, slots: NDArray[np.int64], starts: Starts) -> None:
        assert self.costs is not None
        if self.usage is None:
            if isinstance(self.costs, CostsOfVectors):
                store.set_vectors(slots, self.costs.slots)
            else:
                store.set_costs(slots.tolist(), self.costs)
            return
        store.replace_columns(slots, np.broadcast_to(self.usage, slots.shape), self.costs)
        for slot in slots.tolist() if starts else ():
            starts.pop(slot, None)

    def _set_scales(self, store: ConstraintStore, slots: NDArray[np.int64]) -> None:
        if self.overrides is None or self.overrides.which is not None:
            if self.scales is not None:
                store.set_scales(slots, self.scales)
            if self.overrides is not None:
                store.set_overrides(slots[self.overrides.which], *self.overrides[1:])
        else:
            store.set_overrides(slots, *self.overrides[1:], scales=self.scales)


def additions_to_one(
    id: Hashable, n: int, override: Mapping[int, float] | None, start: Mapping[int, float] | None, term: Any
) -> Change:
    """Override, start and term of a request with n columns.

    Parameters
    ----------
    override, start : mapping of int to float, optional

    Raises
    ------
    EditError
        Names the request, the field and the value.
    """
    change = Change()
    if override is not None:
        patch = sparse_entries(id, "override", override, n)
        change.overrides = Entries(None, np.array([patch[0].size]), *patch)
    if start is not None:
        change.starts = [(0, sparse_entries(id, "start", start, n))]
    if term is not KEEP:
        change.terms = [(0, None if term is None else term_of(id, term, n))]
    return change


def additions_to_many(
    label: str,
    ids: Sequence[Hashable],
    widths: NDArray[np.int64],
    overrides: Any,
    starts: Any,
    terms: Any,
) -> Change:
    """Overrides, starts and terms of requests with ``widths`` columns.

    Parameters
    ----------
    label : str
        Name of the verb, for messages.
    ids : (k,) sequence of hashable
    widths : (k,) ndarray
        Columns of each request.
    overrides, starts : (counts, columns, values), or k mappings, optional
    terms : ConvexTerm, None or KEEP
        One for all, or k of the first two.

    Raises
    ------
    EditError
        Names the request, the field and the value.
    """
    change = Change()
    if overrides is not None:
        change.overrides = entries_of(label, "override", ids, overrides, widths)
    if starts is not None:
        change.starts = entries_of(label, "start", ids, starts, widths).each()
    if terms is not KEEP:
        change.terms = terms_of(label, ids, terms, widths)
    return change


def change_of_one(
    store: ConstraintStore,
    id: Hashable,
    slot: int,
    costs: NDArray[np.float64] | CostsOfVectors | None,
    given: Mapping[str, Any],
) -> Change:
    """Changes of one request, checked: all but its usage.

    Parameters
    ----------
    costs : (n,) array or vector, optional
        New ones, checked.
    given : mapping
        Arguments of ``update_request`` by name.

    Raises
    ------
    EditError
        Names the request, the field and the value.
    """
    n = int(store.requests.n_columns[slot]) if costs is None else costs.size
    term, parameters = given["term"], None
    if term is not KEEP and isinstance(term, Mapping):
        each = {name: [value] for name, value in term.items()}
        term, parameters = KEEP, parameters_of(id, [id], each, store.terms, np.array([slot]))
    change = additions_to_one(id, n, given["override"], given["start"], term)
    change.costs = costs if costs is None or isinstance(costs, CostsOfVectors) else [costs]
    change.parameters = parameters
    if given["total"] is not KEEP or given["relation"] is not None:
        change.rows = _changed_row(store, id, slot, given["total"], given["relation"])
    if given["upper"] is not None:
        change.upper = upper_bounds(id, given["upper"], n)
    if given["scale"] is not None:
        change.scales = np.array([scale_factor(id, given["scale"])])
    if given["integral"] is not None:
        change.integral = flag(id, "integral", given["integral"])
    return change


def change_of_many(
    store: ConstraintStore,
    label: str,
    ids: Sequence[Hashable],
    slots: NDArray[np.int64],
    costs: Costs | None,
    given: Mapping[str, Any],
) -> Change:
    """Changes of many requests, checked: all but their usages.

    Parameters
    ----------
    label : str
        Name of the verb.
    ids, slots : (k,) sequence and array
    costs : list of k arrays or k vectors, optional
        New ones, checked.
    given : mapping
        Arguments of ``update_requests`` by name.

    Raises
    ------
    EditError
        Names the request, the field and the value.
    """
    table = store.requests
    overrides, terms, upper, patch = given["overrides"], given["term"], given["upper"], None
    if overrides is not None and costs is None and is_flat(overrides):
        counts = whole_numbers(label, "override counts", overrides[0], len(ids))
        if checked_overrides(counts, overrides[1], overrides[2], table, slots):
            patch, overrides = Entries(None, counts, overrides[1], overrides[2]), None
    restated = terms is not KEEP and isinstance(terms, Mapping)
    change, widths = Change(), None
    if overrides is not None or given["starts"] is not None or upper is not None or terms is not KEEP:
        widths = table.n_columns[slots] if costs is None else widths_of(costs)
        added = KEEP if restated else terms
        change = additions_to_many(label, ids, widths, overrides, given["starts"], added)
    change.costs = costs
    if patch is not None:
        change.overrides = patch
    if upper is not None and widths is not None:
        change.upper = uppers_of(label, ids, upper, widths)
    if given["scales"] is not None:
        change.scales = scales_of(label, ids, given["scales"])
    if given["totals"] is not KEEP or given["relation"] is not None:
        change.rows = _changed_rows(store, label, ids, slots, given["totals"], given["relation"])
    if given["integral"] is not None:
        change.integral = flags_of(label, ids, given["integral"])
    if restated and ids:
        change.parameters = parameters_of(label, ids, terms, store.terms, slots)
    return change


def costs_of_many(
    store: ConstraintStore,
    label: str,
    ids: Sequence[Hashable],
    slots: NDArray[np.int64],
    columns: tuple[Any, Any],
    *,
    new: bool,
) -> Costs | None:
    """New costs of many requests, given as (costs, sizes), an array each; ``new``: of new columns.

    Parameters
    ----------
    label : str
        Name of the verb, for messages.
    ids : (k,) sequence of hashable
    slots : (k,) ndarray
    columns : (costs, sizes)
        Costs flat, as k arrays, or as vectors, and how many each request has; None for what is not given.
    new : bool
        Whether the columns are new; the old ones' number stays.

    Returns
    -------
    list of k arrays, or vectors, or None
        None where no costs are given.

    Raises
    ------
    EditError
        Names the request, the field and the value.
    """
    costs, sizes = columns
    if costs is None:
        if sizes is not None:
            raise EditError(label, "sizes", sizes, "are those of new costs: give these too")
        return None
    if isinstance(costs, CostsOfVectors):
        wrong = np.flatnonzero(costs.sizes != store.requests.n_columns[slots])
        if not new and wrong.size:
            where = int(wrong[0])
            why = (
                f"the request has {int(store.requests.n_columns[slots[where]])} columns; give a new usage too"
            )
            raise EditError(ids[where], "costs", int(costs.sizes[where]), why)
        return costs
    if new:
        widths, flat = columns_of(label, ids, costs, sizes)
    else:
        widths = store.requests.n_columns[slots]
        if sizes is not None:
            wrong = whole_numbers(label, "sizes", sizes, len(ids)) != widths
            if wrong.any():
                where = int(wrong.argmax())
                why = f"the request has {int(widths[where])} columns; give a new usage too"
                raise EditError(ids[where], "sizes", int(np.asarray(sizes)[where]), why)
        if in_parts(costs) or not ids:
            return parts_of(ids, label, costs, widths.tolist())
        flat = cost_vector(label, "costs", costs, int(widths.sum()), owner=(ids, widths))
    return np.split(flat, np.cumsum(widths)[:-1]) if ids else []


def widths_of(costs: Costs) -> NDArray[np.int64]:
    """How many columns the costs of each request are for."""
    if isinstance(costs, CostsOfVectors):
        return costs.sizes
    return np.array([own.size for own in costs], np.int64)


def check_replacement(
    store: ConstraintStore, ids: Sequence[Hashable], slots: NDArray[np.int64], given: Mapping[str, Any]
) -> None:
    """New columns come with what belonged to the old ones.

    Parameters
    ----------
    ids, slots : (k,) sequence and array
    given : mapping
        ``upper``, and ``term``: what is given besides the new usage.

    Raises
    ------
    EditError
        Bounds per column or the image of a term would be of the old columns: names the request.
    """
    if given["upper"] is None:
        own = store.requests.upper_start[slots] >= 0
        if own.any():
            why = "was given per column: a new usage needs it again"
            raise EditError(ids[int(own.argmax())], "upper", None, why)
    if store.terms and (given["term"] is KEEP or isinstance(given["term"], Mapping)):
        for id, slot in zip(ids, slots.tolist(), strict=True):
            if slot in store.terms:
                why = "its image is of the old columns: a new usage needs it again"
                raise EditError(id, "term", given["term"], why)


def _changed_row(
    store: ConstraintStore, id: Hashable, slot: int, total: float | None, relation: str | None
) -> tuple[int, float]:
    """(kind, total) of a sum row of which a part may be kept."""
    kind = int(store.requests.relation[slot])
    if total is KEEP:
        total = None if kind == NO_TOTAL else float(store.requests.total[slot])
    kept = "==" if kind == EXACTLY and total is not None else "<="
    return sum_row(id, total, kept if relation is None else relation)


def _changed_rows(
    store: ConstraintStore,
    label: str,
    ids: Sequence[Hashable],
    slots: NDArray[np.int64],
    totals: Any,
    relation: Any,
) -> tuple[NDArray[np.int8] | int | None, Any]:
    """(kinds, totals) of sum rows; None as the kinds if all requests have one, which stays as it is."""
    old = store.requests.relation[slots]
    if relation is None and isinstance(totals, np.ndarray) and np.count_nonzero(old) == old.size:
        return None, totals_of(label, ids, totals)
    return sum_rows_of(label, ids, totals, relation, (old, store.requests.total[slots]))
