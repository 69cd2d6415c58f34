from copter.durable.journal import Journal as Journal
from copter.errors import CopterError as CopterError
from copter.errors import EditError as EditError
from copter.errors import FileError as FileError
from copter.errors import UnknownSolverError as UnknownSolverError
from copter.program.program import ContinualProgram as ContinualProgram
from copter.program.program import Template as Template
from copter.solution import Solution as Solution
from copter.solution import Status as Status
from copter.solvers.base import make_solver as make_solver
from copter.solvers.cvxpy.model import from_cvxpy as from_cvxpy
from copter.solvers.cvxpy.solver import COPTER as COPTER
from copter.solvers.general import linprog as linprog
from copter.solvers.general import milp as milp
from copter.solvers.general import read_mps as read_mps
from copter.solvers.proximal.solver import ProximalPoint as ProximalPoint
from copter.terms.convex import ConvexTerm as ConvexTerm
from copter.terms.convex import LogTerm as LogTerm

__version__: str
