"""Columns that requests use: templates, which many of them share, and the usages that are a request's own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.program.handles import Template
from copter.program.queries import Queries
from copter.program.usage import Compressed, Usage, from_mapping, from_matrix, joined
from copter.program.validation import all_are, number, whole_number


class Columns(Queries):
    """The usages of a program, its requests' columns in the resource rows."""

    def add_template(self, usage: Mapping[Any, Any], n_columns: int) -> Template:
        """Columns that many requests will share.

        Parameters
        ----------
        usage : mapping of resource id to coefficients
            As in :meth:`add_request`.
        n_columns : int
            Number of columns.

        Raises
        ------
        EditError
            Unknown resource, wrong length or number.
        """
        n_columns = whole_number("template", "n_columns", n_columns)
        columns = self._compressed("template", usage, n_columns)
        slot = int(self.store.add_usages(np.array([n_columns]), *columns, shared=True)[0])
        return self._templates.make(slot, n_columns, self.store.tick())

    def drop_template(self, template: Template) -> None:
        """Forget a template; requests that use it keep their columns."""
        self._templates.check("template", template)
        del self._templates[template.slot]
        self.store.drop_usage(template.slot)

    def reserve(self, columns: int) -> None:
        """Make room for the costs of so many columns that are to be added.

        Adding them is then quicker, and takes no memory besides: a pool that grows is copied.  It changes
        nothing else.

        Parameters
        ----------
        columns : int
            Not negative.

        Raises
        ------
        EditError
            It is no such number, or more than there is memory for; nothing has changed.
        """
        given = number("reserve", "columns", columns)
        if not (given >= 0 and given == np.floor(given) and np.isfinite(given)):
            raise EditError("reserve", "columns", columns, "must be a whole number, not negative")
        try:
            self.store.reserve(int(given))
        except (MemoryError, ValueError):  # numpy's, of an array that no machine can address
            why = "is more than there is memory for"
            raise EditError("reserve", "columns", columns, why) from None

    # ---- inside ----------------------------------------------------------------------------------

    def _usage_slot(self, id: Hashable, usage: Usage, n: int) -> NDArray[np.int64] | int:
        """Slot of the usage of one request's new columns."""
        if isinstance(usage, Template):
            return self._template_slot(id, [id], usage, np.array([n]))
        return self.store.add_usages(np.array([n]), *self._compressed(id, usage, n))

    def _usage_slots(
        self, label: str, ids: Sequence[Hashable], usage: Any, widths: NDArray[np.int64]
    ) -> NDArray[np.int64] | int:
        """Slots of the usages of many requests' new columns: one for all, or one each."""
        if isinstance(usage, Template):
            return self._template_slot(label, ids, usage, widths)
        if isinstance(usage, (list, tuple)) and len(usage) == len(ids):
            return self._usages_each(ids, usage, widths)
        columns = from_matrix(label, usage, (len(self._resources), int(widths.sum())))
        return self.store.add_usages(widths, *columns, row_slots=self.resource_slots)

    def _template_slot(
        self, subject: Hashable, ids: Sequence[Hashable], template: Template, widths: NDArray[np.int64]
    ) -> int:
        self._templates.check(subject, template)
        if not all_are(widths, template.n_columns):
            wrong = int((widths != template.n_columns).argmax())
            why = f"the template has {template.n_columns} columns"
            raise EditError(ids[wrong], "costs", int(widths[wrong]), why)
        return template.slot

    def _usages_each(
        self, ids: Sequence[Hashable], usages: Sequence[Usage], widths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Slots of usages that are given one a request, all checked before any is added."""
        slots, own, columns = np.empty(len(ids), np.int64), [], []
        for k, (id, usage, n) in enumerate(zip(ids, usages, widths.tolist(), strict=True)):
            if isinstance(usage, Template):
                slots[k] = self._template_slot(id, [id], usage, widths[k : k + 1])
            else:
                own.append(k)
                columns.append(self._compressed(id, usage, n))
        if own:
            slots[own] = self.store.add_usages(widths[own], *joined(columns))
        return slots

    def _compressed(self, subject: Hashable, usage: Any, n: int) -> Compressed:
        """The n columns that a mapping or a matrix stands for; rows are slots."""
        if not hasattr(usage, "tocsc"):
            return from_mapping(subject, usage, n, self._resources)
        columns = from_matrix(subject, usage, (len(self._resources), n))
        return columns._replace(row=self.resource_slots[columns.row].astype(np.int32))
