from typing import Literal, TypeAlias

from copter.problems.traffic.baselines import Allocated as Allocated
from copter.problems.traffic.baselines import lp_top as lp_top
from copter.problems.traffic.baselines import pop as pop
from copter.problems.traffic.baselines import shortest_path as shortest_path
from copter.problems.traffic.course import TrafficEvent as TrafficEvent
from copter.problems.traffic.course import drift as drift
from copter.problems.traffic.course import failures as failures
from copter.problems.traffic.fairness import FairRound as FairRound
from copter.problems.traffic.fairness import MaxMinFlows as MaxMinFlows
from copter.problems.traffic.matrices import POISSON_FLAT as POISSON_FLAT
from copter.problems.traffic.matrices import MatrixError as MatrixError
from copter.problems.traffic.matrices import bimodal as bimodal
from copter.problems.traffic.matrices import check_matrix as check_matrix
from copter.problems.traffic.matrices import gravity as gravity
from copter.problems.traffic.matrices import make_matrix as make_matrix
from copter.problems.traffic.matrices import poisson as poisson
from copter.problems.traffic.matrices import read_matrices as read_matrices
from copter.problems.traffic.model import TrafficEngineering as TrafficEngineering
from copter.problems.traffic.model import TrafficRound as TrafficRound
from copter.problems.traffic.paths import PathError as PathError
from copter.problems.traffic.paths import PathSet as PathSet
from copter.problems.traffic.search import edge_disjoint_paths as edge_disjoint_paths
from copter.problems.traffic.search import k_shortest_paths as k_shortest_paths
from copter.problems.traffic.state import Check as Check
from copter.problems.traffic.state import TrafficState as TrafficState
from copter.problems.traffic.topology import DEFAULT_CAPACITY as DEFAULT_CAPACITY
from copter.problems.traffic.topology import Topology as Topology
from copter.problems.traffic.topology import TopologyError as TopologyError
from copter.problems.traffic.topology import load_topology as load_topology

Objective: TypeAlias = Literal["max-flow", "min-mlu"]
OBJECTIVES: tuple[Objective, ...]
MAX_MIN: str
MODELS: tuple[str, ...]
Drift: TypeAlias = Literal["independent", "source", "global", "permute"]
DRIFTS: tuple[Drift, ...]
CHANGES: tuple[str, ...]
PathKind: TypeAlias = Literal["edge-disjoint", "shortest"]
PATH_KINDS: tuple[PathKind, ...]
METHODS: tuple[str, ...]
