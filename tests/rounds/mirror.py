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
    shared_costs: Hashable = None

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


class Arrays(NamedTuple):
    """minimise c'x, low <= A x <= high, 0 <= x <= upper, and a sum row for each block that has a total."""

    c: np.ndarray
    upper: np.ndarray
    A: csc_array
    low: np.ndarray
    high: np.ndarray
    first: np.ndarray
    totals: list[float | None]
    relations: list[str]
    terms: list[Log | None]

    def sums(self) -> tuple[csc_array, np.ndarray, np.ndarray]:
        """The sum rows as (matrix, lower, upper)."""
        blocks = [b for b, total in enumerate(self.totals) if total is not None]
        columns = [np.arange(self.first[b], self.first[b + 1]) for b in blocks]
        rows = np.repeat(np.arange(len(blocks)), [own.size for own in columns])
        flat = np.concatenate([np.empty(0, np.int64), *columns])
        high = np.array([self.totals[b] for b in blocks], float)
        low = np.array([self.totals[b] if self.relations[b] == "==" else -math.inf for b in blocks])
        shape = (len(blocks), self.c.size)
        return csc_array(coo_array((np.ones(flat.size), (rows, flat)), shape=shape)), low, high


class Mirror:
    """The program: resources, requests, and what requests share."""

    def __init__(self) -> None:
        self.resources: dict[Hashable, tuple[float, float]] = {}
        self.requests: dict[Hashable, Request] = {}
        self.columns: dict[Hashable, tuple[int, Usage]] = {}
        self.costs: dict[Hashable, list[float]] = {}

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
        self.costs.pop(handle, None)
        for request in self.requests.values():
            if request.shared_columns == handle:
                request.shared_columns = None
            if request.shared_costs == handle:
                request.shared_costs = None

    # ---- requests --------------------------------------------------------------------------------

    def add(self, id: Hashable, costs: Any, usage: Any, **fields: Any) -> None:
        """Add a request; costs and usage are plain, or keys of what is shared."""
        request = Request([], {})
        self._columns(request, costs, usage)
        for name, value in fields.items():
            if value is not None or name in ("total", "start", "term"):
                setattr(request, name, value)
        self.requests[id] = request

    def update(self, id: Hashable, costs: Any = None, usage: Any = None, **fields: Any) -> None:
        """Change what is given."""
        request = self.requests[id]
        if usage is not None:
            request.override, request.start = {}, None
        if costs is not None:
            self._columns(request, costs, usage)
        for name, value in fields.items():
            if value is not KEEP:
                setattr(request, name, value)
        if request.total is None:
            request.relation = "<="  # a relation is forgotten along with its total

    def price_moves(self, id: Hashable, column: int | None, price: float) -> None:
        """All columns but the one where a request is cost a price more, less that price for all."""
        request = self.requests[id]
        if column is None or column < 0:
            request.override = {}
        else:
            request.override = {column: request.scale * request.costs[column] - price}

    def _columns(self, request: Request, costs: Any, usage: Any) -> None:
        request.shared_costs = None if isinstance(costs, list) else costs
        given = costs if isinstance(costs, list) else self.costs[costs]
        request.costs = [float(c) for c in given]
        if usage is not None:
            request.shared_columns = None if isinstance(usage, dict) else usage
            request.usage = usage if isinstance(usage, dict) else self.columns[usage][1]

    # ---- the program as a whole ------------------------------------------------------------------

    def arrays(self) -> Arrays:
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
        return Arrays(
            c=np.array([c for request in requests for c in request.effective]),
            upper=np.array([u for request in requests for u in request.bounds]),
            A=csc_array(coo_array((value, (row, column)), shape=shape)),
            low=bounds[:, 0],
            high=bounds[:, 1],
            first=np.array(first),
            totals=[request.total for request in requests],
            relations=[request.relation for request in requests],
            terms=[request.term for request in requests],
        )
