"""WAN traffic engineering: which paths the demands of a network take (thesis section 5.1.2)."""

from copter.problems.traffic.baselines import Allocated, lp_top, pop, shortest_path
from copter.problems.traffic.changes import CHANGES, DRIFTS, LinkEvents, drift, failures
from copter.problems.traffic.matrices import (
    FLAT_POISSON,
    MODELS,
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
from copter.problems.traffic.paths import PathError, PathSet
from copter.problems.traffic.search import edge_disjoint_paths, k_shortest_paths
from copter.problems.traffic.state import Check, TrafficState
from copter.problems.traffic.topology import (
    DEFAULT_CAPACITY,
    Topology,
    TopologyError,
    load_topology,
)

__all__ = [
    "CHANGES",
    "DEFAULT_CAPACITY",
    "DRIFTS",
    "FLAT_POISSON",
    "MODELS",
    "Allocated",
    "Check",
    "LinkEvents",
    "MatrixError",
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
