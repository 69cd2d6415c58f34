"""LoadBalancer: shards on servers, few new replicas per round, from events to edits of a ContinualProgram.

The exact problem is that of thesis section 5.1.1, with constraint (c) as in the authors' code.  It has shares
R and replicas X of shard j on server i, last placement T, sizes s, loads l with mean L per server, and memory
m:

    minimise    sum_ij (1 - T_ij) s_j X_ij
    subject to  sum_i R_ij = 1,   R_ij <= X_ij,   X_ij in {0, 1}
                L - eps <= sum_j l_j R_ij <= L + eps,   sum_j s_j X_ij <= m_i

In its relaxation, costs and memory favour a small X, so X = R at an optimum.  The program here has the
relaxation's columns in units of load, x_ij = l_j R_ij / U:

    minimise    sum_ij (1 - T_ij) (s_j / l_j) x_ij
    subject to  sum_i x_ij = l_j / U,   (1 - width) L / U <= sum_j x_ij <= (1 + width) L / U

U is an earlier value of L, which is kept while L is near U.  So a new load of one shard edits one request and
the bounds of the rows.  Every shard has the same columns, which store only their costs.  New loads change a
total and a cost scale per shard, new placements a few overrides; coefficients never change.

The memory rows sum_j (s_j / l_j) x_ij <= m_i are omitted, because their coefficients would change in every
column in every round.  These rows are also weak, since a share takes only its part of the memory of a whole
replica (in the experiments they are never tight).  Without them the program is still a relaxation, so its
bound holds.  The shim keeps every answer within the memory.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints
from copter.problems.load_balancing.base import Balancer
from copter.problems.load_balancing.outcome import (
    BalancingRound,
    LoadBalancingError,
    amount,
)
from copter.problems.load_balancing.packing import packed
from copter.problems.load_balancing.program import PlacedReplicas, ShardProgram, without
from copter.problems.load_balancing.shim import (
    MARGIN,
    Carried,
    ReplicaShim,
    ShardFleet,
    ShardPlacement,
    ShardPlacementError,
    among,
)
from copter.program.program import ContinualProgram
from copter.rounds.events import event
from copter.rounds.record import Move
from copter.solution import Solution, check_found
from copter.solvers.base import Solver
from copter.store.allocation import SparseX

TOLERANCE = 0.05
_LEAST_SHARE = 1e-9
_MANY = 0.02
"""A first round in which more than this share of the shards' size must move has no start."""
_MUCH = 0.1
"""Share of changed shards above which the program is solved in any case."""


class LoadBalancer(Balancer):
    """Shards with loads and sizes, servers with memory, and the placement of the last round.

    A LoadBalancer is a domain of :class:`copter.Rounds`.

    Parameters
    ----------
    tolerance : float
        The most loaded server may have 1 + 2 tolerance times the load of the least loaded one.

    Attributes
    ----------
    number : int
        Number of rounds so far.

    Examples
    --------
    >>> from copter.problems.load_balancing import LoadBalancer
    >>> from copter import make_solver
    >>> balancer = LoadBalancer()
    >>> for server in ("a", "b"):
    ...     balancer.add_server(server, memory=3)
    >>> for shard, load in {"hot": 60, "warm": 25, "cold": 15}.items():
    ...     balancer.add_shard(shard, load, server="a")
    >>> done = balancer.play(make_solver("copter"))
    >>> done.movements, done.imbalance <= 0.1
    (1, True)
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        super().__init__(tolerance)
        self._servers = self._columns = dict[Hashable, int]()
        self._live = np.empty(0, np.int64)
        # replicas of the last round, ascending by shard, then by server in the order of their addition
        self._shard = np.empty(0, np.int64)
        self._column = np.empty(0, np.int64)
        self._share = np.empty(0)
        self._relaxation = ShardProgram()
        self._shim = ReplicaShim()
        self._carried: tuple[ShardFleet, ShardPlacement, Carried] | None = None
        self._prices = np.empty(0)
        self._proven: BalancingRound | None = None

    # ---- what is there ---------------------------------------------------------------------------

    @property
    def program(self) -> ContinualProgram:
        """Program that is solved."""
        return self._relaxation.program

    @property
    def shards(self) -> list[Hashable]:
        """Ids of the shards."""
        return list(self._names)

    def shares(self, shard: Hashable) -> dict[Hashable, float]:
        """Return a shard's share of load by server in the last round.

        Returns
        -------
        dict of hashable to float
            Shares that add up to 1; empty before the shard is placed.
        """
        servers = {column: server for server, column in self._columns.items()}
        mine = self._shard == self._index(shard)
        pairs = zip(self._column[mine].tolist(), self._share[mine].tolist(), strict=True)
        return {servers[column]: share for column, share in pairs}

    def fleet(self) -> ShardFleet:
        """Return shards and servers for the shim and the baselines; later events do not affect the result."""
        return ShardFleet(self._loads.copy(), self._sizes.copy(), self.memory, self._tolerance)

    @property
    def memory(self) -> Floats:
        """Memory of the servers (n,)."""
        return self._memory[self._live]

    def used(self, placement: ShardPlacement) -> Floats:
        """Return the memory that a placement uses of each server."""
        sizes = self._sizes[placement.shard]
        return np.bincount(placement.server, sizes, self._live.size).astype(np.float64)

    def placement(self) -> ShardPlacement:
        """Return the placement of the last round, without shards and servers removed since.

        Returns
        -------
        ShardPlacement
            Placement with indices of :attr:`shards` and :attr:`servers`.
        """
        return ShardPlacement(self._shard.copy(), self._positions()[self._column], self._share.copy())

    # ---- events ----------------------------------------------------------------------------------

    @event
    def add_server(self, server: Hashable, memory: float) -> None:
        """Add a server.

        Parameters
        ----------
        memory : float
            Memory in the unit of the shards' sizes.

        Raises
        ------
        LoadBalancingError
            The server exists already, or the memory is negative or not finite.
        """
        memory = self._new_memory(server, memory)
        free = sorted(set(range(self._memory.size)) - set(self._columns.values()))
        if free:
            self._columns[server] = free[0]
            self._memory[free[0]] = memory
        else:
            self._columns[server] = self._memory.size
            self._memory = np.append(self._memory, memory)
        self._live = np.append(self._live, self._columns[server])

    @event
    def remove_server(self, server: Hashable) -> None:
        """Remove a server with its replicas; shards without other replicas are placed in the next round.

        Raises
        ------
        LoadBalancingError
            There is no such server.
        """
        column = self._columns.pop(self._known_server(server))
        self._live = self._live[self._live != column]
        keep = self._column != column
        self._shard, self._column, self._share = self._shard[keep], self._column[keep], self._share[keep]
        self._renormalise()

    @event
    def set_memory(self, server: Hashable, memory: float) -> None:
        """Change the memory of a server.

        Parameters
        ----------
        memory : float
            Memory in the unit of the shards' sizes.

        Raises
        ------
        LoadBalancingError
            There is no such server, or the memory is negative or not finite.
        """
        column = self._columns[self._known_server(server)]
        self._memory[column] = amount(f"server {server!r}: memory", memory)

    @event
    def add_shard(
        self, shard: Hashable, load: float, size: float = 1.0, server: Hashable | None = None
    ) -> None:
        """Add a shard.

        Parameters
        ----------
        load : float
            Load in any unit, the same for all shards.
        size : float
            Size in the unit of the servers' memory.
        server : hashable, optional
            Server on which the shard already is.

        Raises
        ------
        LoadBalancingError
            The shard exists already, the server does not, or load or size are negative or not finite.
        """
        self.add_shards([shard], load, size, [server])

    @event
    def add_shards(
        self,
        shards: Iterable[Hashable],
        loads: ArrayLike,
        sizes: ArrayLike = 1.0,
        servers: Iterable[Hashable | None] | None = None,
    ) -> None:
        """Add several shards, or none of them if one is invalid.

        Parameters
        ----------
        loads, sizes : float or (n,) array_like
            Loads and sizes, as in :meth:`add_shard`.
        servers : iterable of hashable or None, optional
            Server of each shard, as in :meth:`add_shard`; None: on no server yet.

        Raises
        ------
        LoadBalancingError
            An argument is invalid; the error names the shard, the server or the argument.
        """
        shards = list(shards)
        places = [None] * len(shards) if servers is None else list(servers)
        self._check_new(shards)
        given = self._amounts("load", loads, shards), self._amounts("size", sizes, shards)
        if len(places) != len(shards):
            raise LoadBalancingError(f"servers: length = {len(places)}: must be {len(shards)}")
        for server in {*places} - {None}:
            self._known_server(server)
        first = len(self._names)
        on = [k for k, server in enumerate(places) if server is not None]
        columns = [self._columns[places[k]] for k in on]
        self._shard = np.append(self._shard, np.array(on, np.int64) + first)
        self._column = np.append(self._column, np.array(columns, np.int64))
        self._share = np.append(self._share, np.ones(len(on)))
        self._append(shards, *given)
        self._relaxation.add(shards)

    @event
    def remove_shard(self, shard: Hashable) -> None:
        """Remove a shard and its replicas.

        Raises
        ------
        LoadBalancingError
            There is no such shard.
        """
        gone = self._delete(shard)
        keep, self._shard = without(self._shard, gone)
        self._column, self._share = self._column[keep], self._share[keep]
        self._relaxation.remove(shard, gone)

    @event
    def set_load(self, shard: Hashable, load: float) -> None:
        """Change the load of a shard.

        Parameters
        ----------
        load : float
            Load in the unit of the other shards.

        Raises
        ------
        LoadBalancingError
            There is no such shard, or the load is negative or not finite.
        """
        self._loads[self._index(shard)] = amount(f"shard {shard!r}: load", load)

    @event
    def set_size(self, shard: Hashable, size: float) -> None:
        """Change the size of a shard.

        Parameters
        ----------
        size : float
            Size in the unit of the servers' memory.

        Raises
        ------
        LoadBalancingError
            There is no such shard, or the size is negative or not finite.
        """
        self._sizes[self._index(shard)] = amount(f"shard {shard!r}: size", size)

    # ---- placements -------------------------------------------------------------------------------

    def measure(
        self, placement: ShardPlacement, bound: float = math.nan, *, solution: Solution | None = None
    ) -> BalancingRound:
        """Return a placement as the answer of this round, with its figures; change nothing.

        Parameters
        ----------
        placement : ShardPlacement
            Placement with indices of :attr:`shards` and :attr:`servers`.
        bound : float
            Lower bound on the cost of any placement within the band; NaN if unknown.
        solution : Solution, optional
            Solution of the linear program, if one was solved.

        Raises
        ------
        LoadBalancingError
            The placement exceeds a server's memory, or does not serve all of a shard.
        """
        fleet, before = self.fleet(), self.placement()
        n = fleet.memory.size
        for why in self._violated(placement):
            raise LoadBalancingError(why)
        new = np.flatnonzero(~among(placement.keys(n), before.keys(n)))
        cost = float(fleet.sizes[placement.shard[new]].sum())
        servers = self.servers
        return self.answer(
            placement,
            cost,
            bound,
            movements=new.size,
            replicas=len(placement),
            solution=solution,
            moves=tuple(
                Move(self._names[shard], None, servers[server], float(fleet.sizes[shard]))
                for shard, server in zip(placement.shard[new].tolist(), placement.server[new], strict=True)
            ),
            binding={} if solution is None else self._binding(solution),
            prices=self._prices if solution is None else solution.y,
        )

    def accept(self, done: BalancingRound) -> None:
        """Replace the last placement by that of an answer."""
        placement = done.placement
        self._shard, self._share = placement.shard.copy(), placement.share.copy()
        self._column = self._live[placement.server]
        self._prices, self._proven = done.prices, None
        self.number += 1

    def take(
        self, placement: ShardPlacement, bound: float = math.nan, *, solution: Solution | None = None
    ) -> BalancingRound:
        """Replace the last placement, and return the figures of the new one; raise as :meth:`measure`."""
        done = self.measure(placement, bound, solution=solution)
        self.accept(done)
        return done

    # ---- a round ---------------------------------------------------------------------------------

    def proven(self) -> BalancingRound | None:
        """Return an answer whose cost is proven least without the program, in a round with few changes.

        The proof is that nothing moves, or no more than :mod:`copter.problems.load_balancing.bound` requires,
        so the program could not improve the answer.  The program is updated in the next round that needs it.
        After many changes the program is solved in any case, because solvers are compared on such rounds.

        Returns
        -------
        BalancingRound or None
            None if the program must be solved.

        Raises
        ------
        LoadBalancingError
            The memory cannot hold the shards; the error names the shard, or the totals.
        """
        self.check()
        fleet = self.fleet()
        if not self._relaxation.has_units_of(fleet):
            return None
        if self._relaxation.changed(fleet, self._replicas, self._memory.size).size > _MUCH * len(self._names):
            return None
        fleet, last, carried = self._carry()
        placement = self._shim.proven(fleet, last, carried)
        return None if placement is None else self.measure(placement, carried.needed)

    def prepare(self) -> None:
        """Turn all events since the program's last update into edits of its changed parts.

        If an answer is proven best without the program (:meth:`proven`), the program is left as it is.
        """
        self._proven = self.proven()
        if self._proven is None:
            self.update_program()

    def update_program(self) -> None:
        """Turn all events since the program's last update into edits of its changed parts."""
        self.check()
        fleet = self.fleet()
        self._relaxation.update(fleet, self._names, self._replicas, self._live, self._memory.size)

    def start(self) -> tuple[SparseX, Floats] | None:
        """Return the start of a solver: last round's replicas with the best shares for this round's loads.

        If these replicas suffice, nothing need move, at prices of 0, and the solver's first pass confirms it.
        If they do not, the rows that they violate show the solver which columns are worth using, also in a
        first round, which has no prices. The result is None if the answer is known, if no shard has a
        replica, and in a first round with many moves, because the replicas are then far from an answer.
        """
        if self._proven is not None:
            return None
        fleet, _, carried = self._carry()
        there = carried.placement
        many = carried.needed > _MANY * fleet.sizes.sum()
        if not len(there) or (many and not self._prices.size):
            return None
        slots = self.program.request_slots[there.shard]
        columns = self._live[there.server]
        order = np.lexsort((columns, slots))
        value = there.share * (fleet.loads / self._relaxation.load_unit)[there.shard]
        rows = self.program.store.rows.size
        known = self._prices[:rows] if self._prices.size and not carried.enough else np.empty(0)
        return SparseX(slots[order], columns[order], value[order]), np.append(
            known, np.zeros(rows - known.size)
        )

    def _carry(self) -> tuple[ShardFleet, ShardPlacement, Carried]:
        """Return fleet, last placement and its best shares; compute them only if something changed."""
        fleet, last = self.fleet(), self.placement()
        if self._carried is None or not _same(self._carried[:2], (fleet, last)):
            self._carried = fleet, last, self._shim.carry(fleet, last)
        return self._carried

    def solve(self, solver: Solver) -> Solution | BalancingRound:
        """Solve the program, unless the answer is known."""
        return self._proven or solver.solve(self.program)

    def round(self, solution: Solution | BalancingRound) -> BalancingRound:
        """Return the answer from rounding a solution of :attr:`program`; change nothing.

        If the shim's search finds no place for a shard, branch and bound searches for 10 seconds, or for the
        rest of the round if that is less (:mod:`copter.clock`).

        Parameters
        ----------
        solution : Solution
            Solution of the program after :meth:`prepare`, or the answer if it was known.

        Raises
        ------
        NoAllocationError
            The solution has no allocation.
        LoadBalancingError
            The memory cannot hold the shards; the error names a shard.
        """
        if isinstance(solution, BalancingRound):
            return solution
        check_found(solution)
        fleet, last, carried = self._carry()
        if carried.enough:
            placement = carried.placement
        else:
            placement = self._rounded(solution, fleet, last, carried)
        # the program's rows are a little narrower than the band, so their difference is subtracted at these
        # prices
        margin = MARGIN * self._tolerance * fleet.mean / self._relaxation.load_unit
        margin *= float(abs(solution.y[self.program.resource_slots]).sum())
        bound = (
            (solution.bound - margin) * self._relaxation.size_unit
            if math.isfinite(solution.bound)
            else math.nan
        )
        bound = max(carried.needed, bound) if math.isfinite(bound) else carried.needed
        return self.measure(placement, bound, solution=solution)

    def fallback(self) -> BalancingRound:
        """Return the last placement, repaired to keep the memory and serve all shards; change nothing.

        Raises
        ------
        LoadBalancingError
            The memory cannot hold the shards; the error names a shard.
        """
        self.check()
        fleet, last = self.fleet(), self.placement()
        try:
            placement = self._shim.repair(fleet, last)
        except ShardPlacementError as error:
            placement = self._shim.repair(fleet, packed(fleet, last, self._names[error.shard]))
        return self.measure(placement)

    def _binding(self, solution: Solution) -> dict[Hashable, float]:
        """Return the servers with binding bands and their prices; rows have the numbers of columns."""
        return {
            server: solution.price[column]
            for server, column in self._columns.items()
            if solution.price[column]
        }

    def _rounded(
        self,
        solution: Solution,
        fleet: ShardFleet,
        last: ShardPlacement,
        carried: Carried,
    ) -> ShardPlacement:
        """Return the placement from rounding a solution, if last round's replicas do not suffice."""
        index = np.full(int(self.program.request_slots.max(initial=0)) + 1, -1)
        index[self.program.request_slots] = np.arange(self._loads.size)
        x = solution.nonzeros
        shard, server = index[x.slot], self._positions()[x.column]
        good = (x.value > _LEAST_SHARE) & (server >= 0)
        load = x.value[good] * (self._relaxation.load_unit / (fleet.mean or 1.0))
        answer = shard[good], server[good], load
        try:
            return self._shim.round(fleet, last, *answer, carried)
        except ShardPlacementError as error:
            return self._shim.round(fleet, packed(fleet, last, self._names[error.shard]), *answer)

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random changes of loads, and occasionally a shard or server that is added or removed."""
        shards, servers = self.shards, self.servers
        if rng.random() < 0.2:
            yield "set_loads", rng.zipf(1.5, len(shards)).clip(0, 1000).astype(float)
        else:
            for k in rng.choice(len(shards), 3, replace=False).tolist():
                yield "set_load", shards[k], float(rng.uniform(0, 20))
        name = f"{self.number}-{int(rng.integers(1 << 30))}"
        match int(rng.integers(8)):
            case 0 if len(shards) < 48:
                yield "add_shard", name, float(rng.uniform(0, 20)), float(rng.integers(1, 4))
            case 1 if len(shards) > 12:
                yield "remove_shard", shards[int(rng.integers(len(shards)))]
            case 2 if len(servers) < 10:
                yield "add_server", name, 40.0
            case 3 if len(servers) > 5:
                yield "remove_server", servers[int(rng.integers(len(servers)))]
            case 4:
                yield "set_memory", servers[int(rng.integers(len(servers)))], float(rng.integers(35, 60))
            case 5:
                yield "set_size", shards[int(rng.integers(len(shards)))], float(rng.integers(1, 4))

    # ---- inside ----------------------------------------------------------------------------------

    @property
    def _replicas(self) -> PlacedReplicas:
        """Replicas of the last round."""
        return PlacedReplicas(self._shard, self._column, self._share)

    def _positions(self) -> Ints:
        """Return the index in :attr:`servers` of each column; -1 for a column without a server."""
        position = np.full(self._memory.size, -1)
        position[self._live] = np.arange(self._live.size)
        return position

    def _renormalise(self) -> None:
        total = np.bincount(self._shard, self._share, self._loads.size)
        self._share = self._share / total[self._shard]


def _same(first: tuple[ShardFleet, ShardPlacement], second: tuple[ShardFleet, ShardPlacement]) -> bool:
    return all(
        np.array_equal(value, vars(other)[name])
        for one, other in zip(first, second, strict=True)
        for name, value in vars(one).items()
    )
