from copter.solvers.base import Solver as Solver
from copter.solvers.base import WarmStartable as WarmStartable
from copter.solvers.features import Feature as Feature
from copter.solvers.proximal.solver import ProximalPoint as ProximalPoint
from copter.solvers.registry import SOLVERS as SOLVERS
from copter.solvers.registry import make_solver as make_solver
