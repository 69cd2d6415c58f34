"""MaxMinFlows: flows that are max-min fair to the demands of a network.

Rates are max-min fair if no demand's rate can grow unless a rate that is not larger becomes smaller.  These
are the feasible rates whose sorted vector is lexicographically largest.

Prices y >= 0 of the links give an inequality that all feasible rates f satisfy: with d_k(y) the price of the
cheapest path of demand k, and capacities c,

    sum_k d_k(y) f_k  <=  sum_e c_e y_e.                                            (1)

A round keeps a set of such cuts.  It alternates two steps:

1. *Water-filling* computes the max-min fair rates subject to the volumes and the cuts.  All rates grow
   together until a cut is tight; then the demands in this cut stop, and all other rates grow further.
2. *Routing* solves max-flow with these rates, less half of the tolerance, as volumes.  If every demand has
   its rate within the tolerance, the rates are accepted.  Otherwise the prices of max-flow give cuts that
   the rates violate: priced links that share demands are a group, and each group is a cut, with prices that
   simplex recomputes.

If max-flow leaves some demand without its rate, but the prices of max-flow give no violated cut, min-MLU
routes the rates, because it serves every demand with the solver's accuracy.  The flows are then divided by
the utilisation.

The cuts are valid whatever the solver's accuracy.  So the rates of step 1 are lexicographically at least
those of all flows.  Cuts stay valid if volumes change, and with new right-hand sides also if capacities
change, so most rounds need only one routing.

Sources: Bertsekas and Gallager, Data Networks, section 6.5.2, for water-filling; (1) is the dual of maximum
concurrent flow (Shahrokhi and Matula 1990).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, hstack
from scipy.sparse.csgraph import connected_components

from copter.arrays import Flags, Floats, Ints
from copter.clock import Clock
from copter.errors import EditError
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.paths import PathSet
from copter.problems.traffic.state import TrafficState
from copter.problems.traffic.topology import Topology
from copter.solvers.registry import make_solver

if TYPE_CHECKING:
    from copter.solution import Solution
    from copter.solvers.base import Solver

_SHARE, _LEAST = 0.1, 1e-9
"""Tolerance of a solver relative to the tolerance of the rates, and its smallest value."""
_NOISE = 1e-7
"""Prices below this share of the largest one count as 0."""
_KEPT_ROUNDS = 8
"""Number of rounds for which a cut that limits no demand is kept."""
_VIOLATED = 1e-9
"""Excess of a cut's left side, relative to its right side, above which the cut is violated."""


@dataclass(frozen=True)
class FairRound:
    """Max-min fair flows of a round.

    Attributes
    ----------
    rates : (pairs,) ndarray
        Flow of each pair's demand.
    path_flows : (paths,) ndarray
        Flow on each path of the path set.
    fair_rates : (pairs,) ndarray
        Rates that are lexicographically at least those of all feasible flows.
    bottleneck : (pairs,) ndarray of int
        Row of `prices` that limits the demand; -1 if it has its volume, or no path.
    prices : (bottlenecks, links) ndarray
        Prices of the links in (1), with which the right-hand side is 1.
    shortfall : float
        Largest share of its fair rate that a demand lacks.
    solves : int
        Number of solved programs.
    """

    rates: Floats
    path_flows: Floats
    fair_rates: Floats
    bottleneck: Ints
    prices: Floats
    shortfall: float
    solves: int


@dataclass(frozen=True)
class Cut:
    """Inequality on rates, ``weights @ rates[pairs] <= room``; `weights` and `room` are positive.

    A cut over links without capacity has no pairs.
    """

    pairs: Ints
    weights: Floats
    room: float

    def violated(self, rates: Floats) -> bool:
        """Return whether rates (pairs,) violate the inequality."""
        return float(self.weights @ rates[self.pairs]) > self.room * (1.0 + _VIOLATED)

    def level(self, volumes: Floats, rates: Floats, stopped: Flags) -> float:
        """Return the rate at which the demands that have not stopped make the cut tight; infinite if never.

        A demand stops growing at its volume. `rates`: read for the demands that have `stopped` only.
        """
        still = stopped[self.pairs]
        left = self.room - float(self.weights[still] @ rates[self.pairs[still]])
        order = np.argsort(volumes[self.pairs[~still]], kind="stable")
        volume, weight = volumes[self.pairs[~still]][order], self.weights[~still][order]
        growing = weight[::-1].cumsum()[::-1]  # weight of the demands whose volume is at least the k-th
        below = np.concatenate(([0.0], (weight * volume).cumsum()))
        used = below[:-1] + volume * growing  # left side of the cut if the rate is the k-th volume
        k = int(np.searchsorted(used, left))
        return math.inf if k == volume.size else max(0.0, (left - below[k]) / growing[k])


def water_filling(volumes: Floats, cuts: Sequence[Cut]) -> tuple[Floats, Ints]:
    """Return the max-min fair rates subject to volumes and cuts, and the cut that limits each demand, or -1.

    Parameters
    ----------
    volumes : (pairs,) ndarray
        Largest rate of each demand.
    cuts : sequence of Cut

    Returns
    -------
    rates : (pairs,) ndarray
    limits : (pairs,) ndarray of int
        Number of the cut; -1 for a demand that has its volume.

    Examples
    --------
    >>> import numpy as np
    >>> link = Cut(np.arange(3), np.ones(3), 6.0)
    >>> water_filling(np.array([1.0, 9.0, 9.0]), [link])
    (array([1. , 2.5, 2.5]), array([-1,  0,  0]))
    """
    rates, limits = volumes.copy(), np.full(volumes.size, -1)
    stopped = np.zeros(volumes.size, np.bool_)
    heap = [(cut.level(volumes, rates, stopped), number) for number, cut in enumerate(cuts)]
    heapq.heapify(heap)
    while heap:
        level, number = heapq.heappop(heap)
        now = cuts[number].level(volumes, rates, stopped)
        if now > level:  # demands have stopped at other cuts since
            heapq.heappush(heap, (now, number))
        elif level < math.inf:
            pairs = cuts[number].pairs
            last = pairs[~stopped[pairs] & (volumes[pairs] > level)]
            rates[last], limits[last], stopped[last] = level, number, True
    return rates, limits


def accuracy_of(tolerance: float) -> float:
    """Return the tolerance of the solvers for a tolerance of the rates."""
    return max(_SHARE * tolerance, _LEAST)


class _Routing(NamedTuple):
    """Feasible flows (paths,), and the solution with their prices, None if the deadline was too short."""

    path_flows: Floats
    solution: Solution | None


class MaxMinFlows(TrafficState):
    """Max-min fair flows of a network's demands, round by round.

    Parameters
    ----------
    topology : Topology
    paths : PathSet
        Pairs that may have demands, and their paths.
    tolerance : float
        Largest share of its fair rate that a demand may lack.
    solvers : two solvers, optional
        Solver of max-flow and solver of min-MLU; default: copter, with a tenth of the tolerance.

    Raises
    ------
    EditError
        If the tolerance is not between 0 and 1.

    Examples
    --------
    >>> from copter.problems.traffic import Topology, k_shortest_paths
    >>> import networkx as nx
    >>> line = Topology.from_networkx(nx.path_graph(3).to_directed(), capacity=6.0)
    >>> paths = k_shortest_paths(line, ([0, 0, 1], [1, 2, 2]), 1, cache=False)
    >>> flows = MaxMinFlows(line, paths)
    >>> flows.set_volumes([9.0, 9.0, 1.0])
    >>> flows.round().rates.round(2)
    array([3., 3., 1.])
    """

    def __init__(
        self,
        topology: Topology,
        paths: PathSet,
        *,
        tolerance: float = 1e-3,
        solvers: tuple[Solver, Solver] | None = None,
    ) -> None:
        if not 0.0 < tolerance < 1.0:
            raise EditError("traffic", "tolerance", tolerance, "must be between 0 and 1")
        super().__init__(topology, paths)
        self.tolerance = tolerance
        accuracy = accuracy_of(tolerance)
        default = make_solver("copter", tolerance=accuracy), make_solver("copter", tolerance=accuracy)
        self._solvers = default if solvers is None else solvers
        self._max_flow = TrafficEngineering(topology, paths, "max-flow")
        self._min_mlu: TrafficEngineering | None = None  # made when it is needed
        self._prices: list[Floats] = []
        self._unused: list[int] = []  # for each of the prices, rounds since it limited a demand

    def _links_changed(self, links: Ints) -> None:
        for model in (self._max_flow, self._min_mlu):
            if model is not None:
                model.set_capacities(self.capacity[links], links)
                model.fail_links(links[~self.up[links]])
                model.restore_links(links[self.up[links]])

    def round(self, *, time_limit: float | None = None) -> FairRound:
        """Find the flows of the present demands.

        Parameters
        ----------
        time_limit : float, optional
            Seconds of the round. Flows of a late round are feasible; `shortfall` measures their fairness.

        Returns
        -------
        FairRound
            Its `shortfall` is at most the tolerance, unless the deadline was too short, or the prices of the
            solvers were too inaccurate for another cut.
        """
        clock = Clock(math.inf if time_limit is None else time_limit)
        wanted = np.where(self._closed(), 0.0, self.volume)
        cuts, solves = [self._cut(prices) for prices in self._prices], 0
        while True:
            fair, limits = water_filling(wanted, cuts)
            found = self._by_max_flow(fair * (1.0 - self.tolerance / 2), clock)
            solves += 1
            new: list[Floats] = []
            if self._shortfall(found.path_flows, fair) > self.tolerance:
                new = self._new(found.solution, fair)
                if not new and not clock.over():
                    other = self._by_min_mlu(fair, clock)
                    solves += 1
                    found = min(found, other, key=lambda each: self._shortfall(each.path_flows, fair))
                    if self._shortfall(found.path_flows, fair) > self.tolerance:
                        new = self._new(other.solution, fair)
            self._prices += new
            self._unused += [0] * len(new)
            cuts += [self._cut(prices) for prices in new]
            if not new or clock.over():
                return self._answer(found.path_flows, fair, limits, solves)

    def _by_max_flow(self, rates: Floats, clock: Clock) -> _Routing:
        """Return as much of the rates as fits."""
        model, left = self._max_flow, clock.left()
        model.set_volumes(rates)
        done = model.play(self._solvers[0], time_limit=left if left < math.inf else None)
        return _Routing(model.path_flows(done.flows), done.solution)

    def _by_min_mlu(self, rates: Floats, clock: Clock) -> _Routing:
        """Return flows with the largest common share of all rates that fits."""
        if self._min_mlu is None:
            self._min_mlu = TrafficEngineering(self.topology, self.paths, "min-mlu")
            self._min_mlu.set_capacities(self.capacity)
            self._min_mlu.fail_links(np.flatnonzero(~self.up))
        model, left = self._min_mlu, clock.left()
        model.set_volumes(rates)
        done = model.play(self._solvers[1], time_limit=left if left < math.inf else None)
        flows = model.path_flows(done.flows)
        return _Routing(flows / max(1.0, self.check(flows).mlu), done.solution)

    def _shortfall(self, path_flows: Floats, fair: Floats) -> float:
        """Return the largest share of its fair rate that a demand lacks. `fair` (pairs,): fair rates."""
        some = fair > 0.0
        return float((1.0 - self._rates(path_flows)[some] / fair[some]).max(initial=0.0))

    def _rates(self, path_flows: Floats) -> Floats:
        """Return the flow of each pair's demand (pairs,)."""
        rates: Floats = np.bincount(self.paths.pair, path_flows, self.paths.n_pairs).astype(np.float64)
        return rates

    def _new(self, solution: Solution | None, rates: Floats) -> list[Floats]:
        """Return prices (links,) of violated cuts, one for each group of demands that share priced links."""
        if solution is None:
            return []
        price = solution.price
        y = np.array([abs(price[link]) for link in range(self.topology.n_links)])
        y[(y < _NOISE * y.max(initial=0.0)) | (self.effective_capacity <= 0.0)] = 0.0
        groups = [np.where(group, y, 0.0) for group in self._groups(y)]
        parts = [self._vertex(group, rates) for group in groups if self._cut(group).pairs.size]
        return [part for part in parts if self._cut(part).violated(rates)]

    def _vertex(self, y: Floats, rates: Floats) -> Floats:
        """Return the prices of the links of `y` whose cut the rates violate most, at a vertex.

        A solver's prices have errors of its tolerance, so that their cut might limit a demand whose rate
        could grow at hardly any cost to other demands. So the solver's prices only choose the links, and
        simplex computes the prices by the program

            maximise  sum_k d_k rates_k   subject to   d_k <= sum of y over each path of k,   c'y = 1.

        Demands whose paths have the same priced links are summed up.
        """
        cut, links = self._cut(y), np.flatnonzero(y)
        chosen = self.paths.take(cut.pairs)
        alive = self.effective_capacity[chosen.link] > 0.0
        closed = np.bincount(np.repeat(np.arange(chosen.n_paths), chosen.hops), ~alive, chosen.n_paths) > 0
        over = chosen.incidence(self.topology.n_links).T.tocsr()[:, links].toarray() > 0.0
        kinds, kind = np.unique(over, axis=0, return_inverse=True)
        # kinds of the paths of each pair, in a row that begins with -1 for paths that are closed or missing
        table = np.full((len(chosen), int(chosen.counts.max())), -1)
        table[chosen.pair, np.arange(chosen.n_paths) - chosen.first[chosen.pair]] = np.where(closed, -1, kind)
        table.sort(axis=1)
        rows, row = np.unique(table, axis=0, return_inverse=True)
        weight = np.bincount(row, rates[cut.pairs], len(rows))
        at, place = np.nonzero(rows >= 0)
        matrix = hstack([coo_array((np.ones(at.size), (range(at.size), at))), -1.0 * kinds[rows[at, place]]])
        capacity = self.effective_capacity[links]
        capacity = capacity / capacity.mean()  # HiGHS' tolerances are absolute; only the ratios of y matter
        found = linprog(
            np.concatenate((-weight / (weight.max() or 1.0), np.zeros(links.size))),
            matrix,
            np.zeros(at.size),
            np.concatenate((np.zeros(len(rows)), capacity))[None],
            [1.0],
            method="highs-ds",
        )
        if found.status != 0:
            return y
        sharp = np.zeros(y.size)
        sharp[links] = np.maximum(found.x[len(rows) :], 0.0)
        return sharp if self._cut(sharp).violated(rates) else y

    def _groups(self, y: Floats) -> list[Flags]:
        """Return groups of links with a price, as flags (links,); paths of a demand connect their links."""
        chosen = self.paths.take(self._cut(y).pairs)
        pair = np.repeat(chosen.pair, chosen.hops)
        priced = y[chosen.link] > 0.0
        ends = pair[priced], len(chosen) + chosen.link[priced].astype(np.int64)
        size = len(chosen) + y.size
        graph = coo_array((np.ones(ends[0].size), ends), shape=(size, size))
        group = connected_components(graph, directed=False)[1][len(chosen) :]
        return [(group == each) & (y > 0.0) for each in np.unique(group[y > 0.0])]

    def _cut(self, y: Floats) -> Cut:
        """Return the cut of prices y (links,), for the present capacities and links."""
        capacity = self.effective_capacity
        distance = self._cheapest(np.where(capacity > 0.0, y, math.inf))
        pairs = np.flatnonzero((distance > 0.0) & np.isfinite(distance))
        return Cut(pairs, distance[pairs], float(capacity @ y))

    def _closed(self) -> Flags:
        """Return the pairs without a path over links that are up and have a capacity, as flags (pairs,)."""
        return np.isinf(self._cheapest(np.where(self.effective_capacity > 0.0, 0.0, math.inf)))

    def _cheapest(self, y: Floats) -> Floats:
        """Return the price of the cheapest path of each pair (pairs,); infinite without a path."""
        paths = self.paths
        price = np.append(np.add.reduceat(np.append(y[paths.link], 0.0), paths.pointer[:-1]), math.inf)
        least = np.minimum.reduceat(price, paths.first[:-1])
        return np.where(paths.counts > 0, least, math.inf)

    def _answer(self, path_flows: Floats, fair: Floats, limits: Ints, solves: int) -> FairRound:
        used = np.unique(limits[limits >= 0])
        prices = np.array([self._prices[number] for number in used.tolist()])
        prices = prices.reshape(used.size, self.topology.n_links)
        answer = FairRound(
            self._rates(path_flows),
            path_flows,
            fair,
            np.where(limits >= 0, np.searchsorted(used, limits), -1),
            prices / (prices @ self.effective_capacity)[:, None],
            self._shortfall(path_flows, fair),
            solves,
        )
        self._unused = [rounds + 1 for rounds in self._unused]
        for number in used.tolist():
            self._unused[number] = 0
        kept = [k for k, rounds in enumerate(self._unused) if rounds <= _KEPT_ROUNDS]
        self._prices, self._unused = [self._prices[k] for k in kept], [self._unused[k] for k in kept]
        return answer
