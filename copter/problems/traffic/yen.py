"""The k shortest simple paths between two nodes, after Yen (1971) with Lawler's rule.

Every new path leaves an earlier one at some node, the spur node.  The rest of the path is found by A*, with
the distances to the target in the whole network as the bound.  The bound is exact unless the shortest way is
blocked, so most searches visit few nodes other than those of the path.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from copter.arrays import Floats
from copter.compile.kernels import kernel
from copter.problems.traffic.topology import Topology


class Weighted(NamedTuple):
    """Usable links by their tail, with positive weights.

    `start` (N + 1,): links of node ``u`` are ``link[start[u]:start[u + 1]]``. `tail`, `head` (E,). `weight`
    (E,). `remaining` (N, N): ``remaining[t, u]`` is the distance from ``u`` to ``t``.
    """

    start: NDArray[np.int32]
    link: NDArray[np.int32]
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    weight: Floats
    remaining: Floats

    @classmethod
    def of(cls, topology: Topology, weight: Floats) -> Weighted:
        """Return the links of a topology, without those of infinite weight."""
        usable = np.flatnonzero(np.isfinite(weight))
        link = usable[np.argsort(topology.tail[usable], kind="stable")].astype(np.int32)
        degrees = np.bincount(topology.tail[link], minlength=topology.n_nodes)
        start = np.concatenate((np.zeros(1, np.int32), np.cumsum(degrees, dtype=np.int32)))
        ends = (topology.head[usable], topology.tail[usable])
        backwards = sparse.csr_array((weight[usable], ends), shape=(topology.n_nodes,) * 2)
        return cls(start, link, topology.tail, topology.head, weight, dijkstra(backwards))


@kernel(allocates=True, inner=True)
def _complete(net, spur, target, done, bound, blocked, banned, state, by):  # type: ignore[no-untyped-def]
    """Return the length of the shortest way from a spur node to the target without blocked nodes and links.

    The length includes `done`, that of the path up to the spur node, and is infinite if not below `bound`.
    The way is in `by`, the link by which each node was reached.

    ``state[u]`` is the least length to ``u`` so far, infinite before and after the search; ``blocked`` and
    ``banned`` are flags of nodes and links.
    """
    left = net.remaining[target]
    queue = [(done + left[spur], -done, np.int64(spur))]
    state[spur] = done
    touched = [np.int64(spur)]
    length = np.inf
    while len(queue) > 0:
        _, negated, u = heappop(queue)
        if u == target:
            length = -negated
            break
        if -negated > state[u]:
            continue
        for k in range(net.start[u], net.start[u + 1]):
            arc = net.link[k]
            v = net.head[arc]
            if blocked[v] or banned[arc]:
                continue
            so_far = state[u] + net.weight[arc]
            if so_far < state[v] and so_far + left[v] < bound:
                if state[v] == np.inf:
                    touched.append(np.int64(v))
                state[v] = so_far
                by[v] = arc
                heappush(queue, (so_far + left[v], -so_far, np.int64(v)))
    for u in touched:
        state[u] = np.inf
    return length


@kernel(allocates=True)
def shortest_from(net, source, targets, k):  # type: ignore[no-untyped-def]
    """Return the k shortest paths from one node to others: their numbers, hops of each, and the links of all.

    `targets` (T,). The numbers (T,) are 0 for unreachable targets.
    """
    n_nodes = net.start.size - 1
    blocked = np.zeros(n_nodes, np.bool_)
    banned = np.zeros(net.tail.size, np.bool_)
    state = np.full(n_nodes, np.inf)
    by = np.empty(n_nodes, np.int32)
    # Found paths are the rows 0 to found - 1; candidates are the rows k to k + live - 1.
    ways = np.empty((2 * k, n_nodes), np.int32)
    sizes = np.zeros(2 * k, np.int64)
    lengths = np.empty(2 * k)
    leaves = np.empty(2 * k, np.int64)
    counts = np.empty(targets.size, np.int64)
    hops = np.empty(targets.size * k, np.int64)
    links = np.empty(max(targets.size * 8, n_nodes), np.int32)
    paths, used = 0, 0
    for t in range(targets.size):
        target = targets[t]
        found = 0
        live = 0
        length = _complete(net, source, target, 0.0, np.inf, blocked, banned, state, by)
        if length < np.inf:
            _write(net, source, target, 0, by, ways[0], sizes, 0)
            lengths[0] = length
            leaves[0] = 0
            found = 1
        while 0 < found < k:
            live = _spurs(
                net, target, k, found, live, blocked, banned, state, by, ways, sizes, lengths, leaves
            )
            if live == 0:
                break
            best = k
            for row in range(k + 1, k + live):
                if lengths[row] < lengths[best]:
                    best = row
            _move(best, found, ways, sizes, lengths, leaves)
            found += 1
            live -= 1
            # Candidates stay in the order in which they were found, so the first of equals is chosen.
            for row in range(best, k + live):
                _move(row + 1, row, ways, sizes, lengths, leaves)
        counts[t] = found
        for row in range(found):
            size = sizes[row]
            if used + size > links.size:
                grown = np.empty(2 * links.size + size, np.int32)
                grown[:used] = links[:used]
                links = grown
            links[used : used + size] = ways[row, :size]
            used += size
            hops[paths] = size
            paths += 1
    return counts, hops[:paths].copy(), links[:used].copy()


@kernel(allocates=True, inner=True)
def _spurs(  # type: ignore[no-untyped-def]
    net, target, k, found, live, blocked, banned, state, by, ways, sizes, lengths, leaves
):
    """Add the paths that leave the last path after its own spur node; return the number of candidates.

    Only the best ``k - found`` candidates can be chosen, so a search stops at the worst of these.
    """
    last = found - 1
    wanted = k - found
    done = 0.0
    for at in range(sizes[last]):
        arc = ways[last, at]
        spur = net.tail[arc]
        if at >= leaves[last]:
            while live > wanted:
                live = _drop_worst(k, live, ways, sizes, lengths, leaves)
            bound = np.inf
            if live == wanted:
                bound = lengths[k : k + live].max()
            for row in range(found):
                if sizes[row] > at and _same(ways[row], ways[last], at):
                    banned[ways[row, at]] = True
            length = _complete(net, spur, target, done, bound, blocked, banned, state, by)
            for row in range(found):
                if sizes[row] > at:
                    banned[ways[row, at]] = False
            if length < np.inf:
                if live == wanted:
                    live = _drop_worst(k, live, ways, sizes, lengths, leaves)
                row = k + live
                ways[row, :at] = ways[last, :at]
                _write(net, spur, target, at, by, ways[row], sizes, row)
                lengths[row] = length
                leaves[row] = at
                live += 1
        blocked[spur] = True
        done += net.weight[arc]
    for at in range(sizes[last]):
        blocked[net.tail[ways[last, at]]] = False
    return live


@kernel(inner=True)
def _same(one, other, size):  # type: ignore[no-untyped-def]
    for j in range(size):
        if one[j] != other[j]:
            return False
    return True


@kernel
def _write(net, spur, target, at, by, way, sizes, row):  # type: ignore[no-untyped-def]
    """Append the way from a spur node to the target to the first `at` links of a path."""
    size = at
    v = target
    while v != spur:
        v = net.tail[by[v]]
        size += 1
    sizes[row] = size
    v = target
    while v != spur:
        size -= 1
        way[size] = by[v]
        v = net.tail[by[v]]


@kernel(allocates=True, inner=True)
def _move(row, to, ways, sizes, lengths, leaves):  # type: ignore[no-untyped-def]
    ways[to, : sizes[row]] = ways[row, : sizes[row]]
    sizes[to] = sizes[row]
    lengths[to] = lengths[row]
    leaves[to] = leaves[row]


@kernel(allocates=True, inner=True)
def _drop_worst(k, live, ways, sizes, lengths, leaves):  # type: ignore[no-untyped-def]
    """Remove the longest candidate, the last found of equals; return the number of candidates."""
    worst = k
    for row in range(k + 1, k + live):
        if lengths[row] >= lengths[worst]:
            worst = row
    for row in range(worst, k + live - 1):
        _move(row + 1, row, ways, sizes, lengths, leaves)
    return live - 1
