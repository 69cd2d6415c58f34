"""LoadBalancer: shards on servers, few replicas moved a round, from events to edits of a ContinualProgram.

The exact problem (thesis section 5.1.1, with constraint (c) as the authors' code has it): shares R and
replicas X of shard j on server i, last placement T, sizes s, loads l with mean L a server, memory m,

    minimise    sum_ij (1 - T_ij) s_j X_ij
    subject to  sum_i R_ij = 1,   R_ij <= X_ij,   X_ij in {0, 1}
                L - eps <= sum_j l_j R_ij <= L + eps,   sum_j s_j X_ij <= m_i

In its relaxation costs and memory only push X down, so X = R.  The program here has that relaxation's
columns in units of load, x_ij = l_j R_ij / L:

    minimise    sum_ij (1 - T_ij) (s_j / l_j) x_ij
    subject to  sum_i x_ij = l_j / L,   1 - width <= sum_j x_ij <= 1 + width

Every shard then has the same columns, which store nothing but their costs; new loads change a total and a
cost scale a shard, new placements a few overrides, and no coefficient.  The memory rows,
sum_j (s_j / l_j) x_ij <= m_i, are left out: their coefficients would change in every column in every
round, and they say little, for a share takes only its part of the memory that a replica takes whole (in the
experiments they are never tight).  Without them the program is a relaxation still, so its bound holds, and
the shim keeps the memory whatever the answer.

When the shim's search finds no place for a shard, :func:`pack` puts one replica of each into the memory of
the servers.  Shards of the same size are alike, so the program counts them:

    minimise    sum_gi s_g m_gi                     size of what is not where it was
    subject to  sum_i n_gi = shards of size s_g,    m_gi >= n_gi - shards of that size that are on i
                sum_g s_g n_gi <= memory of i,      n_gi >= 0 integral

Its branch and bound (HiGHS, by way of scipy) finds a packing, proves that there is none, or runs out of time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, eye_array, kron

from copter.problems.load_balancing.outcome import BalancingRound, LoadBalancingError
from copter.problems.load_balancing.replicas import SLACK
from copter.problems.load_balancing.spread import (
    MARGIN,
    Carried,
    Fleet,
    Placement,
    PlacementError,
    SpreadShim,
)
from copter.problems.load_balancing.state import TOLERANCE, ShardState
from copter.program.program import ContinualProgram, SharedColumns
from copter.solution import Solution, check_found
from copter.solvers.base import Solver, takes_start
from copter.store.allocation import SparseX

_LEAST_LOAD = 1e-4
"""In units of the mean: the cost of colder shards is that of this load, which keeps the costs' range, and
the bound a bound."""
_LEAST_SHARE = 1e-9


class LoadBalancer(ShardState):
    """Shards with loads and sizes, servers with memory, and the placement of the last round.

    Parameters
    ----------
    tolerance : float
        The most loaded server may have 1 + 2 tolerance times the load of the least loaded one.

    Examples
    --------
    >>> from copter.problems.load_balancing import LoadBalancer
    >>> from copter.solvers import make_solver
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
        super().__init__(tolerance)
        self.program = ContinualProgram()
        self._shim = SpreadShim()
        self._arrived: list[Hashable] = []
        self._template: SharedColumns | None = None
        self._carried: tuple[Fleet, Placement, Carried] | None = None
        self._prices = np.empty(0)

    # ---- events ----------------------------------------------------------------------------------

    def add_shards(
        self,
        shards: Iterable[Hashable],
        loads: ArrayLike,
        sizes: ArrayLike = 1.0,
        servers: Iterable[Hashable | None] | None = None,
    ) -> None:
        """Add shards, all or none; see :meth:`.state.ShardState.add_shards`.

        Parameters
        ----------
        loads, sizes : float or (n,) array_like

        Raises
        ------
        LoadBalancingError
            Names the shard, or the server.
        """
        first = len(self._place)
        super().add_shards(shards, loads, sizes, servers)
        self._arrived.extend(list(self._place)[first:])

    def remove_shard(self, shard: Hashable) -> None:
        """Remove a shard and its replicas.

        Raises
        ------
        LoadBalancingError
            There is none of this name.
        """
        super().remove_shard(shard)
        if shard in self.program:
            self.program.remove_request(shard)
        else:
            self._arrived.remove(shard)

    # ---- a round ---------------------------------------------------------------------------------

    def round(self, solver: Solver, *, deadline: float | None = None) -> BalancingRound:
        """Bring the program up to date, solve it, and place the replicas.

        Parameters
        ----------
        deadline : float, optional
            Seconds that the solver may take.

        Raises
        ------
        LoadBalancingError
            The memory cannot hold the shards: names the shard, or the totals.
        NoAllocationError
            The solver has no answer: the last placement is still the last one.
        """
        begin = perf_counter()
        self.prepare()
        self.offer(solver)
        edited = perf_counter()
        solution = solver.solve(self.program, deadline=deadline)
        solved = perf_counter()
        return self.place(solution, t_edit=edited - begin, t_solve=solved - edited)

    def prepare(self) -> None:
        """Turn all events since the last round into edits of the program."""
        self.check()
        self._set_rows()
        self._set_width()
        loads, sizes = self._units()
        counts = np.bincount(self._shard, minlength=loads.size)
        order = np.argsort(self._shard, kind="stable")
        scales = np.maximum(sizes, 1e-9) / np.maximum(loads, _LEAST_LOAD)
        overrides = (counts, self._column[order], np.zeros(order.size))
        ids = self.shards
        self.program.update_requests(ids, scales=scales, overrides=overrides, totals=loads)

    def offer(self, solver: Solver) -> None:
        """Let a solver that can do so start from what last round's replicas can do for this round's loads.

        Where they are enough nothing need move, at prices of 0: the solver's first pass finds that out.

        Parameters
        ----------
        solver : Solver
            One that takes no start is left as it is.
        """
        if not takes_start(solver):
            return
        fleet, _, carried = self._carry()
        if not self._prices.size and not carried.enough:
            return  # a first round in which much has to move: not near this
        there = carried.placement
        slots = self.program.request_slots[there.shard]
        columns = self._live()[there.server]
        order = np.lexsort((columns, slots))
        value = there.share * (fleet.loads / (fleet.mean or 1.0))[there.shard]
        prices = np.zeros_like(self._prices) if carried.enough else self._prices
        solver.start_from(self.program, SparseX(slots[order], columns[order], value[order]), prices)

    def _carry(self) -> tuple[Fleet, Placement, Carried]:
        """Fleet, last placement, and what that can do; again only if something has changed."""
        fleet, last = self.fleet(), self.placement()
        if self._carried is None or not _same(self._carried[:2], (fleet, last)):
            self._carried = fleet, last, self._shim.carry(fleet, last)
        return self._carried

    def place(self, solution: Solution, *, t_edit: float = 0.0, t_solve: float = 0.0) -> BalancingRound:
        """Round a solution of :attr:`program` to a placement, which is the last one from then on.

        Parameters
        ----------
        solution : Solution
            The solution of the program as :meth:`prepare` left it.
        t_edit, t_solve : float
            Seconds that went before, for the record of the round.

        Raises
        ------
        NoAllocationError
            The solution has no allocation.
        LoadBalancingError
            The memory cannot hold the shards: names one.
        """
        check_found(solution)
        begin = perf_counter()
        live = self._live()
        position = np.full(self._memory.size, -1)
        position[live] = np.arange(live.size)
        index = np.full(int(self.program.request_slots.max(initial=0)) + 1, -1)
        index[self.program.request_slots] = np.arange(self._loads.size)
        x = solution.nonzeros
        shard, server = index[x.slot], position[x.column]
        good = (x.value > _LEAST_SHARE) & (server >= 0)
        fleet, last, carried = self._carry()
        self._prices = solution.y
        answer = shard[good], server[good], x.value[good]
        try:
            placement = self._shim.round(fleet, last, *answer, carried)
        except PlacementError as error:
            placement = self._shim.round(fleet, self._packed(fleet, last, error.shard), *answer)
        # the program's rows are a little narrower than the promise: what that is worth at these prices goes
        margin = MARGIN * self._tolerance * float(abs(solution.y[self.program.resource_slots]).sum())
        unit = fleet.unit_size
        bound = (solution.bound - margin) * unit if math.isfinite(solution.bound) else math.nan
        seconds = t_edit, t_solve, perf_counter() - begin
        bound = max(carried.needed, bound) if math.isfinite(bound) else carried.needed
        return self.take(placement, bound, solution=solution, seconds=seconds)

    def _packed(self, fleet: Fleet, last: Placement, shard: int) -> Placement:
        """Each shard on one server, all packed anew, because the shim found no place for one."""
        packed, impossible = pack(fleet, last)
        if packed is not None:
            return packed
        needed, there = fleet.sizes.sum(), fleet.memory.sum()
        totals = f"the shards need {needed:g} of memory, and all servers have {there:g}"
        if impossible:
            why = "no packing puts every shard on a server (proven by branch and bound)"
        else:
            why = "none found, neither by moving replicas that are there nor in 10 s of branch and bound"
        name = self.shards[shard]
        raise LoadBalancingError(
            f"shard {name!r}: no place for it in the memory of any server: {why}; {totals}"
        )

    # ---- inside ----------------------------------------------------------------------------------

    def _set_rows(self) -> None:
        """A load row for each column; those of servers that are gone take nothing."""
        live, (lower_band, upper_band) = self._live(), self.fleet().inner_band
        lower, upper = np.zeros(self._memory.size), np.zeros(self._memory.size)
        lower[live], upper[live] = lower_band if self._loads.any() else 0.0, upper_band
        known = self.program.resources[:]  # row i is that of column i
        fresh = range(len(known.ids), lower.size)
        if fresh:
            self.program.add_resources(fresh, upper=upper[fresh.start :], lower=lower[fresh.start :])
        off = (lower[: fresh.start] != known.lower) | (upper[: fresh.start] != known.upper)
        if off.any():
            columns = np.flatnonzero(off)
            self.program.update_resources(columns.tolist(), upper=upper[columns], lower=lower[columns])

    def _set_width(self) -> None:
        """As many columns for each shard as there are servers, and requests for new shards."""
        n, old = self._memory.size, self._template
        loads, sizes = self._units()
        if old is None or old.n_columns < n:
            self._template = self.program.share_columns({i: ([i], [1.0]) for i in range(n)}, n)
            for shard, k in self._place.items():
                if shard in self.program:
                    mine = self._shard == k
                    start = zip(
                        self._column[mine].tolist(), (self._share[mine] * loads[k]).tolist(), strict=True
                    )
                    self.program.update_request(
                        shard,
                        costs=np.ones(n),
                        usage=self._template,
                        total=float(loads[k]),
                        start=dict(start),
                    )
            if old is not None:
                self.program.forget(old)
        if self._arrived:
            assert self._template is not None
            count = len(self._arrived)
            totals = loads[[self._place[shard] for shard in self._arrived]]
            costs, widths = np.ones(count * n), np.full(count, n)
            self.program.add_requests(
                self._arrived, costs, widths, self._template, totals=totals, relation="=="
            )
            self._arrived = []


def _same(first: tuple[Fleet, Placement], second: tuple[Fleet, Placement]) -> bool:
    return all(
        np.array_equal(value, vars(other)[name])
        for one, other in zip(first, second, strict=True)
        for name, value in vars(one).items()
    )


SECONDS = 10.0
_GAP = 0.1
_INFEASIBLE = 2


def pack(fleet: Fleet, last: Placement, seconds: float = SECONDS) -> tuple[Placement | None, bool]:
    """Return a placement of each shard on one server, and whether it is proven that there is none.

    Parameters
    ----------
    last : Placement
        Shards stay where their largest share is if that can be.
    seconds : float
        Time limit.
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
    return Placement(np.arange(k), server, np.ones(k)), False


def _assign(
    counts: NDArray[np.int64], group: NDArray[np.int64], home: NDArray[np.int64]
) -> NDArray[np.int64]:
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
