"""What a balancer knows: shards with loads and sizes, servers with memory, and where replicas are."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.problems.load_balancing.outcome import (
    BalancingRound,
    LoadBalancingError,
    amount,
    imbalance,
    in_band,
)
from copter.problems.load_balancing.replicas import SLACK
from copter.problems.load_balancing.spread import Fleet, Placement, among
from copter.solution import Solution

TOLERANCE = 0.05


class ShardState:
    """Shards with loads and sizes, servers with memory, and the placement of the last round.

    Parameters
    ----------
    tolerance : float
        The most loaded server may have 1 + 2 tolerance times the load of the least loaded one.

    Attributes
    ----------
    number : int
        Rounds so far.
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self.number = 0
        self._place: dict[Hashable, int] = {}
        self._loads = np.empty(0)
        self._sizes = np.empty(0)
        self._columns: dict[Hashable, int] = {}
        self._memory = np.empty(0)
        self._shard = np.empty(0, np.int64)
        self._column = np.empty(0, np.int64)
        self._share = np.empty(0)
        self.tolerance = tolerance

    # ---- what is there ---------------------------------------------------------------------------

    @property
    def shards(self) -> list[Hashable]:
        """Ids of the shards."""
        return list(self._place)

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
        """Share of a shard's load by server, as of the last round.

        Returns
        -------
        dict of hashable to float
            They add up to 1; empty before the shard was placed.
        """
        servers = {column: server for server, column in self._columns.items()}
        mine = self._shard == self._shard_index(shard)
        pairs = zip(self._column[mine].tolist(), self._share[mine].tolist(), strict=True)
        return {servers[column]: share for column, share in pairs}

    def fleet(self) -> Fleet:
        """Shards and servers as the shim and the baselines see them."""
        return Fleet(self._loads, self._sizes, self._memory[self._live()], self._tolerance)

    def placement(self) -> Placement:
        """Placement of the last round, without what is gone since.

        Returns
        -------
        Placement
            Indices are those of :attr:`shards` and :attr:`servers`.
        """
        live = self._live()
        position = np.full(self._memory.size, -1)
        position[live] = np.arange(live.size)
        order = np.lexsort((position[self._column], self._shard))
        return Placement(self._shard[order], position[self._column[order]], self._share[order])

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

    def remove_server(self, server: Hashable) -> None:
        """Remove a server with its replicas; shards that had only those are placed anew.

        Raises
        ------
        LoadBalancingError
            There is none of this name.
        """
        column = self._columns.pop(self._known_server(server))
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
        for field, given in (("loads", np.asarray(loads, float)), ("sizes", np.asarray(sizes, float))):
            if given.shape not in ((), (len(shards),)):
                raise LoadBalancingError(f"{field} of shape {given.shape}: there are {len(shards)} shards")
            amounts.append(np.broadcast_to(given, len(shards)).tolist())
        if len(places) != len(shards):
            raise LoadBalancingError(f"{len(places)} servers given: there are {len(shards)} shards")
        if len(set(shards)) < len(shards):
            twice = next(shard for k, shard in enumerate(shards) if shard in shards[:k])
            raise LoadBalancingError(f"shard {twice!r} is given twice")
        for shard, load, size, server in zip(shards, *amounts, places, strict=True):
            self._check_new(shard, load, size, server)
        first = len(self._place)
        on = [k for k, server in enumerate(places) if server is not None]
        columns = [self._columns[places[k]] for k in on]
        self._shard = np.append(self._shard, np.array(on, np.int64) + first)
        self._column = np.append(self._column, np.array(columns, np.int64))
        self._share = np.append(self._share, np.ones(len(on)))
        self._place.update(zip(shards, range(first, first + len(shards)), strict=True))
        self._loads, self._sizes = np.append(self._loads, amounts[0]), np.append(self._sizes, amounts[1])

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
        gone = self._place.pop(self._known_shard(shard))
        self._loads, self._sizes = np.delete(self._loads, gone), np.delete(self._sizes, gone)
        for other in self._place:
            self._place[other] -= self._place[other] > gone
        keep = self._shard != gone
        shard_of = self._shard[keep]
        self._shard = shard_of - (shard_of > gone)
        self._column, self._share = self._column[keep], self._share[keep]

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

        Parameters
        ----------
        loads : mapping of hashable to float, or (k,) array_like

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
                amount(f"shard {self.shards[worst]!r}: load", float(fresh[worst]))
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
        memory = self._memory[self._live()]
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

    def take(
        self,
        placement: Placement,
        bound: float = math.nan,
        *,
        solution: Solution | None = None,
        seconds: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> BalancingRound:
        """Make a placement, whoever found it, the last one.

        Parameters
        ----------
        placement : Placement
            Indices are those of :attr:`shards` and :attr:`servers`.
        bound : float
            Lower bound on the cost of any placement within the band; NaN if there is none.
        solution : Solution, optional
            The solution of the linear program, if one was solved.
        seconds : (float, float, float)
            The seconds of edit, solve and shim.

        Raises
        ------
        LoadBalancingError
            It exceeds a server's memory, or does not serve all of a shard: nothing is taken over.
        """
        fleet, before = self.fleet(), self.placement()
        n = fleet.memory.size
        total = np.bincount(placement.shard, placement.share, fleet.loads.size)
        if (abs(total - 1.0) > 1e-9).any():
            shard = int(abs(total - 1.0).argmax())
            raise LoadBalancingError(f"shard {self.shards[shard]!r}: {total[shard]:.1%} of it is served")
        used = np.bincount(placement.server, fleet.sizes[placement.shard], n)
        over = used - fleet.memory
        if (over > SLACK * fleet.memory).any():
            server = int(over.argmax())
            why = f"{used[server]:g} of its {fleet.memory[server]:g} of memory is used"
            raise LoadBalancingError(f"server {self.servers[server]!r}: {why}")
        new = ~among(placement.keys(n), before.keys(n))
        cost = float(fleet.sizes[placement.shard[new]].sum())
        floor = max(fleet.unit_size, cost)
        ratio = imbalance(fleet, placement)
        done = BalancingRound(
            number=self.number,
            placement=placement,
            movements=int(new.sum()),
            cost=cost,
            imbalance=ratio,
            balanced=ratio <= 2.0 * self._tolerance + 1e-9,
            in_band=in_band(fleet, placement),
            memory=float((used[fleet.memory > 0] / fleet.memory[fleet.memory > 0]).max(initial=0.0)),
            replicas=len(placement),
            bound=bound,
            gap=(cost - bound) / floor,
            solution=solution,
            t_edit=seconds[0],
            t_solve=seconds[1],
            t_shim=seconds[2],
        )
        columns = self._live()[placement.server]
        self._shard, self._column, self._share = placement.shard.copy(), columns, placement.share.copy()
        self.number += 1
        return done

    # ---- inside ----------------------------------------------------------------------------------

    def _live(self) -> NDArray[np.int64]:
        """Columns of the servers, in the order of :attr:`servers`."""
        return np.fromiter(self._columns.values(), np.int64, len(self._columns))

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

    def _units(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Loads in units of the mean load of a server, sizes in units of the mean size."""
        mean = float(self._loads.sum()) / len(self._columns)
        return self._loads / (mean or 1.0), self._sizes / self.fleet().unit_size

    def _renormalise(self) -> None:
        total = np.bincount(self._shard, self._share, self._loads.size)
        self._share = self._share / total[self._shard]
