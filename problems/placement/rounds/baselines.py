"""Baselines for the placement of a round: CvxCluster's two stages, and branch and bound.

*Two stages.*  Let x_ks be the number of tasks of kind k on server s, b_sr its free CPU, memory and GPUs, e_kr
the request of a task, d_k the number of waiting tasks, and w_k the value of one.  An interior-point method
solves

    maximise    sum w_k x_ks
    subject to  sum_k e_kr x_ks <= b_sr                     every server and resource, price y_sr
                sum_s x_ks <= d_k                           every kind
                x >= 0,  and x_ks = 0 where no task of k fits on s.

Then tasks are placed one after another, in descending order of value over the largest share that a task
takes.  Each goes to the server on which it fits and where its request costs least at the prices.

*Branch and bound* has integral variables for each GPU: x_ksg tasks of one GPU on GPU g, x_ks tasks with no or
several (whole) GPUs, and z_sg = 1 if g is a whole one.  So each of its solutions is a placement.

Source: Nnorom, Boyd and Levis, "CvxCluster" (2026); the two stages follow its abstract.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.problems.placement.occupancy import Fleet, Free, fits, take, tightest
from copter.problems.placement.place import PlacementError
from copter.problems.placement.rounds.relaxation import Found
from copter.problems.placement.servers import MILLI


class Waiting(NamedTuple):
    """Input of a round.

    `demand` (kinds,): number of waiting tasks. `values` (kinds,): value of one. `servers` (n,): servers on
    which some waiting task fits.
    """

    free: Free
    fleet: Fleet
    demand: Ints
    values: Floats
    servers: Ints

    def pairs(self) -> tuple[Ints, Ints]:
        """Return all pairs of a server and a waiting kind that fits: position of the server, and kind."""
        kinds = np.flatnonzero(self.demand)
        there = np.zeros((self.servers.size, kinds.size), np.bool_)
        _fit(self.free, self.fleet, self.servers, kinds, there)
        at, which = np.nonzero(there)
        return at, kinds[which]

    def worth(self, found: Found) -> float:
        """Return the value of the tasks of a placement."""
        return float(self.values[found.kinds].sum())


class BaselinePlacement(NamedTuple):
    """A placement, and an upper bound on the value of the best one."""

    found: Found
    bound: float


_NOTHING = BaselinePlacement(Found(*(np.empty(0, np.int64) for _ in range(3))), 0.0)
"""Result if no task fits."""


def two_stages(waiting: Waiting) -> BaselinePlacement:
    """Place tasks by the prices of the relaxation, whose value is the bound."""
    import cvxpy

    free, fleet, servers = waiting.free, waiting.fleet, waiting.servers
    at, kind = waiting.pairs()
    if not at.size:
        return _NOTHING
    n = servers.size
    takes = np.array([fleet.cpu, fleet.memory, fleet.gpus * fleet.milli], np.float64)
    has = np.array([free.cpu[servers], free.memory[servers], free.gpus[servers].sum(axis=1)], np.float64)
    scale = np.maximum(has.max(axis=1), 1.0)
    rows = np.concatenate([at + r * n for r in range(3)])
    columns = np.tile(np.arange(at.size), 3)
    usage = sparse.csr_array(
        ((takes / scale[:, None])[:, kind].ravel(), (rows, columns)), shape=(3 * n, at.size)
    )
    by_kind = sparse.csr_array(
        (np.ones(at.size), (kind, np.arange(at.size))), shape=(takes.shape[1], at.size)
    )
    x = cvxpy.Variable(at.size, nonneg=True)
    capacity = usage @ x <= (has / scale[:, None]).ravel()
    problem = cvxpy.Problem(
        cvxpy.Maximize(waiting.values[kind] @ x), [capacity, by_kind @ x <= waiting.demand]
    )
    problem.solve(solver=cvxpy.CLARABEL)
    price = np.zeros((3, free.cpu.size))
    price[:, servers] = np.maximum(capacity.dual_value.reshape(3, n), 0.0) / scale[:, None]
    largest = (takes / np.maximum(has.mean(axis=1), 1.0)[:, None]).max(axis=0)
    kinds = np.argsort(-waiting.values / np.maximum(largest, 1e-12), kind="stable")
    tasks = np.repeat(kinds, waiting.demand[kinds])
    out = Found(*(np.empty(tasks.size, np.int64) for _ in range(3)))
    placed = _by_price(free.copy(), fleet, servers, tasks, np.ascontiguousarray(price.T), out)
    return BaselinePlacement(Found(*(array[:placed] for array in out)), float(problem.value))


def branch_and_bound(waiting: Waiting, seconds: float, gap: float) -> BaselinePlacement:
    """Place tasks by HiGHS within a time limit in seconds."""
    free, fleet, servers = waiting.free, waiting.fleet, waiting.servers
    at, kind = waiting.pairs()
    if not at.size:
        return _NOTHING
    if np.any((fleet.gpus[kind] > 1) & (fleet.milli[kind] < MILLI)):
        raise PlacementError("branch and bound: kinds must not have shares of several GPUs")
    m, n = free.gpus.shape[1], servers.size
    one = fleet.gpus[kind] == 1
    left = free.gpus[servers]
    # Columns: pairs without a single GPU, pairs with one for each GPU, GPUs that are whole.
    by_gpu, gpu = np.nonzero(left[at[one]] >= fleet.milli[kind[one]][:, None])
    at_all = np.concatenate([at[~one], at[one][by_gpu]])
    kind_all = np.concatenate([kind[~one], kind[one][by_gpu]])
    gpu_all = np.concatenate([np.full(np.count_nonzero(~one), -1), gpu])
    whole_at, whole_gpu = np.nonzero(left == MILLI)
    k, z = at_all.size, whole_at.size
    each = np.arange(k)
    rows: list[tuple[sparse.csr_array, NDArray[Any]]] = []

    def row(index: Ints, values: Floats, columns: Ints, size: int) -> sparse.csr_array:
        return sparse.csr_array((values, (index, columns)), shape=(size, k + z))

    rows.append((row(at_all, fleet.cpu[kind_all].astype(float), each, n), free.cpu[servers]))
    rows.append((row(at_all, fleet.memory[kind_all].astype(float), each, n), free.memory[servers]))
    on = gpu_all >= 0
    rows.append(
        (
            row(
                np.concatenate([at_all[on] * m + gpu_all[on], whole_at * m + whole_gpu]),
                np.concatenate([fleet.milli[kind_all[on]], np.full(z, MILLI)]).astype(float),
                np.concatenate([each[on], k + np.arange(z)]),
                n * m,
            ),
            left.ravel(),
        )
    )
    several = ~on & (fleet.gpus[kind_all] > 0)
    rows.append(
        (
            row(
                np.concatenate([at_all[several], whole_at]),
                np.concatenate([fleet.gpus[kind_all[several]], np.full(z, -1)]).astype(float),
                np.concatenate([each[several], k + np.arange(z)]),
                n,
            ),
            np.zeros(n),
        )
    )
    rows.append((row(kind_all, np.ones(k), each, waiting.demand.size), waiting.demand))
    answer = optimize.milp(
        -np.concatenate([waiting.values[kind_all], np.zeros(z)]),
        integrality=np.ones(k + z),
        bounds=optimize.Bounds(0, np.concatenate([np.full(k, np.inf), np.ones(z)])),
        constraints=[optimize.LinearConstraint(matrix, -np.inf, limit) for matrix, limit in rows],
        options={"time_limit": seconds, "mip_rel_gap": gap},
    )
    if answer.x is None:
        raise PlacementError(f"branch and bound: no solution within {seconds:g} s; raise the limit")
    many = np.rint(answer.x[:k]).astype(np.int64)
    whole = np.zeros((n, m), np.bool_)
    whole[whole_at, whole_gpu] = answer.x[k:] > 0.5
    tasks = [np.repeat(column, many) for column in (kind_all, at_all, gpu_all)]
    return BaselinePlacement(
        _with_gpus(fleet, servers, tasks[0], tasks[1], tasks[2], whole), -float(answer.mip_dual_bound)
    )


def _with_gpus(fleet: Fleet, servers: Ints, kinds: Ints, at: Ints, gpu: Ints, whole: Flags) -> Found:
    """Return the placement, with whole GPUs for the tasks with several GPUs."""
    bits = np.zeros(kinds.size, np.int64)
    rest = [list(np.flatnonzero(row)) for row in whole]
    for task, (kind, server, its) in enumerate(zip(kinds, at, gpu, strict=True)):
        if its >= 0:
            bits[task] = 1 << its
        for _ in range(fleet.gpus[kind] if its < 0 else 0):
            bits[task] |= 1 << int(rest[server].pop())
    return Found(kinds, servers[at], bits)


@kernel
def _fit(free: Free, fleet: Fleet, servers: Ints, kinds: Ints, there: Flags) -> None:
    for one in range(servers.size):
        for which in range(kinds.size):
            there[one, which] = fits(free, fleet, kinds[which], servers[one])


@kernel
def _by_price(free: Free, fleet: Fleet, servers: Ints, tasks: Ints, price: Floats, out: Found) -> int:
    """Place tasks where they fit and cost least; return the number of placed tasks."""
    placed = 0
    for kind in tasks:
        best, least = -1, 0.0
        for server in servers:
            if fits(free, fleet, kind, server):
                cost = price[server, 0] * fleet.cpu[kind] + price[server, 1] * fleet.memory[kind]
                cost += price[server, 2] * fleet.gpus[kind] * fleet.milli[kind]
                if best < 0 or cost < least:
                    best, least = server, cost
        if best >= 0:
            gpus = tightest(free.gpus[best], fleet.milli[kind], fleet.gpus[kind])
            take(free, fleet, kind, best, gpus, 1)
            out.kinds[placed], out.servers[placed], out.gpus[placed] = kind, best, gpus
            placed += 1
    return placed
