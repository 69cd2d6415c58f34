"""The best pattern of tasks for a server's free capacity: branch and bound, one server after another.

At the value g_k of a task of each kind, the best pattern of server s is

    phi_s(g) = max { sum_k g_k a_k : a_k tasks of kind k fit together, a_k <= most_k, a >= 0 integral }.

Kinds are tried in descending order of g_k divided by the largest share of the free capacity that a task
takes.  A branch ends where an upper bound on its value does not exceed the best pattern so far.  The smaller
of two bounds is used.

*Fractional bound.*  Let s_k be the vector of the shares of CPU, memory and GPUs that a task takes.  With
weights theta >= 0 and the scalar product (x, y),

    sum_k g_k a_k <= max_k (g_k / (theta, s_k)) (theta, free shares),         for a few theta.

*GPU bound.*  At prices p of CPU and memory at which tasks without GPUs have no gain,

    sum_k g_k a_k <= (p, free CPU and memory) + sum over GPUs of h_p(free capacity of the GPU),       for a
    few p,

where h_p(u) is the largest sum of g_k minus the cost at p of the tasks on one GPU with free capacity u.  This
knapsack is the same for all servers with a GPU model.  A task with n GPUs counts as n tasks, each with the
n-th part. Of the few p, the one with the smallest bound for the whole server is used.

Both bounds also hold for the untried branches, so a search that ends early returns a bound on what it missed.
GPUs with equal free capacity are interchangeable, and tasks of a kind take GPUs in ascending order, so no
pattern is tried twice.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.clock import current
from copter.compile.kernels import kernel
from copter.parallel import run_chunks
from copter.problems.placement.occupancy import Fleet, Free, fits, take
from copter.problems.placement.servers import MILLI

_MOST_TASKS = 64
"""Largest number of tasks of a pattern; the bound includes larger patterns."""
_AT_ONCE = 4096
"""Number of servers in a chunk that one thread searches."""
NODES = 400
"""Number of nodes of the search on a server after which it ends early."""
_LATE_NODES = 20
"""This number after the deadline: the remaining servers are searched fast, with loose bounds."""
_PIECE_SECONDS = 5e-3
"""If a search of some servers takes less time than this, the next one has twice as many."""
_THETAS = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 3], [3, 0, 1]],
    np.float64,
)
_DIRECTIONS = ((1.0, 0.0), (1.0, 0.2), (1.0, 1.0), (0.2, 1.0), (0.0, 1.0))
"""Ratios of the prices of CPU and memory, relative to a server's mean capacity."""
_STEPS = 6
"""Number of prices in each direction."""


class Mixes(NamedTuple):
    """The best patterns that were found, for some servers.

    `value` (n,): value of each server's pattern; 0 for an empty pattern. `bound` (n,): upper bound on the
    value. `begins` (n + 1,): server i has the tasks begins[i] to begins[i + 1] - 1. `kinds`, `gpus` (tasks,):
    kind and bit set of the GPUs of each task.
    """

    value: Floats
    bound: Floats
    begins: Ints
    kinds: Ints
    gpus: Ints


def best_mixes(
    free: Free,
    fleet: Fleet,
    servers: Ints,
    gain: Floats,
    most: Ints,
    nodes: int = NODES,
    together: bool = False,
) -> Mixes:
    """Return the best pattern of each server.

    With `together`, servers choose one after another from the tasks that earlier servers have left. Otherwise
    every server chooses from all tasks. The arguments do not change.

    `servers` (n,). `gain` (kinds,): value of a task of each kind; a kind without a positive gain is in no
    pattern. `most` (kinds,): largest number of tasks of each kind, in a pattern or together. `nodes`: number
    of branch-and-bound nodes after which the search on a server ends early.
    """
    kinds = np.flatnonzero((gain > 0.0) & (most > 0))
    kinds = kinds[np.argsort(fleet.cpu[kinds], kind="stable")]
    n = servers.size
    value, bound, sizes = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    tasks = [_Tasks.room(0)]
    if kinds.size and n:
        # The search counts GPUs in units of the largest number of thousandths that divides all requests.
        unit = int(np.gcd.reduce(np.append(fleet.milli[kinds], MILLI)))
        free = Free(free.cpu.copy(), free.memory.copy(), free.gpus // unit)
        fleet = fleet._replace(milli=fleet.milli // unit)
        search = _Search.of(free, fleet, kinds, gain, most.copy(), nodes, MILLI // unit)
        clock = current()  # clock of this thread; the threads of the parts have none
        begins = [0, n] if together else [*range(0, n, _AT_ONCE), n]

        def some(part: int) -> list[_Tasks]:
            its, found, at, end = search.own(), [], begins[part], begins[part + 1]
            room = _Tasks.room(_MOST_TASKS + 2 * (end - at))
            piece = end if clock is None or clock.left() == math.inf else 1
            while at < end:
                if clock is not None and clock.over():
                    its = its._replace(nodes=min(its.nodes, _LATE_NODES))
                begun, until = time.perf_counter(), min(at + piece, end)
                at, used = _search_some(
                    free, fleet, servers, at, until, its, together, value, bound, sizes, room
                )
                piece *= 2 if time.perf_counter() - begun < _PIECE_SECONDS else 1
                found.append(_Tasks(room.kinds[:used].copy(), room.gpus[:used].copy()))
            return found

        tasks += [its for part in run_chunks(some, len(begins) - 1, None) for its in part]
    kind, gpus = (np.concatenate(arrays) for arrays in zip(*tasks, strict=True))
    return Mixes(value, bound, np.concatenate([[0], np.cumsum(sizes)]), kind, gpus)


class _Tasks(NamedTuple):
    """Arrays for the tasks of patterns."""

    kinds: Ints
    gpus: Ints

    @classmethod
    def room(cls, tasks: int) -> _Tasks:
        return cls(np.empty(tasks, np.int64), np.empty(tasks, np.int64))


class _Search(NamedTuple):
    """Data of a search, by candidate (a kind that fits) or by depth (the number of placed tasks).

    `kinds` (kinds,): kinds with tasks and a positive gain, in order of their CPU. `gain`, `most`, `nodes`:
    as for :func:`best_mixes`. `thetas` (t, 3). `price` (p, 2): prices of CPU and memory. `on_gpu` (p,
    models, units of a GPU + 1): h_p. `size` (3,): free CPU, memory and GPUs of the server, each at least 1.
    `kind`, `density` (kinds,): of each candidate. `share` (kinds, 3). `in_parts` (t, kinds + 1): largest g_k
    / (theta, s_k) of this and all later candidates. `left` (depths, m): free capacity of each GPU. `room`
    (depths, 3): free CPU, memory and GPUs. `value` (depths,). `at`, `gpu` (depths,): next candidate and GPU.
    `tried`, `bits` (depths,): the placed candidate and its GPUs. `placed` (kinds,): number of tasks of each
    candidate in the pattern.
    """

    kinds: Ints
    gain: Floats
    most: Ints
    nodes: int
    thetas: Floats
    price: Floats
    on_gpu: Floats
    size: Floats
    kind: Ints
    density: Floats
    share: Floats
    in_parts: Floats
    left: Ints
    room: Ints
    value: Floats
    at: Ints
    gpu: Ints
    tried: Ints
    bits: Ints
    placed: Ints

    @classmethod
    def of(
        cls, free: Free, fleet: Fleet, kinds: Ints, gain: Floats, most: Ints, nodes: int, units: int
    ) -> _Search:
        parts = np.maximum(fleet.gpus[kinds], 1)
        its = gain[kinds] / parts
        asked = np.column_stack([fleet.cpu, fleet.memory])[kinds] / parts[:, None]
        price = _prices(free, asked, its, fleet.gpus[kinds] == 0)
        on_gpu = np.zeros((len(price), fleet.allowed.shape[1], units + 1))
        _knapsacks(price, kinds, its, asked, fleet, on_gpu)
        scratch = _scratch(kinds.size, free.gpus.shape[1])
        return cls(kinds, gain, most, nodes, _THETAS, price, on_gpu, *scratch)

    def own(self) -> _Search:
        """Return a search with the same data and new work arrays."""
        return _Search(*self[:7], *_scratch(self.kinds.size, self.left.shape[1]))


def _scratch(kinds: int, gpus: int) -> tuple[Any, ...]:
    """Return new work arrays for a search."""
    depths = _MOST_TASKS + 1
    return (
        np.empty(3),
        np.empty(kinds, np.int64),
        np.empty(kinds),
        np.empty((kinds, 3)),
        np.empty((len(_THETAS), kinds + 1)),
        np.empty((depths, gpus), np.int64),
        np.empty((depths, 3), np.int64),
        np.empty(depths),
        *(np.empty(depths, np.int64) for _ in range(4)),
        np.empty(kinds, np.int64),
    )


def _prices(free: Free, asked: Floats, its: Floats, alone: Flags) -> Floats:
    """Return prices of CPU and memory at which tasks without GPUs have no gain; (p, 2).

    `asked` (n, 2): CPU and memory of a kind for each of its GPUs, or in all if it has no GPU. `its` (n,):
    gain for each GPU, or in all. `alone` (n,): whether the kind has no GPU.
    """
    mean = np.array([max(float(free.cpu.mean()), 1.0), max(float(free.memory.mean()), 1.0)])
    prices = [np.zeros((0, 2))]
    for weights in _DIRECTIONS:
        direction = np.array(weights) / mean
        takes = asked @ direction
        if np.any(takes[alone] <= 0.0):
            continue  # at this ratio, no price removes the gain of such a task
        ratio = np.divide(its, takes, out=np.zeros_like(its), where=takes > 0.0)
        low, high = ratio[alone].max(initial=0.0), ratio[~alone].max(initial=0.0)
        scales = [low]
        if high > low:
            scales += list(np.geomspace(max(low, 1e-3 * high), high, _STEPS))
        prices.append(np.outer(scales, direction))
    return np.concatenate(prices)


@kernel
def _knapsacks(price: Floats, kinds: Ints, its: Floats, asked: Floats, fleet: Fleet, on_gpu: Floats) -> None:
    for p in range(on_gpu.shape[0]):
        for model in range(on_gpu.shape[1]):
            for units in range(1, on_gpu.shape[2]):
                best = on_gpu[p, model, units - 1]
                for at in range(kinds.size):
                    kind = kinds[at]
                    rest = units - fleet.milli[kind]
                    if fleet.gpus[kind] and rest >= 0 and fleet.allowed[kind, model]:
                        net = its[at] - asked[at, 0] * price[p, 0] - asked[at, 1] * price[p, 1]
                        best = max(best, on_gpu[p, model, rest] + net)
                on_gpu[p, model, units] = best


@kernel
def _search_some(
    free: Free,
    fleet: Fleet,
    servers: Ints,
    begin: int,
    end: int,
    search: _Search,
    together: bool,
    value: Floats,
    bound: Floats,
    sizes: Ints,
    room: _Tasks,
) -> tuple[int, int]:
    """Search servers while the arrays have room; return the next server, and the number of tasks."""
    used = 0
    for one in range(begin, end):
        if used + _MOST_TASKS > room.kinds.size:
            return one, used
        server = servers[one]
        n = _candidates(free, fleet, server, search)
        if n:
            _bound_in_parts(n, search)
            value[one], bound[one], sizes[one] = _search(free, fleet, server, n, search, room, used)
            if together:
                for task in range(used, used + sizes[one]):
                    take(free, fleet, room.kinds[task], server, room.gpus[task], 1)
                    search.most[room.kinds[task]] -= 1
            used += sizes[one]
    return end, used


@kernel(inner=True)
def _candidates(free: Free, fleet: Fleet, server: int, search: _Search) -> int:
    """Sort the kinds that fit on a server by gain divided by largest share; return their number."""
    s = search
    gpus = 0
    for gpu in range(free.gpus.shape[1]):
        gpus += free.gpus[server, gpu]
    s.size[0], s.size[1], s.size[2] = max(free.cpu[server], 1), max(free.memory[server], 1), max(gpus, 1)
    n = 0
    for kind in s.kinds:
        if fleet.cpu[kind] > free.cpu[server]:  # this holds for all later kinds, too
            break
        if s.most[kind] <= 0 or not fits(free, fleet, kind, server):
            continue
        cpu, memory = fleet.cpu[kind] / s.size[0], fleet.memory[kind] / s.size[1]
        gpu_share = fleet.gpus[kind] * fleet.milli[kind] / s.size[2]
        density = s.gain[kind] / max(max(cpu, memory), max(gpu_share, 1e-9))
        at = n
        while at > 0 and s.density[at - 1] < density:
            s.density[at], s.kind[at] = s.density[at - 1], s.kind[at - 1]
            for r in range(3):
                s.share[at, r] = s.share[at - 1, r]
            at -= 1
        s.density[at], s.kind[at] = density, kind
        s.share[at, 0], s.share[at, 1], s.share[at, 2] = cpu, memory, gpu_share
        n += 1
    return n


@kernel(inner=True)
def _bound_in_parts(n: int, search: _Search) -> None:
    """Compute the largest g_k / (theta, s_k) of each candidate and all later ones."""
    s = search
    for theta in range(s.thetas.shape[0]):
        s.in_parts[theta, n] = 0.0
        for at in range(n - 1, -1, -1):
            weight = 0.0
            for r in range(3):
                weight += s.thetas[theta, r] * s.share[at, r]
            ratio = s.gain[s.kind[at]] / weight if weight > 0.0 else np.inf
            s.in_parts[theta, at] = max(s.in_parts[theta, at + 1], ratio)


@kernel(inner=True)
def _rest(model: int, price: int, at: int, depth: int, enough: float, search: _Search) -> float:
    """Return an upper bound on the gain of candidates from `at` on; it is not tightened below `enough`."""
    s = search
    cpu, memory = s.room[depth, 0] / s.size[0], s.room[depth, 1] / s.size[1]
    gpus, least = s.room[depth, 2] / s.size[2], np.inf
    for theta in range(s.thetas.shape[0]):
        weight = s.thetas[theta, 0] * cpu + s.thetas[theta, 1] * memory + s.thetas[theta, 2] * gpus
        if s.in_parts[theta, at] < np.inf:
            least = min(least, s.in_parts[theta, at] * weight)
        if least <= enough:
            return least
    if price >= 0:
        least = min(least, _on_gpus(model, depth, price, s))
    return least


@kernel(inner=True)
def _on_gpus(model: int, depth: int, price: int, search: _Search) -> float:
    """Return the GPU bound at one of the prices."""
    s = search
    total = s.price[price, 0] * s.room[depth, 0] + s.price[price, 1] * s.room[depth, 1]
    for gpu in range(s.left.shape[1]):
        total += s.on_gpu[price, model, s.left[depth, gpu]]
    return total


@kernel(inner=True)
def _best_price(model: int, search: _Search) -> int:
    """Return the price with the smallest bound for the whole server; -1 if there are no prices."""
    best, least = -1, np.inf
    for price in range(search.price.shape[0]):
        total = _on_gpus(model, 0, price, search)
        if total < least:
            best, least = price, total
    return best


@kernel(inner=True)
def _next_gpus(fleet: Fleet, at: int, depth: int, search: _Search) -> int:
    """Return the bit set of GPUs to try next for a task; -1 if all different sets have been tried."""
    s = search
    kind, begin, m = s.kind[at], s.gpu[depth], s.left.shape[1]
    milli, count = fleet.milli[kind], fleet.gpus[kind]
    if count != 1:
        s.gpu[depth] = m + 1
        bits = 0
        for gpu in range(m):
            if count and s.left[depth, gpu] >= milli:
                bits |= 1 << gpu
                count -= 1
        return bits if begin == 0 and count == 0 else -1
    first = 0
    if depth > 0 and s.tried[depth - 1] == at:  # the previous task is of the same kind
        while not (s.bits[depth - 1] >> first) & 1:
            first += 1
    for gpu in range(max(first, begin), m):
        other = s.left[depth, gpu] >= milli
        for before in range(first, gpu):
            other = other and s.left[depth, before] != s.left[depth, gpu]
        if other:
            s.gpu[depth] = gpu + 1
            return 1 << gpu
    return -1


@kernel(inner=True)
def _place(fleet: Fleet, at: int, bits: int, depth: int, search: _Search) -> None:
    """Add a task to the pattern."""
    s = search
    kind, below = s.kind[at], depth + 1
    s.tried[depth], s.bits[depth] = at, bits
    s.placed[at] += 1
    s.room[below, 0] = s.room[depth, 0] - fleet.cpu[kind]
    s.room[below, 1] = s.room[depth, 1] - fleet.memory[kind]
    s.room[below, 2] = s.room[depth, 2] - fleet.milli[kind] * fleet.gpus[kind]
    for gpu in range(s.left.shape[1]):
        s.left[below, gpu] = s.left[depth, gpu] - fleet.milli[kind] * ((bits >> gpu) & 1)
    s.value[below] = s.value[depth] + s.gain[kind]
    s.at[below], s.gpu[below] = at, 0


@kernel(inner=True)
def _search(
    free: Free, fleet: Fleet, server: int, n: int, search: _Search, room: _Tasks, used: int
) -> tuple[float, float, int]:
    """Write a server's best pattern from `used` on; return its value, a bound and its number of tasks."""
    s, model = search, fleet.model[server]
    s.room[0, 0], s.room[0, 1], s.room[0, 2] = free.cpu[server], free.memory[server], 0
    for gpu in range(s.left.shape[1]):
        s.left[0, gpu] = free.gpus[server, gpu]
        s.room[0, 2] += s.left[0, gpu]
    uneven = False
    for at in range(n):
        s.placed[at] = 0
        uneven = uneven or (fleet.gpus[s.kind[at]] > 1 and fleet.milli[s.kind[at]] < s.on_gpu.shape[2] - 1)
    s.value[0], s.at[0], s.gpu[0] = 0.0, 0, 0
    best, missed, size, nodes, depth = 0.0, 0.0, 0, 0, 0
    price = _best_price(model, s)
    if uneven:  # the search does not try all sets of GPUs for tasks with shares of several GPUs
        missed = _rest(model, price, 0, 0, 0.0, s)
    while depth >= 0:
        at, bits, over = s.at[depth], -1, nodes >= s.nodes or depth >= _MOST_TASKS
        enough = best * (1.0 + 1e-9) - s.value[depth]
        rest = _rest(model, price, at, depth, enough, s) if at < n else 0.0
        if at >= n or rest <= enough or over:
            if over and at < n:
                missed = max(missed, s.value[depth] + rest)
            depth -= 1
            if depth >= 0:
                s.placed[s.tried[depth]] -= 1
            continue
        kind = s.kind[at]
        if (
            s.placed[at] < s.most[kind]
            and s.room[depth, 0] >= fleet.cpu[kind]
            and s.room[depth, 1] >= fleet.memory[kind]
        ):
            bits = _next_gpus(fleet, at, depth, s)
        if bits < 0:
            s.at[depth], s.gpu[depth] = at + 1, 0
            continue
        nodes += 1
        _place(fleet, at, bits, depth, s)
        depth += 1
        if s.value[depth] > best:
            best, size = s.value[depth], depth
            for task in range(depth):
                room.kinds[used + task], room.gpus[used + task] = s.kind[s.tried[task]], s.bits[task]
    return best, max(best, missed), size
