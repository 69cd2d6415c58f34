"""WAN traffic engineering: which paths the demands of a network take (thesis section 5.1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from copter.lazy import lazy_names

if TYPE_CHECKING:
    from copter.problems.traffic.baselines import Allocated, lp_top, pop, shortest_path
    from copter.problems.traffic.changes import LinkEvents, drift, failures
    from copter.problems.traffic.matrices import (
        POISSON_FLAT,
        MatrixError,
        bimodal,
        check_matrix,
        demands_of,
        gravity,
        make_matrix,
        poisson,
        read_matrices,
    )
    from copter.problems.traffic.model import TrafficEngineering, TrafficRound
    from copter.problems.traffic.names import CHANGES, DRIFTS, MODELS
    from copter.problems.traffic.paths import PathError, PathSet
    from copter.problems.traffic.search import edge_disjoint_paths, k_shortest_paths
    from copter.problems.traffic.state import Check, TrafficState
    from copter.problems.traffic.topology import (
        DEFAULT_CAPACITY,
        MissingPackageError,
        Topology,
        TopologyError,
        load_topology,
    )

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "baselines": "Allocated lp_top pop shortest_path",
        "changes": "LinkEvents drift failures",
        "matrices": "MatrixError POISSON_FLAT bimodal check_matrix demands_of gravity make_matrix poisson "
        "read_matrices",
        "model": "TrafficEngineering TrafficRound",
        "names": "CHANGES DRIFTS MODELS",
        "paths": "PathError PathSet",
        "search": "edge_disjoint_paths k_shortest_paths",
        "state": "Check TrafficState",
        "topology": "DEFAULT_CAPACITY MissingPackageError Topology TopologyError load_topology",
    },
)

__all__ = [
    "CHANGES",
    "DEFAULT_CAPACITY",
    "DRIFTS",
    "POISSON_FLAT",
    "MODELS",
    "Allocated",
    "Check",
    "LinkEvents",
    "MatrixError",
    "MissingPackageError",
    "PathError",
    "PathSet",
    "Topology",
    "TopologyError",
    "TrafficEngineering",
    "TrafficRound",
    "TrafficState",
    "bimodal",
    "check_matrix",
    "demands_of",
    "drift",
    "edge_disjoint_paths",
    "failures",
    "gravity",
    "k_shortest_paths",
    "load_topology",
    "lp_top",
    "make_matrix",
    "poisson",
    "pop",
    "read_matrices",
    "shortest_path",
]
