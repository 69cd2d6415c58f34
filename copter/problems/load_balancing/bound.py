"""Lower bound on the size of new replicas in any placement within the band, by sets of servers.

In the relaxation, a tenth of a replica costs a tenth, so its optimum is nearly 0.  Whole replicas are counted
by *cuts*.  Let S be a set of servers, l_j the loads in units of a server's mean, s_j the sizes.

Out of S
    Shards with all replicas in S bring the load F(S) = sum l_j to it.  If F(S) > upper |S|, new replicas of
    these shards outside S must carry the excess.  One replica of shard j carries at most min(l_j, upper), and
    all replicas of the shard together at most l_j.  So their size is at least the cheapest cover

        minimise sum s_j z_j   subject to   sum gain_j z_j >= F(S) - upper |S|,   z_j in {0, 1}

    of new replicas, with a load above ``upper`` in pieces.
Into S
    Only shards with a replica in S bring load to it.  If that load is less than lower |S|, new replicas of
    other shards must bring the difference, with the same cover.
Memory
    Shards with all replicas on one server take memory there; their sizes above its memory must be moved.

A new replica of a shard leaves only one of several disjoint sets, and enters only one.  So over disjoint sets
the covers add up, separately for out, into and memory.  The bound is the largest of the three sums plus the
sizes of the shards without a replica.  The sets are the closures of the servers that are still outside the
band (:mod:`.shim`) after a maximum flow along last round's replicas.  Overlapping closures form a group.  The
value of a group is the largest of three: the cover of its union, the sum over disjoint closures in it, and
the sum over its single servers.

The covers are exact, by branch and bound over shards in the order of size per load; a cover that exceeds a
limit counts as its relaxation.
"""

from __future__ import annotations

import numpy as np

from copter.arrays import Floats
from copter.compile.kernels import kernel
from copter.problems.load_balancing.replicas import Replicas, ReplicaSearch, explore

_SAFE = 1e-9
"""Rounding error as a share of a server's mean load or of a need."""
_WINDOW = 128
"""Shards of a cover that are chosen one by one; the others are an amount at the price of the next one."""
_NODES = 2000
"""Limit of nodes of branch and bound for one cover."""


def needed(pool: Replicas, search: ReplicaSearch, loads: Floats, lower: float, upper: float) -> float:
    """Return the lower bound on the size of the new replicas of any placement within band and memory.

    `pool`: last round's replicas after a maximum flow, with reserves 0; `room` is the memory that they leave
    free. `loads` (k,): loads of all shards, in units of a server's mean. `lower`, `upper`: the band, in the
    same units. The result is in the unit of the sizes.
    """
    sizes = pool.size
    bare = pool.copies == 0
    grain = _grain(sizes)
    order = np.argsort(sizes / np.maximum(loads, 1e-300), kind="stable")
    order = order[loads[order] > 0.0]
    out = _cuts(pool, search, loads, order, lower, upper, True, grain)
    into = _cuts(pool, search, loads, order, lower, upper, False, grain)
    return float(sizes[bare].sum()) + max(out, into, _crowded(pool, grain))


def _grain(sizes: Floats) -> float:
    """Return a size of which all sizes are multiples, or 0; it divides all sums of sizes."""
    positive = sizes[sizes > 0.0]
    if not positive.size:
        return 0.0
    least = float(positive.min())
    times = positive / least
    return least if bool((abs(times - np.rint(times)) <= 1e-9).all()) else 0.0


@kernel(inner=True)
def _rounded(value, grain):  # type: ignore[no-untyped-def]
    """Return the least sum of sizes that is at least a value."""
    return grain * np.ceil(value / grain - 1e-7) if grain > 0.0 else value


@kernel(inner=True)
def _relaxed(cost, gain, k, need, rest, grain):  # type: ignore[no-untyped-def]
    """Return the least cost of a need by fractions of items from k on, or more at the price `rest`."""
    value = 0.0
    for t in range(k, cost.size):
        if cost[t] >= rest * gain[t]:
            break
        if gain[t] >= need:
            return _rounded(value + cost[t] * need / gain[t], grain)
        value += cost[t]
        need -= gain[t]
    return _rounded(value + need * rest, grain) if need > 0.0 else value


@kernel(allocates=True)
def _cover(cost, gain, need, rest, cheapest, grain):  # type: ignore[no-untyped-def]
    """Return a lower bound on the cheapest cover of a need, exact for few items (module docstring).

    `rest`: price per unit of gain of items that are not in the list, infinite without such items. `cheapest`:
    least cost of such an item.
    """
    gain = np.minimum(gain, need)
    order = np.argsort(cost / gain, kind="mergesort")
    cost, gain = cost[order], gain[order]
    n = cost.size
    least = np.empty(n + 1)
    least[n] = cheapest
    for t in range(n - 1, -1, -1):
        least[t] = min(cost[t], least[t + 1])
    root = max(_relaxed(cost, gain, 0, need, rest, grain), least[0])
    best, k, nodes = np.inf, 0, 0
    chosen, spent, left = np.zeros(n, np.bool_), np.zeros(n + 1), np.full(n + 1, need)  # before item k
    while True:
        nodes += 1
        if nodes > _NODES:
            return root
        back = True
        if left[k] <= _SAFE * need:
            best = min(best, spent[k])
        elif spent[k] + max(_relaxed(cost, gain, k, left[k], rest, grain), least[k]) < best * (1.0 - 1e-12):
            if k == n:  # with items that are not in the list
                best = spent[n] + max(left[n] * rest, cheapest)
            else:
                chosen[k], back = True, False
                spent[k + 1], left[k + 1] = spent[k] + cost[k], left[k] - gain[k]
                k += 1
        if best <= root * (1.0 + 1e-12):
            return best
        if back:
            k -= 1
            while k >= 0 and not chosen[k]:
                k -= 1
            if k < 0:
                return best
            chosen[k] = False
            spent[k + 1], left[k + 1] = spent[k], left[k]
            k += 1


@kernel(allocates=True, inner=True)
def _cheapest(shards, loads, sizes, upper, need, rest, least, grain):  # type: ignore[no-untyped-def]
    """Cover a need by new replicas of shards; others cost `rest` per unit, and at least `least`."""
    cost, gain, m = np.empty(_WINDOW), np.empty(_WINDOW), 0
    for j in shards:
        load = loads[j]
        while load > 0.0 and m < _WINDOW:
            cost[m], gain[m] = sizes[j], min(load, upper)
            load -= upper
            m += 1
        if load > 0.0:
            rest, least = min(rest, sizes[j] / loads[j]), min(least, sizes[j])
    return _cover(cost[:m], gain[:m], need, rest, least, grain)


@kernel(allocates=True, inner=True)
def _out_of(pool: Replicas, loads, order, label, count, upper, grain):  # type: ignore[no-untyped-def]
    """Return the sizes of new replicas that must leave each set of servers with one label."""
    home, need = np.full(loads.size, -1), np.zeros(count)
    for i in range(label.size):
        if label[i] >= 0:
            need[label[i]] -= upper + _SAFE
    begin, value = np.zeros(count + 1, np.int64), np.zeros(count)
    for j in order:
        r = pool.first_of_shard[j]
        a = label[pool.server[r]] if r >= 0 else -1
        while r >= 0:
            if label[pool.server[r]] != a:
                a = -1
            r = pool.after_in_shard[r]
        if a >= 0:
            home[j] = a
            need[a] += loads[j]
            begin[a + 1] += 1
    begin = np.cumsum(begin)
    at, mine = begin.copy(), np.empty(begin[count], np.int64)
    for j in order:
        if home[j] >= 0:
            mine[at[home[j]]] = j
            at[home[j]] += 1
    for a in range(count):
        if need[a] > 0.0:
            shards = mine[begin[a] : begin[a + 1]]
            value[a] = _cheapest(shards, loads, pool.size, upper, need[a], np.inf, np.inf, grain)
    return value


@kernel(allocates=True, inner=True)
def _into(pool: Replicas, loads, order, label, count, lower, upper, grain):  # type: ignore[no-untyped-def]
    """Return the sizes of new replicas that must come to each set of servers with one label.

    Shards without any replica may come to any set.
    """
    value, need, seen = np.zeros(count), np.zeros(count), np.full(loads.size, -1)
    for j in order:
        if pool.copies[j] == 0:
            need -= loads[j]
    least = np.full(order.size + 1, np.inf)
    for t in range(order.size - 1, -1, -1):
        least[t] = min(least[t + 1], pool.size[order[t]])
    shards = np.empty(_WINDOW, np.int64)
    servers = np.argsort(label, kind="mergesort")
    first = np.searchsorted(label[servers], np.arange(count + 1))
    for a in range(count):
        for i in servers[first[a] : first[a + 1]]:
            need[a] += lower - _SAFE
            r = pool.first_on_server[i]
            while r >= 0:
                j = pool.shard[r]
                need[a] -= loads[j] if seen[j] != a else 0.0
                seen[j] = a
                r = pool.after_on_server[r]
        if need[a] > 0.0:
            m, t = 0, 0
            while t < order.size and m < _WINDOW:
                j = order[t]
                if seen[j] != a and pool.copies[j] > 0:
                    shards[m] = j
                    m += 1
                t += 1
            rest = pool.size[order[t]] / loads[order[t]] if t < order.size else np.inf
            value[a] = _cheapest(shards[:m], loads, pool.size, upper, need[a], rest, least[t], grain)
    return value


@kernel(allocates=True, inner=True)
def _closures(pool: Replicas, search: ReplicaSearch, lower, upper, outward):  # type: ignore[no-untyped-def]
    """Return labels of servers by groups of overlapping closures and by disjoint closures; -1: in none."""
    n = pool.load_on.size
    group, extent = np.arange(n), np.full(n, n + 1)
    inside = np.zeros(n, np.bool_)
    bound = upper if outward else lower
    for i in range(n):
        over = pool.load_on[i] - upper if outward else lower - pool.load_on[i]
        if over <= _SAFE * n or explore(pool, search, i, bound, outward) >= 0:
            continue
        extent[i] = 0
        for k in range(n):
            if search.server_seen[k] == search.stamp[0]:
                extent[i] += 1
                inside[k] = True
                _join(group, i, k)
    apart = np.full(n, -1)
    for i in np.argsort(extent, kind="mergesort"):
        if extent[i] > n:
            break
        explore(pool, search, i, bound, outward)
        free = True
        for k in range(n):
            free = free and (apart[k] < 0 or search.server_seen[k] != search.stamp[0])
        for k in range(n):
            if free and search.server_seen[k] == search.stamp[0]:
                apart[k] = i
    for k in range(n):
        group[k] = _find(group, k) if inside[k] else -1
    return group, apart


@kernel(inner=True)
def _find(group, i):  # type: ignore[no-untyped-def]
    """Return the representative of a server's group."""
    while group[i] != i:
        group[i] = group[group[i]]
        i = group[i]
    return i


@kernel(inner=True)
def _join(group, i, k):  # type: ignore[no-untyped-def]
    """Merge the groups of two servers."""
    i, k = _find(group, i), _find(group, k)
    group[max(i, k)] = min(i, k)


@kernel(allocates=True)
def _cuts(pool: Replicas, search: ReplicaSearch, loads, order, lower, upper, outward, grain):  # type: ignore[no-untyped-def]
    """Return the sum over groups of the best of: the union, disjoint closures, single servers."""
    n = pool.load_on.size
    group, apart = _closures(pool, search, lower, upper, outward)
    many = np.bincount(group + 1, minlength=n + 1)[group + 1] > 1
    apart, single = np.where(many, apart, -1), np.where(many & (group >= 0), np.arange(n), -1)
    best = np.zeros(n)
    for label in (group, apart, single):
        if outward:
            value = _out_of(pool, loads, order, label, n, upper, grain)
        else:
            value = _into(pool, loads, order, label, n, lower, upper, grain)
        total = np.zeros(n)
        for i in range(n):  # the label of a set is one of its servers
            if value[i] > 0.0:
                total[group[i]] += value[i]
        best = np.maximum(best, total)
    every = 0.0
    for i in range(n):
        every += best[i]
    return every


@kernel(allocates=True)
def _crowded(pool: Replicas, grain):  # type: ignore[no-untyped-def]
    """Return the sizes that must leave servers with too little memory; other replicas are free."""
    total, shards = 0.0, np.empty(pool.copies.size, np.int64)
    for i in range(pool.room.size):
        need, m, r = -pool.room[i] - pool.slack[i], 0, pool.first_on_server[i]
        while r >= 0 and need > 0.0:
            j = pool.shard[r]
            if pool.copies[j] > 1:
                need -= pool.size[j]
            elif pool.size[j] > 0.0:
                shards[m] = j
                m += 1
            r = pool.after_on_server[r]
        if need > 0.0:
            total += _cheapest(shards[:m], pool.size, pool.size, np.inf, need, np.inf, np.inf, grain)
    return total
