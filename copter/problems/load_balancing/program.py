"""ShardProgram: program of the relaxation, in units of load; :mod:`.balancer` has its rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.problems.load_balancing.shim import ShardFleet
from copter.program.program import ContinualProgram, SharedColumns

_LEAST_LOAD = 1e-4
"""Load, in units of the mean, that determines the cost of colder shards.

This limits the range of costs, and the bound remains valid.
"""
_NEAR = 1.25
"""Factor by which a mean may differ from its unit before a new unit is chosen."""


class PlacedReplicas(NamedTuple):
    """Replicas (m,), ascending by shard: shards, columns of their servers, and shares of the load."""

    shard: Ints
    column: Ints
    share: Floats


class ShardProgram:
    """Program with a request for each shard and a resource for each column, and its data of the shards.

    A resource has the number of its column as id. `load_unit`, `size_unit`: units of the program.
    """

    def __init__(self) -> None:
        self.program = ContinualProgram()
        self.load_unit = self.size_unit = 0.0
        self._arrived: list[Hashable] = []
        self._template: SharedColumns | None = None
        self._sent = _Sent()

    def add(self, shards: Sequence[Hashable]) -> None:
        """Add shards, which become requests at the next update."""
        self._arrived.extend(shards)
        self._sent.add(len(shards))

    def remove(self, shard: Hashable, number: int) -> None:
        """Remove a shard and its request."""
        self._sent.remove(number)
        if shard in self.program:
            self.program.remove_request(shard)
        else:
            self._arrived.remove(shard)

    def has_units_of(self, fleet: ShardFleet) -> bool:
        """Return whether the means of loads and sizes are near the units."""
        return _near(fleet.mean, self.load_unit) and _near(fleet.unit_size, self.size_unit)

    def changed(self, fleet: ShardFleet, replicas: PlacedReplicas, width: int) -> Ints:
        """Return the shards that the program has with other numbers, ascending."""
        return self._content(fleet, replicas).differs(self._sent, width)

    def update(
        self, fleet: ShardFleet, names: Sequence[Hashable], replicas: PlacedReplicas, live: Ints, width: int
    ) -> None:
        """Edit what changed.

        `names`: ids of the shards. `live`: columns with a server. `width`: number of columns.
        """
        if not _near(fleet.mean, self.load_unit):
            self.load_unit = fleet.mean or 1.0
        if not _near(fleet.unit_size, self.size_unit):
            self.size_unit = fleet.unit_size
        self._set_rows(fleet, live, width)
        now = self._content(fleet, replicas)
        self._set_width(now.totals, names, replicas, width)
        some = now.differs(self._sent, width)
        if some.size:
            counts, each = _replicas(replicas.shard, some)
            overrides = (counts, replicas.column[each], np.zeros(each.size))
            scales, totals = now.scales[some], now.totals[some]
            ids = [names[k] for k in some.tolist()]
            self.program.update_requests(ids, scales=scales, overrides=overrides, totals=totals)
        self._sent = now

    def _content(self, fleet: ShardFleet, replicas: PlacedReplicas) -> _Sent:
        """Return the present content of the program for the shards."""
        loads, sizes = fleet.loads / self.load_unit, fleet.sizes / self.size_unit
        scales = np.maximum(sizes, 1e-9) / np.maximum(loads, _LEAST_LOAD)
        return _Sent(loads, scales, replicas.shard, replicas.column)

    def _set_rows(self, fleet: ShardFleet, live: Ints, width: int) -> None:
        """Set the load row of each column; rows of removed servers have capacity 0."""
        lower_band, upper_band = fleet.inner_band
        level = fleet.mean / self.load_unit
        lower, upper = np.zeros(width), np.zeros(width)
        lower[live], upper[live] = lower_band * level, upper_band * level
        known = self.program.resources[:]  # row i belongs to column i
        fresh = range(len(known.ids), lower.size)
        if fresh:
            self.program.add_resources(fresh, upper=upper[fresh.start :], lower=lower[fresh.start :])
        off = (lower[: fresh.start] != known.lower) | (upper[: fresh.start] != known.upper)
        if off.any():
            columns = np.flatnonzero(off)
            self.program.update_resources(columns.tolist(), upper=upper[columns], lower=lower[columns])

    def _set_width(
        self, loads: Floats, names: Sequence[Hashable], replicas: PlacedReplicas, width: int
    ) -> None:
        """Add columns for new servers to each shard, and requests for new shards."""
        old = self._template
        if old is None or old.n_columns < width:
            self._template = self.program.share_columns({i: ([i], [1.0]) for i in range(width)}, width)
            known = np.array([k for k, shard in enumerate(names) if shard in self.program], np.int64)
            if known.size:
                counts, each = _replicas(replicas.shard, known)
                value = replicas.share[each] * loads[replicas.shard[each]]
                starts = counts, replicas.column[each], value
                self.program.update_requests(
                    [names[k] for k in known],
                    costs=np.ones(known.size * width),
                    sizes=np.full(known.size, width),
                    usage=self._template,
                    totals=loads[known],
                    starts=starts,
                )
                self._sent = _Sent()
                self._sent.add(len(names))
            if old is not None:
                self.program.forget(old)
        if self._arrived:
            assert self._template is not None
            count = len(self._arrived)
            totals = loads[-count:]  # the last ones, in order
            costs, sizes = np.ones(count * width), np.full(count, width)
            self.program.add_requests(
                self._arrived, costs, sizes, self._template, totals=totals, relation="=="
            )
            self._arrived = []


@dataclass
class _Sent:
    """Content of the program for the shards: totals, scales, and replicas, whose columns have cost 0.

    `totals`, `scales` (k,): NaN for shards to send in any case. `shard`, `column` (m,): replicas, ascending
    by shard.
    """

    totals: Floats = field(default_factory=lambda: np.empty(0))
    scales: Floats = field(default_factory=lambda: np.empty(0))
    shard: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    column: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, count: int) -> None:
        """Add new shards that are still to be sent."""
        nothing = np.full(count, np.nan)
        self.totals, self.scales = np.append(self.totals, nothing), np.append(self.scales, nothing)

    def remove(self, gone: int) -> None:
        """Remove a shard."""
        self.totals, self.scales = np.delete(self.totals, gone), np.delete(self.scales, gone)
        keep, self.shard = without(self.shard, gone)
        self.column = self.column[keep]

    def differs(self, other: _Sent, width: int) -> Ints:
        """Return the shards with differences, ascending; shards have at most `width` columns."""
        differs = (self.totals != other.totals) | (self.scales != other.scales)
        if not (np.array_equal(self.shard, other.shard) and np.array_equal(self.column, other.column)):
            mine, others = self.shard * width + self.column, other.shard * width + other.column
            differs[np.setxor1d(mine, others, assume_unique=True) // width] = True
        return np.flatnonzero(differs)


def _replicas(shard: Ints, some: Ints) -> tuple[Ints, Ints]:
    """Return the number of replicas of some shards, and their indices.

    `shard` (m,): shard of each replica, ascending. `some` (k,).
    """
    begin, end = np.searchsorted(shard, some), np.searchsorted(shard, some, "right")
    counts = end - begin
    return counts, np.arange(counts.sum()) + np.repeat(end - counts.cumsum(), counts)


def _near(mean: float, unit: float) -> bool:
    return unit > 0.0 and unit / _NEAR <= mean <= unit * _NEAR


def without(shard: Ints, gone: int) -> tuple[Flags, Ints]:
    """Return which replicas belong to other shards, and their shards after the removal of one."""
    keep = shard != gone
    rest = shard[keep]
    return keep, rest - (rest > gone)
