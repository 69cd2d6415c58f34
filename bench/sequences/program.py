"""Linear program with named columns and rows that logs its edits, one list a round.

Names are ``c0``, ``c1``, ... and ``r0``, ``r1``, ... in the order of addition; a number is never used again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from copter.models.general_lp import GeneralLP

Bounds = tuple[float, float]
"""Lower and upper bound of a column, or lower and upper side of a row; infinite without one."""


@dataclass
class Row:
    """Row: sides, and entries by name of the column."""

    sides: Bounds
    entries: dict[str, float] = field(default_factory=dict)


@dataclass
class Column:
    """Column: cost, bounds, and entries by name of the row."""

    cost: float
    bounds: Bounds
    entries: dict[str, float] = field(default_factory=dict)


@dataclass
class Edits:
    """Edits of one round, in the order in which a reader applies them.

    The entries of an added row are in columns that exist before the round's new columns. The entries of an
    added column are in any rows.
    """

    remove_columns: list[str] = field(default_factory=list)
    remove_rows: list[str] = field(default_factory=list)
    costs: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, Bounds] = field(default_factory=dict)
    sides: dict[str, Bounds] = field(default_factory=dict)
    add_rows: dict[str, Row] = field(default_factory=dict)
    add_columns: dict[str, Column] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Return the number of edits of each kind."""
        return {name: len(edits) for name, edits in vars(self).items()}


class SequenceProgram:
    """Linear program, to be minimised, whose edits since the last :meth:`take` are logged.

    An entry never changes: a column whose entries change is removed, and added with a new name.

    Attributes
    ----------
    columns, rows : dict
        Present columns and rows by name, in the order of addition. The entries of all columns are in
        `columns`, except those of rows that were removed, which may remain.
    """

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}
        self.rows: dict[str, Bounds] = {}
        self._edits = Edits()
        self._n_columns = self._n_rows = 0

    def take(self) -> Edits:
        """Return the edits since the last call, without what was added and removed since."""
        edits, self._edits = self._edits, Edits()
        edits.add_columns = {
            name: replace(column, entries=dict(column.entries)) for name, column in edits.add_columns.items()
        }
        return edits

    def add_row(self, lower: float, upper: float, entries: Mapping[str, float] | None = None) -> str:
        """Add a row with entries in present columns; return its name."""
        name = f"r{self._n_rows}"
        self._n_rows += 1
        self.rows[name] = (float(lower), float(upper))
        self._edits.add_rows[name] = row = Row(self.rows[name])
        for column, value in (entries or {}).items():
            if value:
                self.columns[column].entries[name] = float(value)
                if column not in self._edits.add_columns:
                    row.entries[column] = float(value)
        return name

    def add_column(
        self,
        cost: float,
        upper: float = math.inf,
        entries: Mapping[str, float] | None = None,
        *,
        lower: float = 0.0,
    ) -> str:
        """Add a column with entries in present rows; return its name."""
        name = f"c{self._n_columns}"
        self._n_columns += 1
        kept = {row: float(value) for row, value in (entries or {}).items() if value}
        self.columns[name] = column = Column(float(cost), (float(lower), float(upper)), kept)
        self._edits.add_columns[name] = column
        return name

    def remove_column(self, name: str) -> None:
        """Remove a column."""
        del self.columns[name]
        for row in self._edits.add_rows.values():
            row.entries.pop(name, None)
        self._edits.costs.pop(name, None)
        self._edits.bounds.pop(name, None)
        if self._edits.add_columns.pop(name, None) is None:
            self._edits.remove_columns.append(name)

    def remove_row(self, name: str) -> None:
        """Remove a row with its entries."""
        del self.rows[name]
        for column in self._edits.add_columns.values():
            column.entries.pop(name, None)
        self._edits.sides.pop(name, None)
        if self._edits.add_rows.pop(name, None) is None:
            self._edits.remove_rows.append(name)

    def set_cost(self, name: str, cost: float) -> None:
        """Set the cost of a column."""
        column = self.columns[name]
        if column.cost != cost:
            column.cost = float(cost)
            if name not in self._edits.add_columns:
                self._edits.costs[name] = column.cost

    def set_bounds(self, name: str, lower: float, upper: float) -> None:
        """Set the bounds of a column."""
        column = self.columns[name]
        if column.bounds != (lower, upper):
            column.bounds = (float(lower), float(upper))
            if name not in self._edits.add_columns:
                self._edits.bounds[name] = column.bounds

    def set_sides(self, name: str, lower: float, upper: float) -> None:
        """Set the sides of a row."""
        if self.rows[name] == (lower, upper):
            return
        self.rows[name] = (float(lower), float(upper))
        if name in self._edits.add_rows:
            self._edits.add_rows[name].sides = self.rows[name]
        else:
            self._edits.sides[name] = self.rows[name]

    def lp(self) -> GeneralLP:
        """Return the present program as arrays, with names."""
        from scipy.sparse import csc_array

        position = {name: at for at, name in enumerate(self.rows)}
        columns = self.columns.values()
        kept = [
            [(position[row], value) for row, value in column.entries.items() if row in position]
            for column in columns
        ]
        starts = np.concatenate(([0], np.cumsum([len(entries) for entries in kept], dtype=np.int64)))
        indices = np.array([row for entries in kept for row, _ in entries], np.int32)
        values = np.array([value for entries in kept for _, value in entries], np.float64)
        shape = (len(position), len(kept))
        matrix = csc_array((values, indices, starts.astype(np.int32)), shape=shape)
        matrix.sort_indices()
        sides = np.array(list(self.rows.values()), np.float64).reshape(-1, 2)
        bounds = np.array([column.bounds for column in columns], np.float64).reshape(-1, 2)
        return GeneralLP(
            np.array([column.cost for column in columns], np.float64),
            matrix,
            sides[:, 0].copy(),
            sides[:, 1].copy(),
            bounds[:, 0].copy(),
            bounds[:, 1].copy(),
            0.0,
            np.zeros(len(kept), np.bool_),
            column_names=tuple(self.columns),
            row_names=tuple(self.rows),
        )
