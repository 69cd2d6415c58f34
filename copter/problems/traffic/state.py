"""TrafficState: the present demands and links of a network, independent of any method that serves them.

Every event is fully checked here before anything changes; two hooks pass changes to a model with a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints
from copter.compile.kernels import kernel
from copter.errors import EditError
from copter.problems.traffic import OBJECTIVES, Objective
from copter.problems.traffic.paths import PathSet
from copter.problems.traffic.topology import Topology
from copter.rounds.events import event


@dataclass(frozen=True)
class Check:
    """Figures of flows on paths, computed from the paths only.

    `total_flow`, `mlu`: sum of all flows; largest used share of a link's capacity (infinite for flow on a
    link without capacity). `overload`: largest excess of a link's load over its capacity, relative to the
    capacity (absolute for links without capacity). `excess`, `lack`: largest flow of a demand beyond its
    volume, and total volume of all demands that is not served.
    """

    total_flow: float
    mlu: float
    overload: float
    excess: float
    lack: float


class TrafficState:
    """Demands over path sets, and links that fail and return.

    `paths`: pairs that may have demands, and their paths. `volume` (pairs,): volume of each pair's demand;
    change it by :meth:`set_volumes`. `capacity` (links,): capacity of each link when it is up; change it by
    :meth:`set_capacities`. `up` (links,): whether each link is up.
    """

    def __init__(self, topology: Topology, paths: PathSet, objective: Objective = "max-flow") -> None:
        if objective not in OBJECTIVES:
            raise EditError("traffic", "objective", objective, f"must be one of {', '.join(OBJECTIVES)}")
        if paths.link.size and not 0 <= paths.link.min() <= paths.link.max() < topology.n_links:
            worst = int(paths.link.min() if paths.link.min() < 0 else paths.link.max())
            raise EditError("traffic", "paths", worst, f"must be a link of topology {topology.name!r}")
        self.topology, self.paths, self.objective = topology, paths, objective
        self.volume = np.zeros(paths.n_pairs)
        self.capacity = topology.capacity.copy()
        self.up = np.ones(topology.n_links, np.bool_)
        self._by_key: tuple[Ints, Ints] | None = None

    def _volumes_changed(self, pairs: Ints) -> None:
        """Process a change of the volumes of some pairs."""

    def _links_changed(self, links: Ints) -> None:
        """Process a possible change of the capacities of some links."""

    # ---- names -----------------------------------------------------------------------------------

    def pair_name(self, pair: int) -> str:
        """Return the names of the source and target of a pair. `pair`: number of the pair in the path set."""
        nodes = self.topology.nodes
        return f"{nodes[self.paths.source[pair]]} -> {nodes[self.paths.target[pair]]}"

    def pairs(self, source: ArrayLike, target: ArrayLike) -> Ints:
        """Return the numbers of pairs from their nodes' numbers. `source`, `target`: numbers of nodes."""
        n = self.topology.n_nodes
        if self._by_key is None:
            keys = self.paths.source.astype(np.int64) * n + self.paths.target
            order = np.argsort(keys, kind="stable")
            self._by_key = order, keys[order]
        order, keys = self._by_key
        first, last = np.asarray(source, np.int64), np.asarray(target, np.int64)
        wanted = first * n + last
        at = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
        wrong = (keys[at] != wanted) | (last >= n) | (last < 0) if keys.size else np.ones(wanted.shape, bool)
        if wrong.any():
            pair = (int(first[wrong][0]), int(last[wrong][0]))
            raise EditError("pairs", "pair", pair, "no path is known for this pair")
        return order[at]

    # ---- demands ---------------------------------------------------------------------------------

    @event
    def set_volumes(self, volumes: ArrayLike, pairs: ArrayLike | None = None) -> None:
        """Set the volumes of demands; 0 ends a demand.

        `volumes`: finite and not negative. `pairs`: numbers of pairs, without duplicates; default: all pairs.
        """
        which = self._which(pairs, self.paths.n_pairs, "pair")
        volume = _numbers("volumes", volumes, which.size)
        wrong = ~(np.isfinite(volume) & (volume >= 0))
        if wrong.any():
            k = int(wrong.argmax())
            why = "must be finite and not negative"
            raise EditError(self.pair_name(int(which[k])), "volume", float(volume[k]), why)
        lost = (volume > 0) & (self.paths.first[which] == self.paths.first[which + 1])
        if lost.any():
            k = int(lost.argmax())
            raise EditError(
                self.pair_name(int(which[k])), "volume", float(volume[k]), "must be 0 without a path"
            )
        moved = which[volume != self.volume[which]]
        self.volume[which] = volume
        self._volumes_changed(moved)

    # ---- links -----------------------------------------------------------------------------------

    @event
    def set_capacities(self, capacities: ArrayLike, links: ArrayLike | None = None) -> None:
        """Set the capacities of links; a link that is down stays down.

        `capacities`: finite and not negative. `links`: numbers of links, without duplicates; default: all
        links.
        """
        which = self._which(links, self.topology.n_links, "link")
        capacity = _numbers("capacities", capacities, which.size)
        wrong = ~(np.isfinite(capacity) & (capacity >= 0))
        if wrong.any():
            k = int(wrong.argmax())
            name = self.topology.link_name(int(which[k]))
            raise EditError(name, "capacity", float(capacity[k]), "must be finite and not negative")
        self.capacity[which] = capacity
        self._links_changed(which)

    @event
    def fail_links(self, links: ArrayLike) -> None:
        """Take links down, so that nothing flows over them until they are restored.

        `links`: numbers of links, without duplicates; links that are already down stay down.
        """
        self._set_up(links, False)

    @event
    def restore_links(self, links: ArrayLike) -> None:
        """Bring links back with their previous capacity.

        `links`: numbers of links, without duplicates; links that are already up stay up.
        """
        self._set_up(links, True)

    @property
    def effective_capacity(self) -> Floats:
        """Present capacity of each link: 0 if it is down."""
        return np.where(self.up, self.capacity, 0.0)

    def _set_up(self, links: ArrayLike, up: bool) -> None:
        which = self._which(links, self.topology.n_links, "link")
        which = which[self.up[which] != up]
        self.up[which] = up
        self._links_changed(which)

    # ---- flows -----------------------------------------------------------------------------------

    def utilisation(self, loads: Floats) -> Floats:
        """Return the used share of each link's capacity (E,).

        It is 0 for a link without capacity and flow, and infinite for flow without capacity. `loads` (E,):
        flow on each link.
        """
        capacity = self.effective_capacity
        share = np.full(loads.shape, np.inf)
        np.divide(loads, capacity, out=share, where=capacity > 0)
        share[(capacity <= 0) & (loads <= 0)] = 0.0
        return share

    def overload(self, loads: Floats) -> float:
        """Return the largest relative excess of a link's load; for min-MLU, of links without capacity only.

        `loads` (E,): flow on each link.
        """
        capacity = self.effective_capacity
        limit = capacity if self.objective == "max-flow" else np.where(capacity > 0, np.inf, 0.0)
        over = (loads - limit) / np.where(capacity > 0, capacity, 1.0)
        return float(over.max(initial=0.0))

    def check(self, path_flows: Floats) -> Check:
        """Return the figures of flows on paths under the present demands and capacities.

        `path_flows` (paths,): flows of any method.
        """
        loads, capacity = self.loads_of(path_flows), self.effective_capacity
        over = (loads - capacity) / np.where(capacity > 0, capacity, 1.0)
        served = np.bincount(self.paths.pair, path_flows, self.paths.n_pairs)
        return Check(
            float(path_flows.sum()),
            float(self.utilisation(loads).max(initial=0.0)),
            float(over.max(initial=0.0)),
            float((served - self.volume).max(initial=0.0)),
            float(np.maximum(self.volume - served, 0.0).sum()),
        )

    def loads_of(self, path_flows: Floats) -> Floats:
        """Return the flow on each link from flows on paths. `path_flows` (paths,)."""
        loads = np.zeros(self.topology.n_links)
        _add_loads(self.paths.pointer, self.paths.link, path_flows, loads)
        return loads

    def _which(self, numbers: ArrayLike | None, size: int, kind: str) -> Ints:
        if numbers is None:
            return np.arange(size)
        given = np.atleast_1d(np.asarray(numbers))
        if given.size == 0:
            return np.empty(0, np.int64)
        if given.dtype.kind not in "iu" or given.ndim != 1:
            raise EditError("traffic", kind, numbers, f"must be numbers of {kind}s")
        outside = (given < 0) | (given >= size)
        if outside.any():
            value = int(given[outside][0])
            raise EditError(value, kind, value, f"must be the number of a {kind}, in [0, {size})")
        which = given.astype(np.int64)
        seen = np.zeros(size, np.bool_)
        seen[which] = True
        if np.count_nonzero(seen) < which.size:
            counts = np.bincount(which, minlength=size)
            raise EditError(int(counts.argmax()), kind, int(counts.argmax()), "must be given only once")
        return which


def _numbers(field: str, values: ArrayLike | Sequence[float], size: int) -> Floats:
    try:
        given = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise EditError("traffic", field, values, "must be numbers") from None
    if given.ndim == 0:
        given = np.full(size, float(given))
    if given.shape != (size,):
        raise EditError("traffic", field, given.shape, f"must have the shape ({size},)")
    return given


@kernel
def _add_loads(pointer, link, flow, loads):  # type: ignore[no-untyped-def]
    for path in range(flow.size):
        if flow[path] != 0.0:
            for k in range(pointer[path], pointer[path + 1]):
                loads[link[k]] += flow[path]
