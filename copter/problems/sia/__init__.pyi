from typing import Literal, TypeAlias

from copter.problems.cluster.cluster import Cluster as Cluster
from copter.problems.cluster.cluster import Configuration as Configuration
from copter.problems.cluster.cluster import Configurations as Configurations
from copter.problems.cluster.cluster import GpuType as GpuType
from copter.problems.cluster.cluster import configurations as configurations
from copter.problems.cluster.nodes import NodeChange as NodeChange
from copter.problems.cluster.profiles.base import Profile as Profile
from copter.problems.cluster.profiles.tables import CountProfile as CountProfile
from copter.problems.cluster.profiles.tables import ReplicaProfile as ReplicaProfile
from copter.problems.cluster.profiles.tables import TableProfile as TableProfile
from copter.problems.cluster.results import JobRecord as JobRecord
from copter.problems.cluster.workload import JobSubmission as JobSubmission
from copter.problems.cluster.workload import Scenario as Scenario
from copter.problems.cluster.workload import read_workload as read_workload
from copter.problems.cluster.workload import write_workload as write_workload
from copter.problems.sia.files import read_cluster as read_cluster
from copter.problems.sia.files import read_profiles as read_profiles
from copter.problems.sia.generator import builtin_cluster as builtin_cluster
from copter.problems.sia.generator import builtin_profiles as builtin_profiles
from copter.problems.sia.generator import generate as generate
from copter.problems.sia.generator import read_scenario as read_scenario
from copter.problems.sia.interface import InfeasibleRoundError as InfeasibleRoundError
from copter.problems.sia.interface import SiaError as SiaError
from copter.problems.sia.interface import SiaJob as SiaJob
from copter.problems.sia.interface import SiaRound as SiaRound
from copter.problems.sia.policy import SiaPolicy as SiaPolicy
from copter.problems.sia.scheduler import Sia as Sia
from copter.problems.sia.steady import record_rounds as record_rounds

Costs: TypeAlias = Literal["own", "shared"]
COSTS: tuple[Costs, ...]
