from copter.solvers.base import SOLVERS as SOLVERS
from copter.solvers.base import Solver as Solver
from copter.solvers.base import make_solver as make_solver
from copter.solvers.proximal.solver import ProximalPoint as ProximalPoint
