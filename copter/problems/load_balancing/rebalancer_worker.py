"""Worker of :mod:`copter.problems.load_balancing.rebalancer`, in the environment of the package rebalancer.

The file does not import copter, which is not installed in that environment
(:mod:`copter.solvers.baselines.other_python`).
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ABSOLUTE = 1
"""Rebalancer's number of a limit in the unit of the dimension; 1.0.4 refuses the documented name."""
_AT_LEAST = 2
"""Rebalancer's number of a lower limit."""
_HIT_TIME_LIMIT = 2
"""Rebalancer's number of the end of a search by its time limit."""
_NEAR = 1.25
"""Factor by which the mean load of a server may differ from the unit of loads before a new unit is chosen."""
_SEARCH = {
    "hottestTraversalConfig": {"pruneOptimalSubgraphs": True},
    "exploreMovesFromContainersNotInObjective": False,
    "objectivesForHottestContainers": 1,
}
"""Settings of local search: it searches only servers outside the band, and ends when there is none."""
_MOVE: dict[str, Any] = {"singleMoveTypeSpec": {}}
_SWAP: dict[str, Any] = {"swapMoveTypeSpec": {"sampleSize": {"defaultSampleSize": 100}}}


class Worker:
    """Shards on servers, with the present assignment, in the dictionaries that Rebalancer takes."""

    def __init__(self, swaps: str) -> None:
        self.stages = ([_MOVE], [_MOVE, _SWAP]) if swaps == "swaps" else ([_MOVE],)
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one thread: there is no such setting
        self.rebalancer: Any = importlib.import_module("rebalancer")
        self.unit = 1.0

    def load(
        self,
        sizes: NDArray[np.float64],
        memory: NDArray[np.float64],
        server: NDArray[np.int64],
        loads: NDArray[np.float64],
    ) -> None:
        """Take the shards, the servers, and the server of each shard."""
        self.shards = [f"shard {k}" for k in range(sizes.size)]
        self.servers = [f"server {i}" for i in range(memory.size)]
        self.place = {name: i for i, name in enumerate(self.servers)}
        self.sizes = dict(zip(self.shards, sizes.tolist(), strict=True))
        self.memory = dict(zip(self.servers, memory.tolist(), strict=True))
        self.raw = loads
        self._scale()
        self._assign(self.servers[i] for i in server.tolist())

    def balance(
        self,
        changed: NDArray[np.int64],
        loads: NDArray[np.float64],
        lower: float,
        upper: float,
        seconds: float | None,
    ) -> dict[str, Any]:
        """Set new loads of some shards, and balance all; return the servers of the shards, and the seconds.

        `lower`, `upper`: band of a server's load, in units of the mean. `seconds`: limit of the search.
        """
        begin = time.perf_counter()
        self.raw[changed] = loads
        mean = float(self.raw.sum()) / len(self.servers)
        if not self.unit / _NEAR <= mean <= _NEAR * self.unit:
            self._scale()
        else:
            for k, load in zip(changed.tolist(), (loads / self.unit).tolist(), strict=True):
                self.loads[self.shards[k]] = load
        problem = self._problem(lower * mean / self.unit, upper * mean / self.unit, seconds)
        built = time.perf_counter() - begin
        found = problem.solve()
        took = time.perf_counter() - begin - built
        assignment = found["assignment"]
        self._assign(assignment[name] for name in self.shards)
        reports = found["solverSummaries"]
        materialized = float(found["problemProfile"]["materializationSec"])
        return {
            "server": np.array([self.place[assignment[name]] for name in self.shards], np.int64),
            "edit_seconds": built + materialized,
            "solve_seconds": took - materialized,
            "moves_evaluated": sum(one.get("evalStats", {}).get("numEvals", 0) for one in reports),
            "cut": any(one["endReason"] == _HIT_TIME_LIMIT for one in reports),
        }

    def _scale(self) -> None:
        """Express all loads in units of the present mean load of a server."""
        self.unit = float(self.raw.sum()) / len(self.servers) or 1.0
        self.loads = dict(zip(self.shards, (self.raw / self.unit).tolist(), strict=True))

    def _assign(self, servers: Iterable[str]) -> None:
        """Store the server of each shard."""
        self.assignment: dict[str, list[str]] = {name: [] for name in self.servers}
        for shard, server in zip(self.shards, servers, strict=True):
            self.assignment[server].append(shard)

    def _problem(self, lower: float, upper: float, seconds: float | None) -> Any:
        problem = self.rebalancer.ProblemSolver("copter", "shards")
        problem.set_log_level("ERR")
        problem.disable_scuba_logging()
        problem.disable_solution_summary()
        problem.set_object_name("shard")
        problem.set_container_name("server")
        problem.set_assignment(self.assignment)
        problem.add_object_dimension("load", self.loads)
        problem.add_object_dimension("size", self.sizes)
        problem.add_container_dimension("size", self.memory)
        problem.add_constraint(_capacity("memory", "size"))
        problem.add_goal(_capacity("above", "load", limit=_absolute(upper)), tuple_pos=0)
        problem.add_goal(_capacity("below", "load", limit=_absolute(lower), bound=_AT_LEAST), tuple_pos=0)
        moved = {"name": "moved", "scope": "server", "dimension": "size", "doNotNormalize": True}
        problem.add_goal({"minimizeMovementSpec": moved}, tuple_pos=1)
        for kinds in self.stages:
            limit = {} if seconds is None else {"solveTime": max(1, int(seconds / len(self.stages)))}
            problem.add_solver({"localSearchSolverSpec": {"moveTypeList": kinds} | _SEARCH | limit})
        return problem


def _capacity(name: str, dimension: str, **limits: Any) -> dict[str, Any]:
    return {"capacitySpec": {"name": name, "scope": "server", "dimension": dimension} | limits}


def _absolute(limit: float) -> dict[str, Any]:
    return {"type": _ABSOLUTE, "globalLimit": limit}
