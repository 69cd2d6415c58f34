"""The greedy heuristic of E-Store, which moves whole shards.

While the most loaded server is above L (1 + tolerance), its hottest shard that fits under L (1 + tolerance)
on the least loaded server goes there.  A server none of whose shards fits is left as it is: a shard hotter
than that fits nowhere, for shards are never split.

Source: Taft et al., "E-Store" (VLDB 2014), as the code of POP (Narayanan et al., SOSP 2021) has it.
"""

from __future__ import annotations

import numpy as np

from copter.problems.load_balancing.spread import Fleet, Placement


def greedy(fleet: Fleet, last: Placement) -> Placement:
    """Placement after the heuristic's moves.

    Parameters
    ----------
    last : Placement
        A shard is where its largest share is; one without any goes to the least loaded server with memory.

    Returns
    -------
    Placement
        One replica of each shard that was placed; others have none.
    """
    k, n = fleet.loads.size, fleet.memory.size
    limit = fleet.mean * (1.0 + fleet.tolerance)
    server = np.full(k, -1)
    order = np.argsort(last.share, kind="stable")
    server[last.shard[order]] = last.server[order]
    placed = server >= 0
    load = np.bincount(server[placed], fleet.loads[placed], n)
    room = fleet.memory - np.bincount(server[placed], fleet.sizes[placed], n)
    for j in np.flatnonzero(~placed)[np.argsort(-fleet.loads[~placed], kind="stable")]:
        fits = np.flatnonzero(room >= fleet.sizes[j])
        if fits.size:
            server[j] = fits[load[fits].argmin()]
            load[server[j]] += fleet.loads[j]
            room[server[j]] -= fleet.sizes[j]
    stuck = np.zeros(n, bool)
    while not stuck.all():
        most = int(np.where(stuck, -np.inf, load).argmax())
        if load[most] <= limit:
            break
        least = int(load.argmin())
        mine = np.flatnonzero(server == most)
        fits = (load[least] + fleet.loads[mine] <= limit) & (fleet.sizes[mine] <= room[least])
        if not fits.any() or least == most:
            stuck[most] = True
            continue
        j = mine[fits][fleet.loads[mine[fits]].argmax()]
        server[j] = least
        load[most] -= fleet.loads[j]
        load[least] += fleet.loads[j]
        room[most] += fleet.sizes[j]
        room[least] -= fleet.sizes[j]
    served = np.flatnonzero(server >= 0)
    return Placement(served, server[served], np.ones(served.size))
