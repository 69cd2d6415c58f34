"""Parser of the arguments of edit methods into one edit (:class:`copter.store.edit.Edit`).

The parser checks all arguments and does not change the program. Only when the edit is applied, a further
check rejects it if a column would have no bound (:mod:`copter.program.bounded`). An invalid argument raises
an EditError that names the request or resource, the field and the value.
"""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import EditError
from copter.program.fields import FIELDS
from copter.program.forms import KEEP, columns_of, in_parts, is_flat, parts_of, sum_rows_of
from copter.program.handles import SharedColumns
from copter.program.names import Names, Numbers, labels_of, names_of, numbered
from copter.program.sense import in_sense
from copter.program.series import all_by_id, by_id, by_name, is_series, plain, runs_by_id
from copter.program.usage import Compressed, Usage, from_mapping, from_matrix, joined
from copter.program.validation import (
    all_are,
    cost_vector,
    is_vector,
    moved_bounds,
    number,
    parameters_of,
    places_of,
    prices_of,
    row_bounds_of,
    whole_number,
    whole_numbers,
)
from copter.store.edit import OWN, ColumnNames, Edit, EditedColumns, Entries, Runs
from copter.store.executor import Part
from copter.store.reading import upper_bounds
from copter.store.slabs import slice_indices
from copter.store.store import ConstraintStore

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_NONE, _NO_SLOTS = np.empty(0), np.empty(0, np.int64)


class Parser:
    """Parser of the arguments of a program's edit methods into edits.

    Costs in edits are to be minimised, whatever the sense of the program.
    """

    __slots__ = ("names", "requests", "resources", "sense", "shared_columns", "store")

    def __init__(self, program: ContinualProgram) -> None:
        self.store, self.sense = program.store, program.sense
        self.resources, self.requests = program._resources, program._requests
        self.shared_columns, self.names = program._templates, program._names

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

    def resources_edit(
        self, new: bool, label: Hashable, ids: Sequence[Hashable], given: dict[str, Any]
    ) -> Edit | None:
        """Return the edit of new resources or of an update; None without new resources.

        `given` has the arguments that are set. An error that concerns no single row names `label`.
        """
        slots, old = _NO_SLOTS, (_NONE, _NONE)
        if new:
            self.resources.check_new(ids, label)
        else:
            slots = self.resources.slots(ids, label)
            old = self.store.rows.lower[slots], self.store.rows.upper[slots]
        each = {field: _one_each(label, field, value, ids) for field, value in given.items()}
        if "by" in given:
            if "upper" in given:
                why = "must not be given together with upper; give one of them"
                raise EditError(label, "by", given["by"], why)
            each["upper"] = moved_bounds(label, ids, each["by"], old)
        low, high = row_bounds_of(label, ids, (each.get("lower"), each.get("upper")), old)
        if not new:
            return Edit("update_resources", slots=slots, lower=low, upper=high)
        return Edit("add_resources", ids=plain(ids), lower=low, upper=high) if ids else None

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

    def requests_edit(
        self, new: bool, label: Hashable, ids: Sequence[Hashable], given: dict[str, Any]
    ) -> Edit | None:
        """Return the edit of new requests or of an update; None without requests.

        `given` has the arguments that are set. Errors that concern no single request name `label`.
        """
        slots, table = _NO_SLOTS, self.store.requests
        if new:
            self.requests.check_new(ids, label)
            given.setdefault("scales", 1.0)
        else:
            slots = self.requests.slots(ids, label)
        given = all_by_id(label, ids, given)
        replaced = new or "usage" in given
        names = old_names = self.names.of_many(slots)
        if replaced or names:
            _order_by_name(ids, given, given.get("columns") if replaced else names)
        edit: dict[str, Any] = {}
        if not new:
            self._complete(label, ids, slots, given)
            if isinstance(given.get("terms"), Mapping):
                edit = parameters_of(label, ids, given.pop("terms"), self.store.terms, slots)
        cost = self._costs(label, ids, slots, given, replaced)
        if cost is not None:
            edit["costs"] = cost
        widths = table.n_columns[slots] if cost is None else cost.lengths
        if new or "totals" in given or "relation" in given:
            old = None if new else (table, slots)
            totals = given.get("totals", None if new else KEEP)
            edit["exact"], edit["totals"] = sum_rows_of(label, ids, totals, given.get("relation"), old)
        if "upper" in given:
            given["upper"] = _by_column(label, "upper", given["upper"], ids, widths)
        if replaced:
            names = self._new_names(label, ids, given.get("columns"), given["usage"], widths)
            edit["labels"], edit["kept"] = ColumnNames.of(names), _kept(names, old_names, widths)
        for name, value in given.items():
            field = FIELDS["request"][name]
            if name in ("overrides", "starts") and not is_flat(value):
                value = numbered(field.one, ids, value, names)
            if field.read is not None:
                edit[name] = field.read(label, ids, value, widths)
        if not ids:
            return None
        if replaced:
            edit["sizes"] = widths
            edit["usage"], edit["columns"] = self._columns_of_many(label, ids, given["usage"], widths)
        if new:
            return self._minimised(Edit("add_requests", ids=plain(ids), **edit))
        return self._minimised(Edit("update_requests", slots=slots, **edit))

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

    def _costs(
        self,
        label: Hashable,
        ids: Sequence[Hashable],
        slots: NDArray[np.int64],
        given: Mapping[str, Any],
        replaced: bool,
    ) -> Runs | None:
        """Return the costs of new columns (`replaced`), or new costs of the present columns, or None."""
        costs, sizes = given.get("costs"), given.get("sizes")
        if replaced:
            costs = _by_column(label, "costs", costs, ids, sizes)
            return Runs(*columns_of(label, ids, costs, sizes))
        if "costs" not in given:
            if sizes is not None:
                raise EditError(label, "sizes", sizes, "must be given together with costs")
            return None
        widths = self.store.requests.n_columns[slots]
        costs = _by_column(label, "costs", costs, ids, widths)
        if sizes is not None:
            _check_widths(ids, "sizes", whole_numbers(label, "sizes", sizes, len(ids)), widths)
        if in_parts(costs) or not ids:
            parts = parts_of(ids, label, costs, None)
            _check_widths(ids, "costs", np.array([part.size for part in parts], np.int64), widths)
            return Runs(widths, parts[0] if len(parts) == 1 else np.concatenate([_NONE, *parts]))
        return Runs(widths, cost_vector(label, "costs", costs, int(widths.sum()), owner=(ids, widths)))

    def _complete(
        self, label: Hashable, ids: Sequence[Hashable], slots: NDArray[np.int64], given: dict[str, Any]
    ) -> None:
        """Raise EditError if an edit replaces columns and does not give all data that depend on them.

        These data are the costs, upper bounds that differ between columns, and the image of a convex term. If
        the upper bounds are equal for all columns of a request, its new columns get the same bound.
        """
        store, term = self.store, given.get("terms", KEEP)
        if "usage" not in given:
            if "columns" in given:
                raise EditError(label, "columns", given["columns"], "must be given together with usage")
            return
        if "costs" not in given:
            raise EditError(label, "costs", None, "must be given together with a new usage")
        if "upper" not in given and (store.requests.upper_start[slots] >= 0).any():
            one, bound = usual_bounds(store, slots)
            if not one.all():
                why = "differs between the columns and must be given again with a new usage"
                raise EditError(ids[int(one.argmin())], "upper", None, why)
            given["upper"] = bound.tolist()
        if store.terms and (term is KEEP or isinstance(term, Mapping)):
            for id, slot in zip(ids, slots.tolist(), strict=True):
                if slot in store.terms:
                    why = "has an image for the old columns and must be given again with a new usage"
                    raise EditError(id, "term", term, why)

    # ---- columns ----------------------------------------------------------------------------------------

    def _columns_of_many(
        self, label: Hashable, ids: Sequence[Hashable], usage: Any, widths: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64] | int, EditedColumns | None]:
        """Return the slot of shared columns, for all requests or for each, and the columns not shared.

        The slot is OWN for a request whose columns are not shared.
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


def _kept(new: Sequence[Names] | None, old: Sequence[Names] | None, widths: NDArray[np.int64]) -> Runs | None:
    """Return, for each new column, the number of the old column with the same name, or -1."""
    if new is None or old is None:
        return None
    found: list[int] = []
    numbers = Numbers()
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


def _order_by_name(ids: Sequence[Hashable], given: dict[str, Any], names: Any) -> None:
    """Put each Series of costs, bounds or usage of one request in the order of its column names.

    `names` has the column names of each request. If it is None, new columns have the names of the shared
    columns that they use.
    """
    usage = given.get("usage")
    if names is None and isinstance(usage, SharedColumns):
        names = None if usage.names is None else [usage.names] * len(ids)
    elif names is None and isinstance(usage, (list, tuple)):
        names = [own.names if isinstance(own, SharedColumns) else None for own in usage]
    if not isinstance(names, (list, tuple)) or len(names) != len(ids) or all(own is None for own in names):
        return
    for field in ("costs", "upper", "usage"):
        values = given.get(field)
        if isinstance(values, (list, tuple)) and len(values) == len(ids):
            given[field] = [by_name(id, field, *own) for id, *own in zip(ids, values, names, strict=True)]


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
