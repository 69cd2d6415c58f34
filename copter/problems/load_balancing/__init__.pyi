from typing import Literal, TypeAlias

from copter.problems.load_balancing.balancer import TOLERANCE as TOLERANCE
from copter.problems.load_balancing.balancer import LoadBalancer as LoadBalancer
from copter.problems.load_balancing.baselines import Exact as Exact
from copter.problems.load_balancing.baselines import Parts as Parts
from copter.problems.load_balancing.baselines import ShardPop as ShardPop
from copter.problems.load_balancing.baselines import greedy as greedy
from copter.problems.load_balancing.baselines import solve_exact as solve_exact
from copter.problems.load_balancing.groups import GroupBalancer as GroupBalancer
from copter.problems.load_balancing.outcome import BalancingRound as BalancingRound
from copter.problems.load_balancing.outcome import LoadBalancingError as LoadBalancingError
from copter.problems.load_balancing.outcome import imbalance as imbalance
from copter.problems.load_balancing.workload import LoadTable as LoadTable
from copter.problems.load_balancing.workload import read_loads as read_loads
from copter.problems.load_balancing.workload import write_loads as write_loads
from copter.problems.load_balancing.workload import zipf_loads as zipf_loads

Mode: TypeAlias = Literal["stateless", "stateful"]
MODES: tuple[Mode, ...]
Loads: TypeAlias = Literal["zipf", "lognormal"]
LOADS: tuple[Loads, ...]
METHODS: tuple[str, ...]
