from copter.problems.shockwave.course import snapshot as snapshot
from copter.problems.shockwave.generator import generate as generate
from copter.problems.shockwave.interface import MarketJob as MarketJob
from copter.problems.shockwave.interface import RoundState as RoundState
from copter.problems.shockwave.metrics import JobResult as JobResult
from copter.problems.shockwave.metrics import MarketMetrics as MarketMetrics
from copter.problems.shockwave.metrics import PublishedResult as PublishedResult
from copter.problems.shockwave.metrics import read_published as read_published
from copter.problems.shockwave.policy import Shockwave as Shockwave
from copter.problems.shockwave.predictor import Pattern as Pattern
from copter.problems.shockwave.predictor import pattern_of as pattern_of
from copter.problems.shockwave.program import RelaxationProgram as RelaxationProgram
from copter.problems.shockwave.relaxation import Relaxation as Relaxation
from copter.problems.shockwave.relaxation import dual_bound as dual_bound
from copter.problems.shockwave.scheduler import Planner as Planner
from copter.problems.shockwave.scheduler import Settings as Settings
from copter.problems.shockwave.scheduler import Solve as Solve
from copter.problems.shockwave.scheduler import make_relaxation as make_relaxation
from copter.problems.shockwave.scheduler import plan_problem as plan_problem
from copter.problems.shockwave.simulation import ReplayResult as ReplayResult
from copter.problems.shockwave.simulation import replay as replay
from copter.problems.shockwave.traces import Mode as Mode
from copter.problems.shockwave.traces import Regime as Regime
from copter.problems.shockwave.traces import RegimeJob as RegimeJob
from copter.problems.shockwave.traces import read_jobs as read_jobs
from copter.problems.shockwave.traces import write_jobs as write_jobs
from copter.problems.shockwave.waterfill import solve_waterfilling as solve_waterfilling
from copter.problems.shockwave.window import Window as Window
from copter.problems.shockwave.window import build_window as build_window
from copter.problems.shockwave.workloads import RegimeProfile as RegimeProfile
from copter.problems.shockwave.workloads import scenario_of as scenario_of

BASELINES: tuple[str, ...]
ORACLE: str
PREDICTORS: tuple[str, ...]
RELAXATIONS: tuple[str, ...]
CVXPY: str
EXACT: str
SOLVERS: tuple[str, ...]
