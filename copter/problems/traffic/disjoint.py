"""Edge-disjoint paths: a maximum flow of unit capacities between two nodes, split into paths.

The flow is that of Edmonds and Karp: it is augmented along a shortest path of the residual network, found by
a search from both ends, while there is such a path.  Ties are broken by the order of links only, so the paths
do not depend on the distribution of the work.  The result is that of :func:`networkx.edge_disjoint_paths`,
without the cycles that networkx' paths may have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel
from copter.problems.traffic.topology import Topology


class Residual(NamedTuple):
    """The residual network, with arcs in both directions between two nodes with at least one link.

    `start` (N + 1,): arcs of node ``u`` are ``start[u]`` to ``start[u + 1]``. `head` (A,). `link` (A,): the
    link along the arc, -1 if there is a link in the other direction only. `reverse` (A,): the arc in the
    other direction.
    """

    start: NDArray[np.int32]
    head: NDArray[np.int32]
    link: NDArray[np.int32]
    reverse: NDArray[np.int32]

    @classmethod
    def of(cls, topology: Topology) -> Residual:
        """Return the residual network of a topology; a node's arcs are in the order of its links."""
        arcs: list[dict[int, int]] = [{} for _ in range(topology.n_nodes)]
        for tail, head in zip(topology.tail.tolist(), topology.head.tolist(), strict=True):
            arcs[tail].setdefault(head, 0)
            arcs[head].setdefault(tail, 0)
        start = np.cumsum([0, *map(len, arcs)]).astype(np.int32)
        position = {ends: k for k, ends in enumerate((u, v) for u, own in enumerate(arcs) for v in own)}
        head = np.array([v for _, v in position], np.int32)
        link = np.array([topology.links.get(ends, -1) for ends in position], np.int32)
        reverse = np.array([position[v, u] for u, v in position], np.int32)
        return cls(start, head, link, reverse)


@kernel(allocates=True, inner=True)
def _augment(net, source, target, flow, before, after, queues, seen, stamp):  # type: ignore[no-untyped-def]
    """Send one more unit along a shortest augmenting path; return False if there is no such path.

    `before` and `after` have, for each node, the arc by which the search from the source and from the target
    reached it. `seen` has the number (`stamp`) of the last search that reached the node.
    """
    seen[0, source] = stamp
    seen[1, target] = stamp
    queues[0, 0, 0] = source
    queues[1, 0, 0] = target
    sizes = np.array([1, 1])
    turn = np.array([0, 0])
    middle = -1
    while middle < 0:
        side = 0 if sizes[0] <= sizes[1] else 1
        here = queues[side, turn[side]]
        there = queues[side, 1 - turn[side]]
        found = 0
        for k in range(sizes[side]):
            u = here[k]
            for arc in range(net.start[u], net.start[u + 1]):
                v = net.head[arc]
                if seen[side, v] == stamp:
                    continue
                along = arc if side == 0 else net.reverse[arc]
                # An arc has room if its link has no flow, or if there is flow in the other direction.
                if flow[along] == 1 or (net.link[along] < 0 and flow[net.reverse[along]] == 0):
                    continue
                seen[side, v] = stamp
                if side == 0:
                    before[v] = along
                else:
                    after[v] = along
                if seen[1 - side, v] == stamp:
                    middle = v
                    break
                there[found] = v
                found += 1
            if middle >= 0:
                break
        if middle < 0 and found == 0:
            return False
        turn[side] = 1 - turn[side]
        sizes[side] = found
    v = middle
    while v != source:
        arc = before[v]
        _send(net, arc, flow)
        v = net.head[net.reverse[arc]]
    v = middle
    while v != target:
        arc = after[v]
        _send(net, arc, flow)
        v = net.head[arc]
    return True


@kernel(inner=True)
def _send(net, arc, flow):  # type: ignore[no-untyped-def]
    back = net.reverse[arc]
    if flow[back] == 1:
        flow[back] = 0
    else:
        flow[arc] = 1


@kernel(inner=True)
def _walk(net, first, target, flow, nodes, arcs, place, mark):  # type: ignore[no-untyped-def]
    """Follow the flow from its first arc to the target without cycles; return the number of arcs in `arcs`.

    `place` is the position of a node on the way; it is valid in this walk if `mark` is the walk's first arc.
    """
    source = net.head[net.reverse[first]]
    mark[source] = first
    place[source] = 0
    nodes[0] = source
    length = 0
    arc = first
    while True:
        flow[arc] = 0
        v = net.head[arc]
        if mark[v] == first and place[v] <= length and nodes[place[v]] == v:
            length = place[v]
        else:
            arcs[length] = arc
            length += 1
            mark[v] = first
            place[v] = length
            nodes[length] = v
        if v == target:
            return length
        arc = net.start[v + 1] - 1
        while flow[arc] == 0:
            arc -= 1


@kernel(allocates=True)
def disjoint_from(net, source, targets, k):  # type: ignore[no-untyped-def]
    """Return the paths from one node to others: their numbers, the hops of each path, and all their links.

    `targets` (T,). `k`: largest number of paths per target. The numbers (T,) are 0 for unreachable targets.
    """
    n_nodes = net.start.size - 1
    flow = np.zeros(net.head.size, np.int8)
    before = np.empty(n_nodes, np.int32)
    after = np.empty(n_nodes, np.int32)
    queues = np.empty((2, 2, n_nodes), np.int32)
    seen = np.full((2, n_nodes), -1, np.int64)
    place = np.zeros(n_nodes, np.int64)
    mark = np.full(n_nodes, -1, np.int64)
    nodes = np.empty(n_nodes + 1, np.int32)
    leaving = _degree(net, source, True)
    walks = np.empty((leaving, n_nodes), np.int32)
    lengths = np.empty(leaving, np.int64)
    counts = np.empty(targets.size, np.int64)
    hops = np.empty(targets.size * min(k, leaving), np.int64)
    links = np.empty(max(targets.size * 8, n_nodes), np.int32)
    paths, used, stamp = 0, 0, 0
    for t in range(targets.size):
        target = targets[t]
        possible = min(leaving, _degree(net, target, False))
        flow[:] = 0
        value = 0
        while value < possible:
            stamp += 1
            if not _augment(net, source, target, flow, before, after, queues, seen, stamp):
                break
            value += 1
        found = 0
        mark[:] = -1
        for arc in range(net.start[source], net.start[source + 1]):
            if flow[arc] == 1:
                lengths[found] = _walk(net, arc, target, flow, nodes, walks[found], place, mark)
                found += 1
        order = np.argsort(lengths[:found], kind="mergesort")
        counts[t] = min(found, k)
        for rank in range(counts[t]):
            walk = order[rank]
            size = lengths[walk]
            if used + size > links.size:
                grown = np.empty(2 * links.size + size, np.int32)
                grown[:used] = links[:used]
                links = grown
            for j in range(size):
                links[used + j] = net.link[walks[walk, j]]
            used += size
            hops[paths] = size
            paths += 1
    return counts, hops[:paths].copy(), links[:used].copy()


@kernel(inner=True)
def _degree(net, node, out):  # type: ignore[no-untyped-def]
    count = 0
    for arc in range(net.start[node], net.start[node + 1]):
        count += net.link[arc if out else net.reverse[arc]] >= 0
    return count
