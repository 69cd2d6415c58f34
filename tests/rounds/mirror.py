"""The program in plain Python: what each edit method means, by dicts and lists alone.

Nothing here imports copter.  A handle of shared columns or costs is a key that the mirror does not look into.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array, csc_array

from support.numpy_twins import Model

Usage = dict[Hashable, dict[int, float]]
KEEP: Any = object()
"""A field that an edit leaves as it is, where None means something."""


class Log(NamedTuple):
    """A convex term -weight log(offset + image'x)."""

    weight: float
    offset: float
    image: list[float]


@dataclass
class Request:
    """A block of columns with everything that a request can have."""

    costs: list[float]
    usage: Usage
    total: float | None = None
    relation: str = "<="
    upper: float | list[float] = math.inf
    scale: float = 1.0
    override: dict[int, float] = field(default_factory=dict)
    integral: bool = False
    start: dict[int, float] | None = None
    term: Log | None = None
    shared_columns: Hashable = None
    columns: list[Hashable] | None = None

    def named(self, entries: dict[int, Any] | None) -> dict[Any, Any] | None:
        """Entries by the names of their columns, if these have names."""
        if entries is None or self.columns is None:
            return entries
        return {self.columns[j]: value for j, value in entries.items()}

    @property
    def size(self) -> int:
        """Number of columns."""
        return len(self.costs)

    @property
    def bounds(self) -> list[float]:
        """Upper bound of each column."""
        return list(self.upper) if isinstance(self.upper, list) else [self.upper] * self.size

    @property
    def effective(self) -> list[float]:
        """Cost of each column, with scale and override."""
        found = [self.scale * c for c in self.costs]
        for j, value in self.override.items():
            found[j] = value
        return found


class Mirror:
    """The program: resources, requests, and what requests share."""

    def __init__(self) -> None:
        self.resources: dict[Hashable, tuple[float, float]] = {}
        self.requests: dict[Hashable, Request] = {}
        self.columns: dict[Hashable, tuple[int, Usage]] = {}
        self.names: dict[Hashable, list[Hashable]] = {}

    # ---- resources -------------------------------------------------------------------------------

    def remove_resource(self, id: Hashable) -> None:
        """Take a row away, also from all columns that use it."""
        del self.resources[id]
        for _, usage in self.columns.values():
            usage.pop(id, None)
        for request in self.requests.values():
            request.usage.pop(id, None)

    # ---- what requests share ---------------------------------------------------------------------

    def forget(self, handle: Hashable) -> None:
        """Requests keep what they share."""
        self.columns.pop(handle, None)
        for request in self.requests.values():
            if request.shared_columns == handle:
                request.shared_columns = None

    # ---- requests --------------------------------------------------------------------------------

    def add(self, id: Hashable, costs: Any, usage: Any, **fields: Any) -> None:
        """Add a request; costs and usage are plain, or keys of what is shared."""
        request = Request([], {})
        self._columns(request, costs, usage)
        request.columns = self.names_of(usage, fields.pop("columns", None))
        for name, value in fields.items():
            if value is not None or name in ("total", "start", "term"):
                setattr(request, name, value)
        self.requests[id] = request

    def update(self, id: Hashable, costs: Any = None, usage: Any = None, **fields: Any) -> None:
        """Change what is given."""
        request = self.requests[id]
        if usage is not None:
            before, start = request.columns, request.start
            request.override, request.start = {}, None
            request.columns = self.names_of(usage, fields.pop("columns", None))
            if before and request.columns and start:
                place = {name: j for j, name in enumerate(request.columns)}
                moved = {place.get(before[j]): value for j, value in start.items()}
                request.start = {j: value for j, value in moved.items() if j is not None}
        if costs is not None:
            self._columns(request, costs, usage)
        for name, value in fields.items():
            if value is not KEEP:
                setattr(request, name, value)
        if request.total is None:
            request.relation = "<="  # a relation is forgotten along with its total

    def names_of(self, usage: Any, given: Any) -> list[Hashable] | None:
        """Names of new columns: those that are given, or those of the columns that are shared."""
        return given or (None if isinstance(usage, dict) else self.names.get(usage))

    def add_columns(
        self,
        owners: list[Hashable],
        names: list[Hashable],
        costs: list[float],
        usage: Usage,
        upper: list[float] | None,
    ) -> None:
        """New columns, each of one request."""
        before = {id: self.requests[id].bounds for id in owners}
        usual = {id: own[0] if own == own[:1] * len(own) else math.inf for id, own in before.items()}
        each = upper is not None or any(isinstance(self.requests[id].upper, list) for id in owners)
        for k, id in enumerate(owners):
            request = self.requests[id]
            self._own(request)
            if each:
                request.upper = [*request.bounds, usual[id] if upper is None else upper[k]]
            for row, entries in usage.items():
                if k in entries:
                    request.usage.setdefault(row, {})[request.size] = entries[k]
            if request.term is not None:
                request.term = request.term._replace(image=[*request.term.image, 0.0])
            if request.columns is not None:
                request.columns = [*request.columns, names[k]]
            request.costs = [*request.costs, float(costs[k])]

    def remove_columns(self, owners: list[Hashable], columns: list[int]) -> None:
        """Columns go, each of one request, by their numbers; later ones move down."""
        each = any(isinstance(self.requests[id].upper, list) for id in owners)
        for id in dict.fromkeys(owners):
            request = self.requests[id]
            gone = {j for own, j in zip(owners, columns, strict=True) if own == id}
            kept = [j for j in range(request.size) if j not in gone]
            place = {j: k for k, j in enumerate(kept)}
            self._own(request)
            if each:
                request.upper = [request.bounds[j] for j in kept]
            request.usage = {row: _placed(entries, place) for row, entries in request.usage.items()}
            request.override = _placed(request.override, place)
            request.start = None if request.start is None else _placed(request.start, place)
            if request.term is not None:
                request.term = request.term._replace(image=[request.term.image[j] for j in kept])
            if request.columns is not None:
                request.columns = [request.columns[j] for j in kept]
            request.costs = [request.costs[j] for j in kept]

    def update_columns(
        self,
        owners: list[Hashable],
        columns: list[int],
        costs: list[float] | None,
        usage: Usage | None,
        upper: list[float] | None,
    ) -> None:
        """Some columns change, each of one request."""
        each = usage is not None and any(isinstance(self.requests[id].upper, list) for id in owners)
        for k, (id, j) in enumerate(zip(owners, columns, strict=True)):
            request = self.requests[id]
            if usage is not None:
                self._own(request)
                for entries in request.usage.values():
                    entries.pop(j, None)
                for row, entries in usage.items():
                    if k in entries:
                        request.usage.setdefault(row, {})[j] = entries[k]
            if costs is not None:
                request.costs = [*request.costs[:j], float(costs[k]), *request.costs[j + 1 :]]
            if upper is not None or each:
                request.upper = request.bounds
            if upper is not None:
                request.upper[j] = upper[k]

    @staticmethod
    def _own(request: Request) -> None:
        """A request whose columns are its own from now on."""
        request.shared_columns = None
        request.usage = {row: dict(entries) for row, entries in request.usage.items()}

    def price_moves(self, id: Hashable, column: int | None, price: float) -> None:
        """All columns but the one where a request is cost a price more, less that price for all."""
        request = self.requests[id]
        if column is None or column < 0:
            request.override = {}
        else:
            request.override = {column: request.scale * request.costs[column] - price}

    def _columns(self, request: Request, costs: Any, usage: Any) -> None:
        request.costs = [float(c) for c in costs]
        if usage is not None:
            request.shared_columns = None if isinstance(usage, dict) else usage
            request.usage = usage if isinstance(usage, dict) else self.columns[usage][1]

    # ---- the program as a whole ------------------------------------------------------------------

    def model(self) -> Model:
        """All of it as arrays, request after request."""
        requests = list(self.requests.values())
        row_of = {id: i for i, id in enumerate(self.resources)}
        row: list[int] = []
        column: list[int] = []
        value: list[float] = []
        first = [0]
        for request in requests:
            for id, entries in request.usage.items():
                row.extend([row_of[id]] * len(entries))
                column.extend([first[-1] + j for j in entries])
                value.extend(entries.values())
            first.append(first[-1] + request.size)
        shape = (len(row_of), first[-1])
        bounds = np.array(list(self.resources.values()), float).reshape(-1, 2)
        return Model(
            c=np.array([c for request in requests for c in request.effective], float),
            upper=np.array([u for request in requests for u in request.bounds], float),
            A=csc_array(coo_array((value, (row, column)), shape=shape)),
            row_lower=bounds[:, 0],
            row_upper=bounds[:, 1],
            first=np.array(first),
            relation=["" if request.total is None else request.relation for request in requests],
            total=np.array([math.inf if r.total is None else r.total for r in requests], float),
            terms=[request.term for request in requests],
        )


def _placed(entries: dict[int, Any], place: dict[int, int]) -> dict[int, Any]:
    """Entries of columns that have other numbers now."""
    return {place[j]: value for j, value in entries.items() if j in place}
