"""Shard load balancing: replicas of shards on servers, balanced loads, few movements a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from copter.lazy import lazy_names

if TYPE_CHECKING:
    from copter.problems.load_balancing.balancer import TOLERANCE, LoadBalancer
    from copter.problems.load_balancing.heuristic import greedy
    from copter.problems.load_balancing.milp import Exact, solve_exact
    from copter.problems.load_balancing.names import MODES
    from copter.problems.load_balancing.outcome import LoadBalancingError, Round, imbalance
    from copter.problems.load_balancing.pop import Parts, Pop
    from copter.problems.load_balancing.workload import (
        LoadTable,
        WorkloadError,
        read_loads,
        write_loads,
        zipf_loads,
    )

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "balancer": "LoadBalancer TOLERANCE",
        "heuristic": "greedy",
        "milp": "Exact solve_exact",
        "names": "MODES",
        "outcome": "LoadBalancingError Round imbalance",
        "pop": "Parts Pop",
        "workload": "LoadTable WorkloadError read_loads write_loads zipf_loads",
    },
)

__all__ = [
    "MODES",
    "TOLERANCE",
    "Exact",
    "LoadBalancer",
    "LoadBalancingError",
    "LoadTable",
    "Parts",
    "Pop",
    "Round",
    "WorkloadError",
    "greedy",
    "imbalance",
    "read_loads",
    "solve_exact",
    "write_loads",
    "zipf_loads",
]
