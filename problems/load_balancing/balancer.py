"""LoadBalancer: shards on servers, few replicas moved a round, from events to edits of a ContinualProgram.

The exact problem (thesis section 5.1.1, with constraint (c) as the authors' code has it): shares R and
replicas X of shard j on server i, last placement T, sizes s, loads l with mean L a server, memory m,

    minimise    sum_ij (1 - T_ij) s_j X_ij
    subject to  sum_i R_ij = 1,   R_ij <= X_ij,   X_ij in {0, 1}
                L - eps <= sum_j l_j R_ij <= L + eps,   sum_j s_j X_ij <= m_i

In its relaxation costs and memory only push X down, so X = R.  The program here has that relaxation's
columns in units of load, x_ij = l_j R_ij / U:

    minimise    sum_ij (1 - T_ij) (s_j / l_j) x_ij
    subject to  sum_i x_ij = l_j / U,   (1 - width) L / U <= sum_j x_ij <= (1 + width) L / U

U is what L was when it was last chosen; it stays while L is near it, so that a new load of one shard edits
one request, and the bounds of the rows.  Every shard has the same columns, which store nothing but their
costs; new loads change a total and a cost scale a shard, new placements a few overrides, and no coefficient.
The memory rows,
sum_j (s_j / l_j) x_ij <= m_i, are left out: their coefficients would change in every column in every
round, and they say little, for a share takes only its part of the memory that a replica takes whole (in the
experiments they are never tight).  Without them the program is a relaxation still, so its bound holds, and
the shim keeps the memory whatever the answer.

When the shim's search finds no place for a shard, `_pack` puts one replica of each into the memory of
the servers.  Shards of the same size are alike, so the program counts them:

    minimise    sum_gi s_g m_gi                     size of what is not where it was
    subject to  sum_i n_gi = shards of size s_g,    m_gi >= n_gi - shards of that size that are on i
                sum_g s_g n_gi <= memory of i,      n_gi >= 0 integral

Its branch and bound (HiGHS, by way of scipy) finds a packing, proves that there is none, or runs out of time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, eye_array, kron

from copter.arrays import Flags, Floats, Ints
from copter.problems.load_balancing.outcome import (
    BalancingRound,
    LoadBalancingError,
    amount,
    imbalance,
    in_band,
)
from copter.problems.load_balancing.replicas import SLACK
from copter.problems.load_balancing.shim import (
    MARGIN,
    Carried,
    ReplicaShim,
    ShardFleet,
    ShardPlacement,
    ShardPlacementError,
    among,
)
from copter.program.program import ContinualProgram, SharedColumns
from copter.rounds.record import Move
from copter.rounds.rounds import Rounds
from copter.solution import Solution, check_found
from copter.solvers.base import Solver
from copter.store.allocation import SparseX

TOLERANCE = 0.05
_LEAST_LOAD = 1e-4
"""In units of the mean: the cost of colder shards is that of this load, which keeps the costs' range, and
the bound a bound."""
_LEAST_SHARE = 1e-9
_NEAR = 1.25
"""Factor by which a mean may differ from what it is measured in, until that is chosen anew."""
_MUCH = 0.1
"""Share of the shards: where more have changed the program is solved, whether that is needed or not."""


_SECONDS = 10.0
_GAP = 0.1
_INFEASIBLE = 2


class LoadBalancer:
    """Shards with loads and sizes, servers with memory, and the placement of the last round.

    Parameters
    ----------
    tolerance : float
        The most loaded server may have 1 + 2 tolerance times the load of the least loaded one.

    Attributes
    ----------
    number : int
        Rounds so far.

    Examples
    --------
    >>> from copter.problems.load_balancing import LoadBalancer
    >>> from copter import make_solver
    >>> balancer = LoadBalancer()
    >>> for server in ("a", "b"):
    ...     balancer.add_server(server, memory=3)
    >>> for shard, load in {"hot": 60, "warm": 25, "cold": 15}.items():
    ...     balancer.add_shard(shard, load, server="a")
    >>> done = balancer.round(make_solver("copter"))
    >>> done.movements, done.imbalance <= 0.1
    (1, True)
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self.number = 0
        self._names: list[Hashable] = []
        self._place: dict[Hashable, int] = {}
        self._loads = np.empty(0)
        self._sizes = np.empty(0)
        self._columns: dict[Hashable, int] = {}
        self._live = np.empty(0, np.int64)
        self._memory = np.empty(0)
        # replicas of the last round, ascending by shard and by server in the order in which servers came
        self._shard = np.empty(0, np.int64)
        self._column = np.empty(0, np.int64)
        self._share = np.empty(0)
        self.tolerance = tolerance
        self.program = ContinualProgram()
        self._shim = ReplicaShim()
        self._arrived: list[Hashable] = []
        self._template: SharedColumns | None = None
        self._unit_load = self._unit_size = 0.0
        self._sent = _Sent()
        self._carried: tuple[ShardFleet, ShardPlacement, Carried] | None = None
        self._prices = np.empty(0)

    # ---- what is there ---------------------------------------------------------------------------

    @property
    def shards(self) -> list[Hashable]:
        """Ids of the shards."""
        return list(self._names)

    @property
    def servers(self) -> list[Hashable]:
        """Ids of the servers."""
        return list(self._columns)

    @property
    def tolerance(self) -> float:
        """How far the load of a server may be off the mean, relative to it."""
        return self._tolerance

    @tolerance.setter
    def tolerance(self, value: float) -> None:
        if not 0 < value < 1:
            raise LoadBalancingError(f"tolerance = {value!r}: must be between 0 and 1, for example 0.05")
        self._tolerance = float(value)

    def shares(self, shard: Hashable) -> dict[Hashable, float]:
        """Return the share of a shard's load by server, as of the last round.

        Returns
        -------
        dict of hashable to float
            They add up to 1; empty before the shard was placed.
        """
        servers = {column: server for server, column in self._columns.items()}
        mine = self._shard == self._shard_index(shard)
        pairs = zip(self._column[mine].tolist(), self._share[mine].tolist(), strict=True)
        return {servers[column]: share for column, share in pairs}

    def fleet(self) -> ShardFleet:
        """Shards and servers as the shim and the baselines see them, now and not after later events."""
        return ShardFleet(self._loads.copy(), self._sizes.copy(), self._memory[self._live], self._tolerance)

    def placement(self) -> ShardPlacement:
        """Return the placement of the last round, without what is gone since.

        Returns
        -------
        ShardPlacement
            Indices are those of :attr:`shards` and :attr:`servers`.
        """
        return ShardPlacement(self._shard.copy(), self._positions()[self._column], self._share.copy())

    # ---- events ----------------------------------------------------------------------------------

    def add_server(self, server: Hashable, memory: float) -> None:
        """Add a server.

        Parameters
        ----------
        memory : float
            In the unit of the shards' sizes.

        Raises
        ------
        LoadBalancingError
            The server is there, or the memory is no amount.
        """
        if server in self._columns:
            raise LoadBalancingError(f"server {server!r} exists already")
        memory = amount(f"server {server!r}: memory", memory)
        free = sorted(set(range(self._memory.size)) - set(self._columns.values()))
        if free:
            self._columns[server] = free[0]
            self._memory[free[0]] = memory
        else:
            self._columns[server] = self._memory.size
            self._memory = np.append(self._memory, memory)
        self._live = np.append(self._live, self._columns[server])

    def remove_server(self, server: Hashable) -> None:
        """Remove a server with its replicas; shards that had only those are placed anew.

        Raises
        ------
        LoadBalancingError
            There is none of this name.
        """
        column = self._columns.pop(self._known_server(server))
        self._live = self._live[self._live != column]
        keep = self._column != column
        self._shard, self._column, self._share = self._shard[keep], self._column[keep], self._share[keep]
        self._renormalise()

    def set_memory(self, server: Hashable, memory: float) -> None:
        """Change the memory of a server.

        Parameters
        ----------
        memory : float
            In the unit of the shards' sizes.

        Raises
        ------
        LoadBalancingError
            There is no such server, or the memory is no amount.
        """
        column = self._columns[self._known_server(server)]
        self._memory[column] = amount(f"server {server!r}: memory", memory)

    def add_shard(
        self, shard: Hashable, load: float, size: float = 1.0, server: Hashable | None = None
    ) -> None:
        """Add a shard.

        Parameters
        ----------
        load : float
            In any unit, the same for all shards.
        size : float
            In the unit of the servers' memory.
        server : hashable, optional
            Where it is already.

        Raises
        ------
        LoadBalancingError
            The shard is there, the server is not, or the load or the size is no amount.
        """
        load, size = amount(f"shard {shard!r}: load", load), amount(f"shard {shard!r}: size", size)
        self.add_shards([shard], load, size, [server])

    def add_shards(
        self,
        shards: Iterable[Hashable],
        loads: ArrayLike,
        sizes: ArrayLike = 1.0,
        servers: Iterable[Hashable | None] | None = None,
    ) -> None:
        """Add shards, all or none.

        Parameters
        ----------
        loads, sizes : float or (n,) array_like
            See :meth:`add_shard`.
        servers : iterable of hashable or None, optional
            Where each is already; None: nowhere yet.

        Raises
        ------
        LoadBalancingError
            Names the shard, the server or the argument.
        """
        shards = list(shards)
        places = [None] * len(shards) if servers is None else list(servers)
        amounts: list[list[float]] = []
        for name, given in (("loads", np.asarray(loads, float)), ("sizes", np.asarray(sizes, float))):
            if given.shape not in ((), (len(shards),)):
                raise LoadBalancingError(f"{name} of shape {given.shape}: there are {len(shards)} shards")
            amounts.append(np.broadcast_to(given, len(shards)).tolist())
        if len(places) != len(shards):
            raise LoadBalancingError(f"{len(places)} servers given: there are {len(shards)} shards")
        if len(set(shards)) < len(shards):
            twice = next(shard for k, shard in enumerate(shards) if shard in shards[:k])
            raise LoadBalancingError(f"shard {twice!r} is given twice")
        for shard, load, size, server in zip(shards, *amounts, places, strict=True):
            self._check_new(shard, load, size, server)
        first = len(self._names)
        on = [k for k, server in enumerate(places) if server is not None]
        columns = [self._columns[places[k]] for k in on]
        self._shard = np.append(self._shard, np.array(on, np.int64) + first)
        self._column = np.append(self._column, np.array(columns, np.int64))
        self._share = np.append(self._share, np.ones(len(on)))
        self._names.extend(shards)
        self._place.update(zip(shards, range(first, first + len(shards)), strict=True))
        self._loads, self._sizes = np.append(self._loads, amounts[0]), np.append(self._sizes, amounts[1])
        self._arrived.extend(shards)
        self._sent.add(len(shards))

    def _check_new(self, shard: Hashable, load: float, size: float, server: Hashable | None) -> None:
        if shard in self._place:
            raise LoadBalancingError(f"shard {shard!r} exists already")
        amount(f"shard {shard!r}: load", load)
        amount(f"shard {shard!r}: size", size)
        if server is not None:
            self._known_server(server)

    def remove_shard(self, shard: Hashable) -> None:
        """Remove a shard and its replicas.

        Raises
        ------
        LoadBalancingError
            There is none of this name.
        """
        gone = self._shard_index(shard)
        del self._names[gone]
        self._place = dict(zip(self._names, range(len(self._names)), strict=True))
        self._loads, self._sizes = np.delete(self._loads, gone), np.delete(self._sizes, gone)
        keep, self._shard = _without(self._shard, gone)
        self._column, self._share = self._column[keep], self._share[keep]
        self._sent.remove(gone)
        if shard in self.program:
            self.program.remove_request(shard)
        else:
            self._arrived.remove(shard)

    def set_load(self, shard: Hashable, load: float) -> None:
        """Change the load of a shard.

        Parameters
        ----------
        load : float
            In the unit of the others.

        Raises
        ------
        LoadBalancingError
            There is no such shard, or the load is no amount.
        """
        self._loads[self._shard_index(shard)] = amount(f"shard {shard!r}: load", load)

    def set_loads(self, loads: Mapping[Hashable, float] | ArrayLike) -> None:
        """Change the loads of the shards named, or of all in the order of :attr:`shards`; all or none.

        Raises
        ------
        LoadBalancingError
            There is no such shard, a load is no amount, or the array has another length.
        """
        if isinstance(loads, Mapping):
            where = [self._shard_index(shard) for shard in loads]
            fresh = self._loads.copy()
            fresh[where] = [amount(f"shard {shard!r}: load", load) for shard, load in loads.items()]
        else:
            fresh = np.array(loads, float)
            if fresh.shape != self._loads.shape:
                raise LoadBalancingError(f"loads of shape {fresh.shape}: there are {self._loads.size} shards")
            bad = ~((fresh >= 0) & np.isfinite(fresh))
            if bad.any():
                worst = int(bad.argmax())
                amount(f"shard {self._names[worst]!r}: load", float(fresh[worst]))
        self._loads = fresh

    def set_size(self, shard: Hashable, size: float) -> None:
        """Change the size of a shard.

        Parameters
        ----------
        size : float
            In the unit of the servers' memory.

        Raises
        ------
        LoadBalancingError
            There is no such shard, or the size is no amount.
        """
        self._sizes[self._shard_index(shard)] = amount(f"shard {shard!r}: size", size)

    # ---- a placement ------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the servers cannot hold the shards."""
        memory = self._memory[self._live]
        if not memory.size or not self._place:
            raise LoadBalancingError("there must be a server and a shard before a round")
        largest = int(self._sizes.argmax())
        if self._sizes[largest] > memory.max() * (1 + SLACK):
            shard, size = self.shards[largest], self._sizes[largest]
            raise LoadBalancingError(
                f"shard {shard!r} has size {size:g}, and no server has more than {memory.max():g} of memory"
            )
        needed, there = self._sizes.sum(), memory.sum()
        if needed > there * (1 + SLACK):
            raise LoadBalancingError(f"the shards need {needed:g} of memory, and all servers have {there:g}")

    def measure(
        self, placement: ShardPlacement, bound: float = math.nan, *, solution: Solution | None = None
    ) -> BalancingRound:
        """Return a placement as the answer of this round, with its figures; change nothing.

        Parameters
        ----------
        placement : ShardPlacement
            Indices are those of :attr:`shards` and :attr:`servers`.
        bound : float
            Lower bound on the cost of any placement within the band; NaN if there is none.
        solution : Solution, optional
            The solution of the linear program, if one was solved.

        Raises
        ------
        LoadBalancingError
            It exceeds a server's memory, or does not serve all of a shard.
        """
        fleet, before = self.fleet(), self.placement()
        n = fleet.memory.size
        total = np.bincount(placement.shard, placement.share, fleet.loads.size)
        if (abs(total - 1.0) > 1e-9).any():
            shard = int(abs(total - 1.0).argmax())
            raise LoadBalancingError(f"shard {self._names[shard]!r}: {total[shard]:.1%} of it is served")
        used = np.bincount(placement.server, fleet.sizes[placement.shard], n)
        over = used - fleet.memory
        if (over > SLACK * fleet.memory).any():
            server = int(over.argmax())
            why = f"{used[server]:g} of its {fleet.memory[server]:g} of memory is used"
            raise LoadBalancingError(f"server {self.servers[server]!r}: {why}")
        new = np.flatnonzero(~among(placement.keys(n), before.keys(n)))
        cost = float(fleet.sizes[placement.shard[new]].sum())
        ratio, servers = imbalance(fleet, placement), self.servers
        return BalancingRound(
            number=self.number,
            placement=placement,
            movements=new.size,
            cost=cost,
            imbalance=ratio,
            balanced=ratio <= 2.0 * self._tolerance + 1e-9,
            in_band=in_band(fleet, placement),
            memory=float((used[fleet.memory > 0] / fleet.memory[fleet.memory > 0]).max(initial=0.0)),
            replicas=len(placement),
            bound=bound,
            gap=(cost - bound) / max(fleet.unit_size, cost),
            solution=solution,
            moves=tuple(
                Move(self._names[shard], None, servers[server], float(fleet.sizes[shard]))
                for shard, server in zip(placement.shard[new].tolist(), placement.server[new], strict=True)
            ),
            binding={} if solution is None else self._binding(solution),
            prices=self._prices if solution is None else solution.y,
        )

    def accept(self, done: BalancingRound) -> None:
        """Make the placement of an answer the last one."""
        placement = done.placement
        self._shard, self._share = placement.shard.copy(), placement.share.copy()
        self._column = self._live[placement.server]
        self._prices = done.prices
        self.number += 1

    def take(
        self, placement: ShardPlacement, bound: float = math.nan, *, solution: Solution | None = None
    ) -> BalancingRound:
        """Make a placement the last one, and return its figures; raises the errors of :meth:`measure`."""
        done = self.measure(placement, bound, solution=solution)
        self.accept(done)
        return done

    # ---- a round ---------------------------------------------------------------------------------

    def round(self, solver: Solver, *, deadline: float | None = None) -> BalancingRound:
        """Play a round (:class:`copter.Rounds`): bring the program up to date, solve it, place the replicas.

        Parameters
        ----------
        deadline : float, optional
            Seconds of the round. One that would be late keeps the last placement, as far as the memory allows
            it; a shard that has no server gets one.

        Raises
        ------
        LoadBalancingError
            The memory cannot hold the shards: names the shard, or the totals. The last placement stays.
        """
        record = Rounds(ShardDomain(self), solver, deadline=deadline).play()
        seconds = record.seconds
        done: BalancingRound = record.answer
        return replace(
            done, edit_seconds=seconds.edit, solve_seconds=seconds.solve, rounding_seconds=seconds.round
        )

    def proven(self) -> BalancingRound | None:
        """Return the answer of a round after few changes without the program, if it is proven to cost least.

        The proof is that nothing moves, or that no more does than :mod:`copter.problems.load_balancing.bound`
        asks for; an answer of the program could add nothing.  The program is brought up to date in the next
        round that needs it.  After many changes it is solved all the same: solvers are compared on those
        rounds.

        Returns
        -------
        BalancingRound or None
            None if the program is to be solved.

        Raises
        ------
        LoadBalancingError
            The memory cannot hold the shards: names the shard, or the totals.
        """
        self.check()
        fleet = self.fleet()
        if not (_near(fleet.mean, self._unit_load) and _near(fleet.unit_size, self._unit_size)):
            return None
        if self._content(fleet).differs(self._sent, self._memory.size).size > _MUCH * len(self._names):
            return None
        fleet, last, carried = self._carry()
        placement = self._shim.proven(fleet, last, carried)
        return None if placement is None else self.measure(placement, carried.needed)

    def prepare(self) -> None:
        """Turn all events since the last round into edits of what differs in the program."""
        self.check()
        fleet = self.fleet()
        self._choose_units(fleet)
        self._set_rows(fleet)
        now = self._content(fleet)
        self._set_width(now.totals)
        some = now.differs(self._sent, self._memory.size)
        if some.size:
            ids = [self._names[k] for k in some.tolist()]
            counts, each = _replicas(self._shard, some)
            overrides = (counts, self._column[each], np.zeros(each.size))
            scales, totals = now.scales[some], now.totals[some]
            self.program.update_requests(ids, scales=scales, overrides=overrides, totals=totals)
        self._sent = now

    def start(self) -> tuple[SparseX, Floats] | None:
        """Return what last round's replicas can do for this round's loads, for a solver to begin from.

        Where they are enough nothing need move, at prices of 0: the solver's first pass finds that out. None
        in a first round in which much has to move: what there is is not near an answer then.
        """
        fleet, _, carried = self._carry()
        if not self._prices.size and not carried.enough:
            return None
        there = carried.placement
        slots = self.program.request_slots[there.shard]
        columns = self._live[there.server]
        order = np.lexsort((columns, slots))
        value = there.share * (fleet.loads / self._unit_load)[there.shard]
        rows = self.program.store.rows.size
        known = self._prices[:rows] if self._prices.size and not carried.enough else np.empty(0)
        return SparseX(slots[order], columns[order], value[order]), np.append(
            known, np.zeros(rows - known.size)
        )

    def _carry(self) -> tuple[ShardFleet, ShardPlacement, Carried]:
        """Fleet, last placement, and what that can do; again only if something has changed."""
        fleet, last = self.fleet(), self.placement()
        if self._carried is None or not _same(self._carried[:2], (fleet, last)):
            self._carried = fleet, last, self._shim.carry(fleet, last)
        return self._carried

    def place(self, solution: Solution, deadline: float | None = None) -> BalancingRound:
        """Return the answer that a solution of :attr:`program` is rounded to; change nothing.

        Parameters
        ----------
        solution : Solution
            The solution of the program as :meth:`prepare` left it.
        deadline : float, optional
            Seconds for branch and bound, if the shim's search finds no place for a shard; 10 at most.

        Raises
        ------
        NoAllocationError
            The solution has no allocation.
        LoadBalancingError
            The memory cannot hold the shards: names one.
        """
        check_found(solution)
        fleet, last, carried = self._carry()
        if carried.enough:
            placement = carried.placement
        else:
            placement = self._rounded(solution, fleet, last, carried, deadline)
        # the program's rows are a little narrower than the promise: what that is worth at these prices goes
        margin = MARGIN * self._tolerance * fleet.mean / self._unit_load
        margin *= float(abs(solution.y[self.program.resource_slots]).sum())
        bound = (solution.bound - margin) * self._unit_size if math.isfinite(solution.bound) else math.nan
        bound = max(carried.needed, bound) if math.isfinite(bound) else carried.needed
        return self.measure(placement, bound, solution=solution)

    def keep(self, deadline: float | None = None) -> BalancingRound:
        """Return the last placement as far as the memory allows it, with all shards served; change nothing.

        Parameters
        ----------
        deadline : float, optional
            As for :meth:`place`.

        Raises
        ------
        LoadBalancingError
            The memory cannot hold the shards: names one.
        """
        self.check()
        fleet, last = self.fleet(), self.placement()
        try:
            placement = self._shim.repair(fleet, last)
        except ShardPlacementError as error:
            placement = self._shim.repair(fleet, self._packed(fleet, last, error.shard, deadline))
        return self.measure(placement)

    def _binding(self, solution: Solution) -> dict[Hashable, float]:
        """Servers whose band binds a solution, with their prices; a row has the number of its column."""
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
        deadline: float | None,
    ) -> ShardPlacement:
        """Return the round a solution, after last round's replicas were not enough."""
        index = np.full(int(self.program.request_slots.max(initial=0)) + 1, -1)
        index[self.program.request_slots] = np.arange(self._loads.size)
        x = solution.nonzeros
        shard, server = index[x.slot], self._positions()[x.column]
        good = (x.value > _LEAST_SHARE) & (server >= 0)
        load = x.value[good] * (self._unit_load / (fleet.mean or 1.0))
        answer = shard[good], server[good], load
        try:
            return self._shim.round(fleet, last, *answer, carried)
        except ShardPlacementError as error:
            return self._shim.round(fleet, self._packed(fleet, last, error.shard, deadline), *answer)

    def _packed(
        self, fleet: ShardFleet, last: ShardPlacement, shard: int, deadline: float | None
    ) -> ShardPlacement:
        """Return each shard on one server, all packed anew, because the shim found no place for one."""
        seconds = _SECONDS if deadline is None else min(_SECONDS, deadline)
        packed, impossible = _pack(fleet, last, seconds)
        if packed is not None:
            return packed
        needed, there = fleet.sizes.sum(), fleet.memory.sum()
        totals = f"the shards need {needed:g} of memory, and all servers have {there:g}"
        if impossible:
            why = "no packing puts every shard on a server (proven by branch and bound)"
        else:
            why = f"none found, neither by moving replicas nor in {seconds:.3g} s of branch and bound"
        name = self._names[shard]
        raise LoadBalancingError(
            f"shard {name!r}: no place for it in the memory of any server: {why}; {totals}"
        )

    # ---- inside ----------------------------------------------------------------------------------

    def _positions(self) -> Ints:
        """Return the index in :attr:`servers` of each column; -1 of one that no server has."""
        position = np.full(self._memory.size, -1)
        position[self._live] = np.arange(self._live.size)
        return position

    def _known_server(self, server: Hashable) -> Hashable:
        if server not in self._columns:
            raise LoadBalancingError(f"no server {server!r}")
        return server

    def _known_shard(self, shard: Hashable) -> Hashable:
        if shard not in self._place:
            raise LoadBalancingError(f"no shard {shard!r}")
        return shard

    def _shard_index(self, shard: Hashable) -> int:
        return self._place[self._known_shard(shard)]

    def _choose_units(self, fleet: ShardFleet) -> None:
        """Measure loads and sizes in their means, anew only when these are no longer near."""
        if not _near(fleet.mean, self._unit_load):
            self._unit_load = fleet.mean or 1.0
        if not _near(fleet.unit_size, self._unit_size):
            self._unit_size = fleet.unit_size

    def _content(self, fleet: ShardFleet) -> _Sent:
        """Return what the program should have of the shards."""
        loads, sizes = fleet.loads / self._unit_load, fleet.sizes / self._unit_size
        scales = np.maximum(sizes, 1e-9) / np.maximum(loads, _LEAST_LOAD)
        return _Sent(loads, scales, self._shard, self._column)

    def _renormalise(self) -> None:
        total = np.bincount(self._shard, self._share, self._loads.size)
        self._share = self._share / total[self._shard]

    def _set_rows(self, fleet: ShardFleet) -> None:
        """A load row for each column; those of servers that are gone take nothing."""
        lower_band, upper_band = fleet.inner_band
        level = fleet.mean / self._unit_load
        lower, upper = np.zeros(self._memory.size), np.zeros(self._memory.size)
        lower[self._live], upper[self._live] = lower_band * level, upper_band * level
        known = self.program.resources[:]  # row i is that of column i
        fresh = range(len(known.ids), lower.size)
        if fresh:
            self.program.add_resources(fresh, upper=upper[fresh.start :], lower=lower[fresh.start :])
        off = (lower[: fresh.start] != known.lower) | (upper[: fresh.start] != known.upper)
        if off.any():
            columns = np.flatnonzero(off)
            self.program.update_resources(columns.tolist(), upper=upper[columns], lower=lower[columns])

    def _set_width(self, loads: Floats) -> None:
        """As many columns for each shard as there are servers, and requests for new shards."""
        n, old = self._memory.size, self._template
        if old is None or old.n_columns < n:
            self._template = self.program.share_columns({i: ([i], [1.0]) for i in range(n)}, n)
            known = np.array([k for k, shard in enumerate(self._names) if shard in self.program], np.int64)
            if known.size:
                counts, each = _replicas(self._shard, known)
                value = self._share[each] * loads[self._shard[each]]
                starts = counts, self._column[each], value
                self.program.update_requests(
                    [self._names[k] for k in known],
                    costs=np.ones(known.size * n),
                    sizes=np.full(known.size, n),
                    usage=self._template,
                    totals=loads[known],
                    starts=starts,
                )
                self._sent = _Sent()
                self._sent.add(len(self._names))
            if old is not None:
                self.program.forget(old)
        if self._arrived:
            assert self._template is not None
            count = len(self._arrived)
            totals = loads[[self._place[shard] for shard in self._arrived]]
            costs, sizes = np.ones(count * n), np.full(count, n)
            self.program.add_requests(
                self._arrived, costs, sizes, self._template, totals=totals, relation="=="
            )
            self._arrived = []


@dataclass
class _Sent:
    """What the program has of the shards: totals, scales, and replicas, whose columns cost nothing.

    `totals`, `scales` (k,): NaN for shards that are to be sent whatever they have. `shard`, `column` (m,):
    replicas, ascending by shard.
    """

    totals: Floats = field(default_factory=lambda: np.empty(0))
    scales: Floats = field(default_factory=lambda: np.empty(0))
    shard: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    column: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, count: int) -> None:
        """Take note of new shards, about which nothing was sent."""
        nothing = np.full(count, np.nan)
        self.totals, self.scales = np.append(self.totals, nothing), np.append(self.scales, nothing)

    def remove(self, gone: int) -> None:
        """Forget a shard."""
        self.totals, self.scales = np.delete(self.totals, gone), np.delete(self.scales, gone)
        keep, self.shard = _without(self.shard, gone)
        self.column = self.column[keep]

    def differs(self, other: _Sent, width: int) -> Ints:
        """Return the shards of which something differs, ascending; shards have ``width`` columns at most."""
        differs = (self.totals != other.totals) | (self.scales != other.scales)
        if not (np.array_equal(self.shard, other.shard) and np.array_equal(self.column, other.column)):
            mine, others = self.shard * width + self.column, other.shard * width + other.column
            differs[np.setxor1d(mine, others, assume_unique=True) // width] = True
        return np.flatnonzero(differs)


def _replicas(shard: Ints, some: Ints) -> tuple[Ints, Ints]:
    """Return how many replicas some shards have, and which.

    `shard` (m,): shard of each replica, ascending. `some` (k,).
    """
    begin, end = np.searchsorted(shard, some), np.searchsorted(shard, some, "right")
    counts = end - begin
    return counts, np.arange(counts.sum()) + np.repeat(end - counts.cumsum(), counts)


def _near(mean: float, unit: float) -> bool:
    return unit > 0.0 and unit / _NEAR <= mean <= unit * _NEAR


def _without(shard: Ints, gone: int) -> tuple[Flags, Ints]:
    """Return which replicas are not of a shard, and the shards of those once it is gone."""
    keep = shard != gone
    rest = shard[keep]
    return keep, rest - (rest > gone)


def _same(first: tuple[ShardFleet, ShardPlacement], second: tuple[ShardFleet, ShardPlacement]) -> bool:
    return all(
        np.array_equal(value, vars(other)[name])
        for one, other in zip(first, second, strict=True)
        for name, value in vars(one).items()
    )


def _pack(fleet: ShardFleet, last: ShardPlacement, seconds: float) -> tuple[ShardPlacement | None, bool]:
    """Return a placement of each shard on one server, and whether it is proven that there is none.

    `last`: shards stay where their largest share is if that can be. `seconds`: time limit.
    """
    k, n = fleet.loads.size, fleet.memory.size
    home = np.full(k, -1)
    order = np.argsort(last.share, kind="stable")
    home[last.shard[order]] = last.server[order]
    sizes, group = np.unique(fleet.sizes / fleet.unit_size, return_inverse=True)
    g = sizes.size
    there = home >= 0
    old = np.bincount(group[there] * n + home[there], minlength=g * n)
    alike, on = kron(eye_array(g), np.ones((1, n))), kron(sizes[None, :], eye_array(n))
    rows = block_array([[alike, None], [on, None], [eye_array(g * n), -eye_array(g * n)]], format="csr")
    counts = np.bincount(group, minlength=g).astype(float)
    lower = np.concatenate((counts, np.full(n + g * n, -np.inf)))
    upper = np.concatenate((counts, fleet.memory / fleet.unit_size, old))
    found = milp(
        np.concatenate((np.zeros(g * n), np.repeat(sizes, n))),
        integrality=np.repeat([1, 0], g * n),
        bounds=Bounds(0.0, np.inf),
        constraints=LinearConstraint(rows, lower, upper),
        options={"time_limit": seconds, "mip_rel_gap": _GAP},
    )
    if found.x is None:
        return None, found.status == _INFEASIBLE
    server = _assign(np.round(found.x[: g * n]).astype(np.int64).reshape(g, n), group, home)
    used = np.bincount(server, fleet.sizes, n)
    if (used > fleet.memory * (1 + SLACK)).any():
        return None, False
    return ShardPlacement(np.arange(k), server, np.ones(k)), False


def _assign(counts: Ints, group: Ints, home: Ints) -> Ints:
    """Server of each shard: its own where that still takes one of its size, else one that lacks them."""
    left, server = counts.copy(), np.full(group.size, -1)
    for shard in np.flatnonzero(home >= 0):
        if left[group[shard], home[shard]] > 0:
            server[shard] = home[shard]
            left[group[shard], home[shard]] -= 1
    for size in range(left.shape[0]):
        waiting = np.flatnonzero((group == size) & (server < 0))
        server[waiting] = np.repeat(np.arange(left.shape[1]), left[size])
    return server


EVENTS = (
    "add_server",
    "remove_server",
    "set_memory",
    "add_shard",
    "add_shards",
    "remove_shard",
    "set_load",
    "set_loads",
    "set_size",
)
"""Methods of :class:`LoadBalancer` that are events: an event is a tuple of the name and its arguments."""


class ShardDomain:
    """The rounds of a balancer.

    `balancer`: taken with its present state; its methods may still be called between rounds.
    """

    def __init__(self, balancer: LoadBalancer) -> None:
        self.balancer = balancer
        self._proven: BalancingRound | None = None

    @property
    def program(self) -> ContinualProgram:
        """The balancer's program."""
        return self.balancer.program

    def apply(self, event: tuple[Any, ...]) -> None:
        """Make an event: a name of :data:`EVENTS`, and the arguments of that method."""
        name, *arguments = event
        if name not in EVENTS:
            raise LoadBalancingError(f"event {name!r}: there are {', '.join(EVENTS)}")
        getattr(self.balancer, name)(*arguments)

    def prepare(self) -> None:
        """Bring the program up to date, unless an answer is proven to be the best without it."""
        self._proven = self.balancer.proven()
        if self._proven is None:
            self.balancer.prepare()

    def start(self) -> Any:
        """Return what last round's replicas can do."""
        return None if self._proven is not None else self.balancer.start()

    def solve(self, solver: Solver, deadline: float | None) -> Solution | BalancingRound:
        """Solve the program, unless the answer is known."""
        return self._proven or solver.solve(self.program, deadline=deadline)

    def round(self, solution: Solution | BalancingRound, deadline: float | None) -> BalancingRound:
        """Return the placement of a solution."""
        return solution if isinstance(solution, BalancingRound) else self.balancer.place(solution, deadline)

    def fallback(self, deadline: float | None) -> BalancingRound:
        """Return the last placement, as far as the memory allows it."""
        return self.balancer.keep(deadline)

    def accept(self, answer: BalancingRound) -> None:
        """Make a placement the last one."""
        self.balancer.accept(answer)
        self._proven = None

    def figures(self, answer: BalancingRound) -> dict[str, float]:
        """Return what a report shows."""
        return {
            "movements": answer.movements,
            "imbalance": answer.imbalance,
            "balanced": answer.balanced,
            "memory": answer.memory,
            "replicas": answer.replicas,
            "proven": answer.proven,
        }
