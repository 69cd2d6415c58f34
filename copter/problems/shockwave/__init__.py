"""Shockwave: Nash social welfare over time, for jobs whose batch size changes while they train.

:func:`replay` runs a trace under a policy of rigid jobs, such as :class:`Shockwave`.  A plan is made from a
:class:`Window`, the solution of its relaxation, and :class:`copter.problems.shockwave.plan.PlanShim`.

Read `traces.py` (jobs with regimes), `window.py` (the input of a plan) and `scheduler.py` (the planner)
first. `predictor.py` and `forecast.py` predict a job's remaining work and compute its weight.
`relaxation.py`, `program.py` and `waterfill.py` solve the relaxation; `tables.py`, `plan.py` and `exact.py`
turn its solution into integral plans. `policy.py`, `workloads.py` and `simulation.py` connect the planner
with the simulator of :mod:`copter.problems.cluster`; `interface.py` defines the state that they exchange.
`generator.py` draws traces.  `cli.py`, `metrics.py`, `course.py`, `lines.py` and `reproductions.py` have the
commands, the benchmarks and the figures of the paper.

Source: Zheng and others, "Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in Machine
Learning", NSDI 2023.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Names that commands and modules share.  They are here so that `--help` need not import the modules.

BASELINES = ("gavel", "gavel-max-sum", "themis", "allox", "ossp", "gandiva-fair", "srpt")
"""Names of the paper's baselines, and of SRPT, in the registry of policies."""

ORACLE = "oracle"
PREDICTORS = ("restatement", "bayesian", "greedy", ORACLE)
"""Predictors of future regimes; the oracle knows them."""

RELAXATIONS = ("copter", "water-filling")
"""Solvers of the relaxation: copter's core, and a special method for this program."""
CVXPY, EXACT = "cvxpy", "highs-milp"
SOLVERS = (*RELAXATIONS, CVXPY, EXACT)
"""Solvers of the benchmark of plans."""
