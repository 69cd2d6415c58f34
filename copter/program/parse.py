"""Parser of the arguments of edit methods into one edit (:class:`copter.store.edit.Edit`).

The parser checks all arguments and does not change the program. An invalid argument raises an EditError that
names the request or resource, the field and the value.
"""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.program.forms import (
    KEEP,
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
from copter.program.handles import Handles, SharedColumns
from copter.program.index import Index
from copter.program.names import Names, NameTable, Numbers, labels_of, names_of
from copter.program.sense import Sense, in_sense
from copter.program.series import all_by_id, by_id, by_name, is_series, plain, runs_by_id
from copter.program.usage import Compressed, Usage, from_mapping, from_matrix, joined
from copter.program.validation import (
    all_are,
    checked_overrides,
    checked_requests,
    cost_vector,
    is_vector,
    kind_of_row,
    moved_bounds,
    number,
    parameters_of,
    places_of,
    prices_of,
    row_bounds_of,
    scales_of,
    totals_of,
    whole_number,
    whole_numbers,
)
from copter.store.edit import OWN, ColumnNames, Edit, EditedColumns, Entries, Runs
from copter.store.executor import Part
from copter.store.reading import upper_bounds
from copter.store.slabs import slice_indices
from copter.store.store import ConstraintStore

_NONE = np.empty(0)


class Parser:
    """Makes edits of a program from the arguments of its edit methods.

    Costs in edits are to be minimised, whatever the sense of the program.
    """

    __slots__ = ("names", "requests", "resources", "sense", "shared_columns", "store")

    def __init__(
        self,
        store: ConstraintStore,
        resources: Index,
        requests: Index,
        shared_columns: Handles,
        names: NameTable,
        sense: Sense = "min",
    ) -> None:
        self.store, self.resources, self.requests = store, resources, requests
        self.shared_columns, self.names = shared_columns, names
        self.sense = sense

    def _minimised(self, edit: Edit) -> Edit:
        """Convert the costs and overrides of an edit from the program's sense to costs to be minimised."""
        if self.sense == "min":
            return edit
        costs, overrides = edit.costs, edit.overrides
        if costs is not None:
            costs = costs._replace(values=in_sense(costs.values, self.sense))
        if overrides is not None:
            overrides = overrides._replace(values=in_sense(overrides.values, self.sense))
        return edit._replace(costs=costs, overrides=overrides)

    # ---- resources --------------------------------------------------------------------------------------

    def new_resources(
        self, label: Hashable, ids: Sequence[Hashable], lower: float | ArrayLike, upper: float | ArrayLike
    ) -> Edit:
        """Return the edit of ``add_resources``; errors that concern no single row name `label`."""
        self.resources.check_new(ids, label)
        given = [_one_each(label, field, each, ids) for field, each in (("lower", lower), ("upper", upper))]
        low, high = row_bounds_of(label, ids, (given[0], given[1]), (_NONE, _NONE))
        return Edit("add_resources", ids=plain(ids), lower=low, upper=high)

    def new_bounds(
        self,
        ids: Sequence[Hashable],
        lower: ArrayLike | None,
        upper: ArrayLike | None,
        by: ArrayLike | None,
    ) -> Edit:
        """Return the edit of ``update_resources``; None leaves a bound unchanged."""
        label = "update_resources"
        slots = self.resources.slots(ids, label)
        old = self.store.rows.lower[slots], self.store.rows.upper[slots]
        if by is not None:
            if upper is not None:
                raise EditError(label, "by", by, "must not be given together with upper; give one of them")
            upper = moved_bounds(label, ids, _one_each(label, "by", by, ids), old)
        low, high = (
            None if each is None else _one_each(label, field, each, ids)
            for field, each in (("lower", lower), ("upper", upper))
        )
        low, high = row_bounds_of(label, ids, (low, high), old)
        return Edit(label, slots=slots, lower=low, upper=high)

    # ---- columns that requests share ----------------------------------------------------------

    def new_columns(self, usage: Mapping[Any, Any], n_columns: int, names: Any) -> Edit:
        """Return the edit of ``share_columns``."""
        label = "shared columns"
        size = np.array([whole_number(label, "n_columns", n_columns)])
        columns = EditedColumns(size, *self.compressed(label, usage, int(size[0])))
        labels = ColumnNames.of([names_of(label, "columns", names, int(size[0]))])
        return Edit("share_columns", key=secrets.randbits(62), sizes=size, columns=columns, labels=labels)

    def forgotten(self, handle: SharedColumns) -> Edit:
        """Return the edit of ``forget``."""
        self.shared_columns.check("forget", handle)
        return Edit("forget_columns", slots=np.array([handle.slot]))

    # ---- requests ---------------------------------------------------------------------------------------

    def new_requests(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        costs: Any,
        sizes: ArrayLike | None,
        usage: Any,
        *,
        totals: Any,
        relation: Any,
        upper: Any,
        scales: Any,
        overrides: Any,
        integral: Any,
        starts: Any,
        terms: Any,
        columns: Any,
    ) -> Edit | None:
        """Return the edit of ``add_requests``; None without requests."""
        self.requests.check_new(ids, label)
        sizes, totals, relation, scales, overrides, integral, starts, terms, columns, usage = all_by_id(
            label, ids, sizes=sizes, totals=totals, relation=relation, scales=scales, overrides=overrides,
            integral=integral, starts=starts, terms=terms, columns=columns, usage=usage,
        )  # fmt: skip
        costs = _by_column(label, "costs", costs, ids, sizes)
        costs, upper, usage = _by_name(ids, costs, upper, usage, columns)
        cost, kinds, amounts = self._new_columns_and_rows(label, ids, (costs, sizes), totals, relation)
        widths = cost.lengths
        bound = uppers_of(label, ids, _by_column(label, "upper", upper, ids, widths), widths)
        factors = 1.0 if scales is None else scales_of(label, ids, scales)
        whole = flags_of(label, ids, integral)
        names, numbers = self._new_names(label, ids, columns, usage, widths), Numbers()
        overrides = numbers.numbered("override", ids, overrides, names)
        starts = numbers.numbered("start", ids, starts, names)
        edit = Edit(
            "add_requests",
            ids=plain(ids),
            sizes=widths,
            costs=cost,
            relation=kinds,
            totals=amounts,
            upper=_runs(widths, bound),
            scales=factors,
            overrides=None if overrides is None else entries_of(label, "override", ids, overrides, widths),
            starts=None if starts is None else entries_of(label, "start", ids, starts, widths),
            terms=None if terms is None else terms_of(label, ids, terms, widths),
            integral=whole,
            labels=ColumnNames.of(names),
        )
        if not ids:
            return None
        used, own = self._columns_of_many(label, ids, usage, widths)
        return self._minimised(edit._replace(usage=used, columns=own))

    def changed_requests(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        *,
        costs: Any,
        sizes: ArrayLike | None,
        scales: Any,
        overrides: Any,
        usage: Any,
        totals: Any,
        relation: Any,
        upper: Any,
        integral: Any,
        starts: Any,
        terms: Any,
        columns: Any,
    ) -> Edit | None:
        """Return the edit of ``update_requests``; None without requests."""
        store = self.store
        slots = self.requests.slots(ids, label)
        sizes, totals, relation, scales, overrides, integral, starts, terms, columns, usage = all_by_id(
            label, ids, sizes=sizes, totals=totals, relation=relation, scales=scales, overrides=overrides,
            integral=integral, starts=starts, terms=terms, columns=columns, usage=usage,
        )  # fmt: skip
        if self.names or usage is not None:
            names = self.names.of_many(slots) if usage is None else columns
            costs, upper, usage = _by_name(ids, costs, upper, usage, names)
        if usage is not None or columns is not None:
            new = {"usage": usage, "costs": costs, "columns": columns}
            self._check_replacement(label, ids, slots, new, upper, terms)
        cost = None
        if costs is not None or sizes is not None:
            cost = self._other_costs(label, ids, slots, (costs, sizes), new=usage is not None)
        widths = store.requests.n_columns[slots] if cost is None else cost.lengths
        given: dict[str, Any] = {}
        if cost is not None:
            given["costs"] = cost
        if usage is not None or overrides is not None or starts is not None:
            by_column = {"usage": usage, "columns": columns, "overrides": overrides, "starts": starts}
            given |= self._of_columns(label, ids, slots, by_column, widths, kept=cost is None)
        restated = terms is not KEEP and isinstance(terms, Mapping)
        if terms is not KEEP and not restated:
            given["terms"] = terms_of(label, ids, terms, widths)
        if upper is None and usage is not None and (store.requests.upper_start[slots] >= 0).any():
            given["upper"] = Runs(widths, np.repeat(usual_bounds(store, slots)[1], widths))
        elif upper is not None:
            bound = uppers_of(label, ids, _by_column(label, "upper", upper, ids, widths), widths)
            given["upper"] = _runs(widths, bound)
        if scales is not None:
            given["scales"] = scales_of(label, ids, scales)
        if totals is not KEEP or relation is not None:
            given["relation"], given["totals"] = self._changed_rows(label, ids, slots, totals, relation)
        if integral is not None:
            given["integral"] = flags_of(label, ids, integral)
        if restated and ids:
            given |= parameters_of(label, ids, terms, store.terms, slots)
        if not ids:
            return None
        if usage is not None:
            given["sizes"] = widths
            given["usage"], given["columns"] = self._columns_of_many(label, ids, usage, widths)
        return self._minimised(Edit("update_requests", slots=slots, **given))

    def price_of_moves(self, ids: Sequence[Hashable], columns: Any, prices: float | ArrayLike) -> Edit | None:
        """Return the edit of ``price_moves``: overrides that charge for leaving the given columns."""
        label, store = "price_moves", self.store
        slots = self.requests.slots(ids, label)
        columns = self._places(ids, slots, by_id(label, "columns", columns, ids))
        column = places_of(label, ids, columns, store.requests.n_columns[slots])
        price = prices_of(label, ids, _one_each(label, "prices", prices, ids))
        if not ids:
            return None
        placed = column >= 0
        slot, column = slots[placed], column[placed]
        given = np.empty(slot.size)
        for where, costs in store.executor.map(_given_costs_at, slot, column):
            given[where] = costs
        costs = store.requests.scale[slot] * given - price[placed]
        edit = Edit("update_requests", slots=slots, overrides=Entries(None, 1 * placed, column, costs))
        return edit

    def _places(self, ids: Sequence[Hashable], slots: NDArray[np.int64], columns: Any) -> Any:
        """Return one column for each request, as a number instead of a name; an array has numbers already."""
        if isinstance(columns, np.ndarray):
            return columns
        names, numbers = self.names.of_many(slots), Numbers()
        if names is None:
            return columns
        one = names[0] if len(ids) == 1 else None
        if one is not None and (columns in one or not isinstance(columns, (list, tuple))):
            columns = [columns]
        if not isinstance(columns, (list, tuple)) or len(columns) != len(ids):
            return columns
        return [
            at if own is None or at is None else numbers.find(id, "columns", own, at)
            for id, own, at in zip(ids, names, columns, strict=True)
        ]

    def _of_columns(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        slots: NDArray[np.int64],
        by_column: dict[str, Any],
        widths: NDArray[np.int64],
        *,
        kept: bool,
    ) -> dict[str, Any]:
        """Return the fields of an edit that refer to columns: names, overrides and starts."""
        given: dict[str, Any] = {}
        usage, columns, overrides, starts = by_column.values()
        names, numbers = self._old_names(slots, usage, overrides, starts), Numbers()
        if usage is not None:
            names, old = self._new_names(label, ids, columns, usage, widths), names
            given["labels"], given["kept"] = ColumnNames.of(names), _kept(names, old, widths, numbers)
        if overrides is not None:
            overrides = numbers.numbered("override", ids, overrides, names)
            given["overrides"] = self._overrides(label, ids, slots, overrides, widths, kept=kept)
        if starts is not None:
            starts = numbers.numbered("start", ids, starts, names)
            given["starts"] = entries_of(label, "start", ids, starts, widths)
        return given

    def _old_names(self, slots: NDArray[np.int64], usage: Any, *entries: Any) -> list[Names] | None:
        """Return the present names of columns if the edit needs them, else None.

        An edit with new columns, or with mappings from columns to numbers, needs them.
        """
        named = usage is not None or any(each is not None and not is_flat(each) for each in entries)
        return self.names.of_many(slots) if named else None

    def _new_names(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        columns: Any,
        usage: Any,
        widths: NDArray[np.int64],
    ) -> list[Names] | None:
        """Return the names of new columns: given names, else the names of shared columns."""
        given = labels_of(label, ids, columns, widths)
        if isinstance(usage, SharedColumns) and usage.names is None:
            return given
        handles = [usage] * len(ids) if isinstance(usage, SharedColumns) else usage
        if not isinstance(handles, (list, tuple)) or len(handles) != len(ids):
            return given
        shared = [own.names if isinstance(own, SharedColumns) else None for own in handles]
        if given is None:
            return shared if any(shared) else None
        return [common if own is None else own for own, common in zip(given, shared, strict=True)]

    def _new_columns_and_rows(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        columns: tuple[Any, ArrayLike | None],
        totals: Any,
        relation: Any,
    ) -> tuple[Runs, NDArray[np.int8] | int, NDArray[np.float64] | None]:
        """Return costs, kinds of sum rows and totals of new requests; `columns` is (costs, sizes)."""
        costs, sizes = columns
        if isinstance(relation, str):
            sound = checked_requests(len(ids), sizes, costs, totals)
            if sound is not None:
                return Runs(*sound), kind_of_row(label, relation, totals is not None), totals
        return Runs(*columns_of(label, ids, costs, sizes)), *sum_rows_of(label, ids, totals, relation)

    def _other_costs(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        slots: NDArray[np.int64],
        columns: tuple[Any, Any],
        *,
        new: bool,
    ) -> Runs:
        """Return new costs of many requests, given as (costs, sizes); ``new`` is True for new columns."""
        costs, sizes = columns
        if costs is None:
            raise EditError(label, "sizes", sizes, "must be given together with costs")
        widths = self.store.requests.n_columns[slots]
        costs = _by_column(label, "costs", costs, ids, sizes if new else widths)
        if new:
            return Runs(*columns_of(label, ids, costs, sizes))
        if sizes is not None:
            _check_widths(ids, "sizes", whole_numbers(label, "sizes", sizes, len(ids)), widths)
        if in_parts(costs) or not ids:
            parts = parts_of(ids, label, costs, None)
            _check_widths(ids, "costs", np.array([part.size for part in parts], np.int64), widths)
            return Runs(widths, parts[0] if len(parts) == 1 else np.concatenate([_NONE, *parts]))
        return Runs(widths, cost_vector(label, "costs", costs, int(widths.sum()), owner=(ids, widths)))

    def _overrides(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        slots: NDArray[np.int64],
        overrides: Any,
        widths: NDArray[np.int64],
        *,
        kept: bool,
    ) -> Entries:
        """Return overrides of requests; a kernel checks flat overrides if the columns stay (``kept``)."""
        if kept and is_flat(overrides):
            counts = whole_numbers(label, "override counts", overrides[0], len(ids))
            if checked_overrides(counts, overrides[1], overrides[2], self.store.requests, slots):
                return Entries(None, counts, overrides[1], overrides[2])
        return entries_of(label, "override", ids, overrides, widths)

    def _changed_rows(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        slots: NDArray[np.int64],
        totals: Any,
        relation: Any,
    ) -> tuple[NDArray[np.int8] | int | None, Any]:
        """Return the kinds and totals of changed sum rows.

        The kinds are None if every request has a sum row already and only totals change.
        """
        table = self.store.requests
        old = table.relation[slots]
        if relation is None and isinstance(totals, np.ndarray) and np.count_nonzero(old) == old.size:
            return None, totals_of(label, ids, totals)
        return sum_rows_of(label, ids, totals, relation, (old, table.total[slots]))

    def _check_replacement(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        slots: NDArray[np.int64],
        new: dict[str, Any],
        upper: Any,
        term: Any,
    ) -> None:
        """Raise EditError if an edit replaces columns and does not give all data that depend on them.

        These data are the costs, upper bounds that differ between columns, and the image of a convex term.
        """
        store, costs, names = self.store, new["costs"], new["columns"]
        if new["usage"] is None:
            if names is not None:
                raise EditError(label, "columns", names, "must be given together with usage")
            return
        if costs is None:
            raise EditError(label, "costs", costs, "must be given together with a new usage")
        if upper is None and not (usual := usual_bounds(store, slots))[0].all():
            why = "differs between the columns and must be given again with a new usage"
            raise EditError(ids[int(usual[0].argmin())], "upper", None, why)
        if store.terms and (term is KEEP or isinstance(term, Mapping)):
            for id, slot in zip(ids, slots.tolist(), strict=True):
                if slot in store.terms:
                    why = "has an image for the old columns and must be given again with a new usage"
                    raise EditError(id, "term", term, why)

    # ---- columns ----------------------------------------------------------------------------------------

    def _columns_of_many(
        self, label: Hashable, ids: Sequence[Hashable], usage: Any, widths: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64] | int, EditedColumns | None]:
        """Return the slots of shared columns, one for all requests or one each, and the columns of their own.

        The slot of a request with columns of its own is OWN.
        """
        if isinstance(usage, SharedColumns):
            return self._shared_slot(label, ids, usage, widths), None
        if isinstance(usage, (list, tuple)) and len(usage) == len(ids):
            return self._columns_each(ids, usage, widths)
        columns = from_matrix(label, usage, (len(self.resources), int(widths.sum())))
        return OWN, EditedColumns(widths, *self._by_slot(columns))

    def _columns_each(
        self, ids: Sequence[Hashable], usages: Sequence[Usage], widths: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64] | int, EditedColumns | None]:
        slots, own = [OWN] * len(ids), []
        for k, (id, usage, n) in enumerate(zip(ids, usages, widths.tolist(), strict=True)):
            if isinstance(usage, SharedColumns):
                slots[k] = self._shared_slot(id, [id], usage, widths[k : k + 1])
            else:
                own.append(self.compressed(id, usage, n))
        if len(own) == len(ids):
            return OWN, EditedColumns(widths, *joined(own))
        each = np.array(slots, np.int64)
        return each, EditedColumns(np.where(each == OWN, widths, 0), *joined(own)) if own else None

    def _shared_slot(
        self,
        subject: Hashable,
        ids: Sequence[Hashable],
        shared: SharedColumns,
        widths: NDArray[np.int64],
    ) -> int:
        self.shared_columns.check(subject, shared)
        if not all_are(widths, shared.n_columns):
            wrong = int((widths != shared.n_columns).argmax())
            why = f"must have {shared.n_columns} entries, one for each of its shared columns"
            raise EditError(ids[wrong], "costs", int(widths[wrong]), why)
        return shared.slot

    def compressed(self, subject: Hashable, usage: Any, n: int) -> Compressed:
        """Return the n columns of a mapping or a matrix, with slots as rows."""
        if not hasattr(usage, "tocsc"):
            return from_mapping(subject, usage, n, self.resources)
        return self._by_slot(from_matrix(subject, usage, (len(self.resources), n)))

    def _by_slot(self, columns: Compressed) -> Compressed:
        """Replace the rows of columns, positions among the resources, with slots."""
        slots = self.resources.all_slots
        if np.array_equal(slots, np.arange(slots.size)):
            return columns
        return columns._replace(row=slots[columns.row].astype(np.int32))


def _kept(
    new: Sequence[Names] | None, old: Sequence[Names] | None, widths: NDArray[np.int64], numbers: Numbers
) -> Runs | None:
    """Return, for each new column, the number of the old column with the same name, or -1."""
    if new is None or old is None:
        return None
    found: list[int] = []
    known: dict[tuple[int, int], list[int]] = {}  # by pairs of name tuples, which many requests share
    for n, names, earlier in zip(widths.tolist(), new, old, strict=True):
        if names is None or earlier is None:
            found += [-1] * n
            continue
        pair = id(names), id(earlier)
        if pair not in known:
            number = numbers.of(earlier)
            known[pair] = list(map(number.get, names, repeat(-1)))
        found += known[pair]
    kept = np.array(found, np.int64)
    return Runs(widths, kept) if (kept >= 0).any() else None


def usual_bounds(
    store: ConstraintStore, slots: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which requests have the same upper bound for all columns, and this bound (else infinity)."""
    table = store.requests
    if (table.upper_start[slots] < 0).all():
        return np.ones(slots.size, np.bool_), table.upper[slots]
    widths = table.n_columns[slots]
    bounds, begin = upper_bounds(store, slots), widths.cumsum() - widths
    low, high = np.minimum.reduceat(bounds, begin), np.maximum.reduceat(bounds, begin)
    return low == high, np.where(low == high, high, np.inf)


def _given_costs_at(
    part: Part, slot: NDArray[np.int64], column: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the positions of the columns that are in a part, and their costs without scale and overrides."""
    where = np.flatnonzero(slot % part.of == part.number)
    store, q, column = part.store, part.local(slot[where]), column[where]
    table, overrides = store.requests, store.overrides
    costs = store.costs.cost[table.cost_start[q] + column].astype(np.float64)
    written = np.flatnonzero(table.override_length[q] > 0)  # an override is written over the cost
    counts = table.override_length[q[written]]
    entry = slice_indices(table.override_start[q[written]], counts)
    same = overrides.column[entry] == np.repeat(column[written], counts)
    costs[np.repeat(written, counts)[same]] = overrides.original[entry[same]]
    return where, costs


def _runs(widths: NDArray[np.int64], bound: float | NDArray[np.float64]) -> float | Runs:
    """Return one upper bound for all columns, or a run of bounds for each request."""
    return Runs(widths, bound) if isinstance(bound, np.ndarray) else bound


def _by_name(ids: Sequence[Hashable], costs: Any, upper: Any, usage: Any, names: Any) -> list[Any]:
    """Return costs, bounds and usage with each Series that one request has in the order of its column names.

    `names` has the names of each request or None. Without names, new columns have those of shared columns.
    """
    given = [costs, upper, usage]
    if names is None and isinstance(usage, (list, tuple, SharedColumns)):
        each = [usage] * len(ids) if isinstance(usage, SharedColumns) else usage
        names = [own.names if isinstance(own, SharedColumns) else None for own in each]
    if not isinstance(names, (list, tuple)) or len(names) != len(ids) or all(own is None for own in names):
        return given
    for k, field in enumerate(("costs", "upper", "usage")):
        if isinstance(given[k], (list, tuple)) and len(given[k]) == len(ids):
            given[k] = [by_name(id, field, *own) for id, *own in zip(ids, given[k], names, strict=True)]
    return given


def _by_column(label: Hashable, field: str, given: Any, ids: Sequence[Hashable], sizes: Any) -> Any:
    """Return the values of a Series, which has one value for each id or one for each column."""
    if not is_series(given) or sizes is None or len(given) == len(ids):
        return by_id(label, field, given, ids)
    return runs_by_id(label, field, given, ids, sizes)


def _check_widths(
    ids: Sequence[Hashable], field: str, given: NDArray[np.int64], widths: NDArray[np.int64]
) -> None:
    wrong = given != widths
    if wrong.any():
        where = int(wrong.argmax())
        why = f"must be {int(widths[where])}, the number of columns of the request; or give a new usage too"
        raise EditError(ids[where], field, int(given[where]), why)


def _one_each(label: Hashable, field: str, given: Any, ids: Sequence[Hashable]) -> Any:
    if is_vector(given):
        return by_id(label, field, given, ids)
    return np.full(len(ids), number(ids[0] if len(ids) == 1 else label, field, given))
