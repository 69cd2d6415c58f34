"""Rebalancer (Meta, https://github.com/facebook/rebalancer), run in a separate Python environment.

Rebalancer assigns objects to containers by local search.  It moves whole shards and does not split their
load.  Its problem here is that of :mod:`.balancer` with X in {0, 1} and R = X:

- The memory of the servers is a constraint.
- The band is a goal, not a constraint, because local search needs a start that satisfies all constraints.
  The goal has two capacity terms, one for each end of the band.
- The size of the moved shards is a second goal.  The goals are lexicographic: the band comes first.

There are two methods, because no setting was best in all respects on the workloads of the benchmarks:

``rebalancer``
    The search moves single shards.  It moves least data in least time, and leaves more rounds outside the
    band.
``rebalancer-swap``
    After this search, a second stage moves and swaps shards, with a sample of 100 partners.  It brings more
    rounds into the band and takes longer, in particular if no swap helps.  Swaps in the first stage move more
    data in more time.

Both methods have these settings:

- The search explores only servers that are outside the band, and ends when there is none.  By default it
  continues on all servers, which takes seconds on large fleets even if nothing moves.
- Summaries and logging of the solution are off.
- Rebalancer runs on one processor.

Version 1.0.4 cannot edit a problem: dimensions cannot be replaced, and goals cannot be removed.  So each
round makes a new problem.  The names, sizes and present assignment are kept in the dictionaries that
Rebalancer takes, and only new loads are changed in them.  `edit_seconds` is the time of these changes, of the
new problem and of its materialization, which Rebalancer reports; `solve_seconds` is the rest of its `solve`.
The transfer between the processes and the reading of the answer are not included.

A round may end outside the band: if a shard has more load than a server may have, or if the search ends at a
local optimum.  Local search always has an answer, so such a round is not missed.  Its time limit is 80% of
that of a solve, in whole seconds for each stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacement
from copter.solvers.baselines.other_python import OtherPython

_SHARE = 0.8
"""Share of the time limit of a solve that the search gets."""
_PATIENCE, _PATIENCE_SECONDS = 2.0, 60.0
"""A worker is ended after this multiple of the time limit plus this number of seconds."""


@dataclass(frozen=True)
class Rebalanced:
    """Answer of Rebalancer in a round.

    `moves_evaluated`: number of moves that its search evaluated. `cut`: whether a stage of the search ended
    at its time limit.
    """

    placement: ShardPlacement
    edit_seconds: float
    solve_seconds: float
    moves_evaluated: int
    cut: bool


class Rebalancer:
    """Rebalancer with the shards and servers of a fleet, which stay the same; loads may change.

    Parameters
    ----------
    python : Path
        Interpreter of the environment with the package rebalancer.
    fleet : ShardFleet
        Shards and servers.
    last : ShardPlacement
        Placement of all shards; of a shard with several replicas, the one with the largest share is used.
    swaps : bool
        Whether the search has a second stage with swaps.

    Raises
    ------
    SolverError
        If the interpreter cannot be started, or has no such package.
    """

    def __init__(self, python: Path, fleet: ShardFleet, last: ShardPlacement, *, swaps: bool) -> None:
        self._loads = fleet.loads
        script = Path(__file__).with_name("rebalancer_worker.py")
        self._worker = OtherPython(python, script, "Rebalancer", arguments=("swaps" if swaps else "moves",))
        values = {"sizes": fleet.sizes, "memory": fleet.memory, "loads": fleet.loads}
        self._worker.ask("load", values | {"server": _largest(fleet, last)})

    def solve(self, fleet: ShardFleet, *, time_limit: float | None = None) -> Rebalanced:
        """Balance the loads, from the placement of the last round.

        Parameters
        ----------
        fleet : ShardFleet
            The same shards and servers, with present loads.
        time_limit : float, optional
            Time limit of the solve in seconds.

        Raises
        ------
        Interrupted
            If there is no answer long after the deadline.
        SolverError
            If Rebalancer raises an error.
        """
        values = request(self._loads, fleet, None if time_limit is None else _SHARE * time_limit)
        patience = None if time_limit is None else _PATIENCE * time_limit + _PATIENCE_SECONDS
        found = self._worker.ask("balance", values, patience)
        self._loads = fleet.loads
        server = found["server"]
        return Rebalanced(
            ShardPlacement(np.arange(server.size), server, np.ones(server.size)),
            found["edit_seconds"],
            found["solve_seconds"],
            found["moves_evaluated"],
            found["cut"],
        )

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def request(before: Floats, fleet: ShardFleet, seconds: float | None) -> dict[str, Any]:
    """Return what the worker needs for a round: the changed loads, the band and the limit of the search."""
    changed = np.flatnonzero(fleet.loads != before)
    lower, upper = fleet.band if fleet.mean > 0 else (0.0, 1.0)
    return {
        "changed": changed,
        "loads": fleet.loads[changed],
        "lower": lower,
        "upper": upper,
        "seconds": seconds,
    }


def _largest(fleet: ShardFleet, last: ShardPlacement) -> Ints:
    """Return the server of each shard's largest share."""
    server = np.zeros(fleet.loads.size, np.int64)
    order = np.argsort(last.share, kind="stable")
    server[last.shard[order]] = last.server[order]
    return server
