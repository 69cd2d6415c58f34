from copter.problems.cluster.cluster import Cluster as Cluster
from copter.problems.cluster.cluster import Configuration as Configuration
from copter.problems.cluster.cluster import Configurations as Configurations
from copter.problems.cluster.cluster import GpuType as GpuType
from copter.problems.cluster.cluster import configurations as configurations
from copter.problems.cluster.jobs import Job as Job
from copter.problems.cluster.policy import Allocation as Allocation
from copter.problems.cluster.policy import ClusterState as ClusterState
from copter.problems.cluster.policy import Placement as Placement
from copter.problems.cluster.policy import Policy as Policy
from copter.problems.cluster.policy import PolicyError as PolicyError
from copter.problems.cluster.profiles.base import Profile as Profile
from copter.problems.cluster.registry import make_policy as make_policy
from copter.problems.cluster.registry import policy_names as policy_names
from copter.problems.cluster.simulation.simulator import Simulator as Simulator
from copter.problems.cluster.workload import JobSubmission as JobSubmission
from copter.problems.cluster.workload import Kind as Kind
from copter.problems.cluster.workload import Scenario as Scenario
from copter.problems.cluster.workload import read_workload as read_workload
from copter.problems.cluster.workload import write_workload as write_workload

ESTIMATORS: tuple[str, ...]
PLACERS: tuple[str, ...]
