"""SpreadStore: the store of a program whose requests are spread over places; the half that edits.

Rows, the table of requests and terms are here, so whoever validates an edit or asks for a number of a request
finds it at once.  Costs, entries, upper bounds of single columns, overrides and shared vectors are not kept:
an edit writes the tables and is put down in a log (:mod:`copter.store.edit_log`), which goes to the parts
before the next that is asked of them, or earlier when it is long.  So edits cost no round trip, and those of
a round are made together.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.store.costs import CostsOfVectors
from copter.store.edit_log import edit_of_all, edit_of_requests
from copter.store.executor import Part
from copter.store.far import FarColumns
from copter.store.runs import Runs
from copter.store.slabs import places as places_of
from copter.store.store import NO_TOTAL

if TYPE_CHECKING:
    from copter.terms.convex import ConvexTerm

_MUCH = 1 << 20
"""Columns of a part for which room is not made without asking."""
_OWN = -1
"""Stands for a usage that is a request's own: only its part has it."""
_FIRST_OWN = -2
"""What new usages of their own are called, from here down, until their requests are there."""


class SpreadStore(FarColumns):
    """Tables of a program whose columns are elsewhere, and their edits."""

    _new_usages: Mapping[str, Any] = MappingProxyType({})

    def _for_all(self, verb: str, **fields: Any) -> None:
        self.executor.log(edit_of_all(verb, self.clock, **fields), np.empty(0, np.int64))

    def _for_requests(self, verb: str, slots: NDArray[np.int64], **fields: Any) -> None:
        """Put an edit of some requests down; before the clock moves on."""
        if slots.size:
            fields["slots"] = slots // self.parts
            self.executor.log(edit_of_requests(verb, self.clock, slots, self.parts, fields), slots)

    # ---- rows ----------------------------------------------------------------------------------

    def add_rows(
        self, count: int, lower: NDArray[np.float64] | float, upper: NDArray[np.float64] | float
    ) -> NDArray[np.int64]:
        """New resource rows, in the parts too; returns their slots.

        Parameters
        ----------
        lower, upper : (count,) ndarray or float
        """
        self._for_all("add_rows", count=count, lower=lower, upper=upper)
        return super().add_rows(count, lower, upper)

    def set_row(self, slot: int, lower: float, upper: float) -> None:
        """New bounds for a row."""
        self.set_rows(np.array([slot]), np.array([lower]), np.array([upper]))

    def set_rows(
        self, slots: NDArray[np.int64], lower: NDArray[np.float64], upper: NDArray[np.float64]
    ) -> None:
        """New bounds for many rows.

        Parameters
        ----------
        slots, lower, upper : (k,) ndarrays
        """
        self._for_all("set_rows", slots=slots, lower=lower, upper=upper)
        super().set_rows(slots, lower, upper)

    def drop_row(self, slot: int) -> None:
        """Forget a row."""
        self._for_all("drop_row", slot=slot)
        super().drop_row(slot)

    def _purge_rows(self) -> None:
        self.rows.free(np.array(self._dropped_rows, np.int64))
        self._dropped_rows = []

    # ---- usages and vectors --------------------------------------------------------------------

    def add_usages(
        self,
        sizes: NDArray[np.int64],
        pointer: NDArray[Any],
        row: NDArray[Any],
        value: NDArray[Any],
        *,
        row_slots: NDArray[np.int64] | None = None,
        shared: bool = False,
    ) -> NDArray[np.int64]:
        """Usages of requests that are added next, or one that all parts share.

        Parameters
        ----------
        sizes : (k,) ndarray
            Columns of each.
        pointer, row, value : ndarrays
            Their columns, compressed.
        row_slots : (rows,) ndarray, optional
            Slots of the rows that ``row`` names.
        """
        begin, end = int(pointer[0]), int(pointer[-1])
        row = row[begin:end] if row_slots is None else row_slots[row[begin:end]]
        row, value = row.astype(np.int32), value[begin:end]
        if shared:
            slot = self.usages.allocate(1)
            self.usages.n_columns[slot], self.usages.shared[slot] = sizes, True
            fields = {"pointer": np.asarray(pointer) - begin, "row": row, "value": value}
            self._for_all("add_shared_columns", slot=int(slot[0]), width=int(sizes[0]), **fields)
            return slot
        self._new_usages = {"sizes": sizes, "counts": np.diff(pointer), "row": row, "value": value}
        return _FIRST_OWN - np.arange(sizes.size)

    def drop_usage(self, slot: int) -> None:
        """Forget the handle of a shared usage; requests that use it keep it."""
        self._for_all("drop_shared_columns", slot=slot)
        self.usages.shared[slot] = False
        self._count_usages(np.array([slot]), 0)

    def _count_usages(self, slots: NDArray[np.int64], more: int) -> None:
        """Count ``more`` requests for each shared usage; those that nothing points at go."""
        slots = slots[slots >= 0]
        table = self.usages
        np.add.at(table.references, slots, more)
        if more <= 0:
            found = np.unique(slots)
            unused = found[(table.references[found] == 0) & ~table.shared[found]]
            if unused.size:
                table.free(unused)

    def add_vector(self, costs: NDArray[np.float64]) -> int:
        """Costs that requests can point at, in all parts."""
        slot = int(self.vectors.allocate(1)[0])
        self.vectors.n_columns[slot], self.vectors.shared[slot] = costs.size, True
        self._for_all("add_vector", slot=slot, costs=costs)
        return slot

    def drop_vector(self, slot: int) -> None:
        """Forget the handle of a vector; requests that use it keep it."""
        self._for_all("drop_vector", slot=slot)
        super().drop_vector(slot)

    def _free_vectors(self, slots: list[int]) -> None:
        table = self.vectors
        for slot in slots:
            if not table.references[slot] and not table.shared[slot]:
                table.free(np.array([slot]))

    def reserve(self, columns: int) -> None:
        """Room for so many columns, in all parts together."""
        most = -(-columns // self.parts)
        if most > _MUCH:
            self.executor.map(_reserve, most)  # there may be no memory for it: whoever asked is told
        else:
            self._for_all("reserve", columns=most)

    # ---- requests ------------------------------------------------------------------------------

    def add_requests(
        self,
        sizes: NDArray[np.int64],
        usages: NDArray[np.int64] | int,
        costs: NDArray[np.float64] | CostsOfVectors,
        *,
        relation: NDArray[np.int8] | int = NO_TOTAL,
        totals: NDArray[np.float64] | None = None,
        scales: NDArray[np.float64] | float = 1.0,
        upper: NDArray[np.float64] | float = np.inf,
        integral: NDArray[np.bool_] | bool = False,
    ) -> NDArray[np.int64]:
        """New requests; their columns go to the parts.  See :meth:`ConstraintStore.add_requests`.

        Parameters
        ----------
        sizes, usages, costs
            As there; a usage that is a request's own is what :meth:`add_usages` called it.
        relation, totals, scales, upper, integral
            As there.
        """
        table = self.requests
        slots = table.allocate(sizes.size)
        where, own = places_of(slots), isinstance(upper, np.ndarray)
        self._log_columns(
            "add_requests",
            slots,
            sizes,
            usages,
            costs if isinstance(costs, CostsOfVectors) else Runs(sizes, costs),
            relation=relation,
            totals=totals,
            scales=scales,
            upper=Runs(sizes, upper) if isinstance(upper, np.ndarray) else upper,
            integral=integral,
        )
        self.clock += 1
        self._write_columns(where, slots, sizes, usages, costs)
        table.relation[where], table.scale[where], table.integral[where] = relation, scales, integral
        if totals is not None:
            table.total[where] = np.where(np.asarray(relation) == NO_TOTAL, np.inf, totals)
        if own:
            table.upper_start[where] = 0
        else:
            table.upper[where] = upper
        self.n_variables += int(sizes.sum())
        return slots

    def _log_columns(
        self,
        verb: str,
        slots: NDArray[np.int64],
        sizes: NDArray[np.int64],
        usages: NDArray[np.int64] | int,
        costs: CostsOfVectors | Runs,
        **fields: Any,
    ) -> None:
        shared = isinstance(costs, CostsOfVectors)
        fields |= {"sizes": sizes, "usage": usages, "costs": None if shared else costs}
        fields["vectors"] = costs.slots if isinstance(costs, CostsOfVectors) else None
        if isinstance(usages, np.ndarray) and usages.size and usages.min() < 0:
            fields |= self._own_usages(sizes, usages)
        self._for_requests(verb, slots, **fields)

    def _own_usages(self, sizes: NDArray[np.int64], usages: NDArray[np.int64]) -> dict[str, Any]:
        """Fields of new requests' own usages; those of requests that share one are empty."""
        new = self._new_usages
        own = usages < 0
        widths, entries = np.where(own, sizes, 0), np.zeros(sizes.size, np.int64)
        ends = np.concatenate(([0], np.cumsum(new["counts"], dtype=np.int64)))[np.cumsum(new["sizes"])]
        entries[own] = np.diff(ends, prepend=0)
        runs = {"row": Runs(entries, new["row"]), "value": Runs(entries, new["value"])}
        return {"counts": Runs(widths, new["counts"]), "usage": np.where(own, _OWN, usages), **runs}

    def _write_columns(
        self,
        where: NDArray[np.int64] | slice,
        slots: NDArray[np.int64],
        sizes: NDArray[np.int64],
        usages: NDArray[np.int64] | int,
        costs: Any,
    ) -> None:
        table = self.requests
        named = np.maximum(usages, _OWN)
        table.n_columns[where], table.usage[where] = sizes, named
        table.birth[where] = table.cost_stamp[where] = table.bound_stamp[where] = self.clock
        self._count_usages(np.broadcast_to(named, sizes.shape), 1)
        if isinstance(costs, CostsOfVectors):
            table.vector[where] = costs.slots
            np.add.at(self.vectors.references, costs.slots, 1)

    def remove_requests(self, slots: NDArray[np.int64]) -> None:
        """Forget requests."""
        if not slots.size:
            return
        self._for_requests("remove_requests", slots)
        self.clock += 1
        if self.terms:
            self.terms.drop(slots.tolist())
        self._let_go(slots)
        self.requests.free(slots)

    def _let_go(self, slots: NDArray[np.int64]) -> None:
        """Count columns, usages and vectors of requests less."""
        table = self.requests
        self.n_variables -= int(table.n_columns[slots].sum())
        self._count_usages(table.usage[slots], -1)
        vectors = table.vector[slots]
        if self.vectors.size:
            self._release_vectors(vectors[vectors >= 0])

    def replace_columns(
        self,
        slots: NDArray[np.int64],
        usages: NDArray[np.int64],
        costs: list[NDArray[np.float64]] | CostsOfVectors,
    ) -> None:
        """Give requests other columns; their scales, sum rows and scalar bounds stay.

        Parameters
        ----------
        slots, usages : (k,) ndarrays
        costs : list of k ndarrays, or vectors
        """
        new = costs if isinstance(costs, CostsOfVectors) else _runs(costs)
        sizes = new.sizes if isinstance(new, CostsOfVectors) else new.lengths
        self._log_columns("replace_columns", slots, sizes, usages, new)
        self.clock += 1
        self._let_go(slots)
        table = self.requests
        table.vector[slots], table.upper_start[slots], table.override_length[slots] = -1, -1, 0
        self._write_columns(slots, slots, sizes, usages, costs)
        self.n_variables += int(sizes.sum())

    def set_term(self, slot: int, term: tuple[ConvexTerm, NDArray[np.float64]] | None) -> None:
        """Give a request a convex term with its image, or take it away."""
        given = None if term is None else (term[0], term[1].copy())
        self._for_requests("set_term", np.array([slot]), term=given)
        super().set_term(slot, term)

    def restate_terms(
        self, slots: NDArray[np.int64], kind: int, parameters: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """New parameters for terms of one kind; their images stay.

        Parameters
        ----------
        slots : (k,) ndarray
        parameters : mapping of str to (k,) ndarray
        """
        values = np.column_stack([np.broadcast_to(each, slots.shape) for each in parameters.values()])
        named = {"kind": self.terms.kinds[kind], "names": tuple(parameters)}
        self._for_requests("restate_terms", slots, values=values, **named)
        super().restate_terms(slots, kind, parameters)

    def set_totals(self, slots: NDArray[np.int64], totals: NDArray[np.float64]) -> None:
        """New totals for many requests that have a sum row."""
        self._for_requests("set_totals", slots, totals=totals)
        super().set_totals(slots, totals)

    def set_sum_rows(
        self, slots: NDArray[np.int64], relations: NDArray[np.int8] | int, totals: NDArray[np.float64] | float
    ) -> None:
        """New sum rows, or none, for many requests.

        Parameters
        ----------
        slots : (k,) ndarray
        relations, totals : (k,) ndarray, or one for all
        """
        self._for_requests("set_sum_rows", slots, relations=relations, totals=totals)
        super().set_sum_rows(slots, relations, totals)

    def set_integral(self, slots: NDArray[np.int64], integral: NDArray[np.bool_] | bool) -> None:
        """Whether an integral allocation is wanted, for many requests."""
        self._for_requests("set_integral", slots, integral=integral)
        super().set_integral(slots, integral)

    def set_uppers(self, slots: NDArray[np.int64], upper: float | NDArray[np.float64]) -> None:
        """New upper bounds of all columns of many requests, one each or one for all."""
        own, table = isinstance(upper, np.ndarray), self.requests
        runs = Runs(table.n_columns[slots], upper) if isinstance(upper, np.ndarray) else upper
        self._for_requests("set_uppers", slots, upper=runs)
        self.clock += 1
        table.upper_start[slots] = 0 if own else -1
        table.upper[slots], table.bound_stamp[slots] = np.inf if own else upper, self.clock

    # ---- costs of requests ---------------------------------------------------------------------

    def set_costs(self, slots: list[int], costs: list[NDArray[np.float64]]) -> None:
        """New costs for all columns of some requests; their overrides keep their values."""
        which = np.array(slots, np.int64)
        self._for_requests("set_costs", which, costs=_runs(costs))
        self.clock += 1
        table = self.requests
        shared = which[table.vector[which] >= 0]
        if shared.size:
            vectors = table.vector[shared]
            table.vector[shared] = -1
            self._release_vectors(vectors)
        table.cost_stamp[which] = self.clock

    def set_vectors(self, slots: NDArray[np.int64], vectors: NDArray[np.int64]) -> None:
        """Let requests point at vectors of as many columns; their overrides keep their values."""
        self._for_requests("set_vectors", slots, vectors=vectors)
        self.clock += 1
        table = self.requests
        np.add.at(self.vectors.references, vectors, 1)
        old = table.vector[slots]
        table.vector[slots], table.cost_stamp[slots] = vectors, self.clock
        self._release_vectors(old[old >= 0])

    def set_scales(self, slots: NDArray[np.int64], scales: NDArray[np.float64]) -> None:
        """New scale for many requests; their overrides keep their values."""
        self._for_requests("set_scales", slots, scales=scales)
        self.clock += 1
        self.requests.scale[slots], self.requests.cost_stamp[slots] = scales, self.clock

    def set_overrides(
        self,
        slots: NDArray[np.int64],
        lengths: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: NDArray[np.float64],
        scales: NDArray[np.float64] | None = None,
    ) -> None:
        """Replace the overrides of many requests and, if given, their scales.

        Parameters
        ----------
        slots, lengths : (k,) ndarrays
        columns, values : (sum(lengths),) ndarrays
        scales : (k,) ndarray, optional
        """
        patch = {"columns": Runs(lengths, columns), "values": Runs(lengths, values)}
        self._for_requests("set_overrides", slots, scales=scales, **patch)
        self.clock += 1
        table = self.requests
        table.override_length[slots], table.cost_stamp[slots] = lengths, self.clock
        if scales is not None:
            table.scale[slots] = scales


def _runs(arrays: list[NDArray[np.float64]]) -> Runs:
    lengths = np.array([each.size for each in arrays], np.int64)
    return Runs(lengths, np.concatenate([np.empty(0), *arrays]))


def _reserve(part: Part, columns: int) -> None:
    part.store.costs.reserve(columns)
