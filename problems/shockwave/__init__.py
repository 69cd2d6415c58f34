"""Shockwave: Nash social welfare over time, for jobs whose batch size changes while they train.

:func:`replay` runs a trace under a policy of rigid jobs, such as :class:`Shockwave`.  A plan is made
from a :class:`Window`, its relaxation, and :class:`copter.problems.shockwave.plan.PlanShim`.

Read `traces.py` (jobs with regimes), `window.py` (what a plan is made for) and `scheduler.py` (the planner)
first.  `predictor.py` and `forecast.py` say what is to come of a job and what it weighs; `relaxation.py`,
`program.py` and `waterfill.py` solve the relaxation, `tables.py`, `plan.py` and `exact.py` make whole rounds
of it.  `policy.py`, `workloads.py`, `awareness.py` and `simulation.py` are the way into the simulator of
:mod:`copter.problems.cluster`, which sees `interface.py`; `generator.py` draws traces; `cli.py`, `report.py`,
`metrics.py`, `course.py`, `lines.py` and `reproductions.py` are commands, benchmarks and figures of the
paper.

Source: Zheng and others, "Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in Machine
Learning", NSDI 2023.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Words that commands and models share; they stand here so that `--help` loads no model.

BASELINES = ("gavel", "gavel-max-sum", "themis", "allox", "ossp", "gandiva-fair", "srpt")
"""Policies of the paper, and SRPT, by their names in the registry of policies."""
POLICIES = ("shockwave", *BASELINES)
ALIASES = {
    "max-min": "gavel",
    "max-sum": "gavel-max-sum",
    "max-min-fairness": "gavel",
    "max-sum-throughput": "gavel-max-sum",
}
"""Other names of policies on the command line: the objectives of Gavel's two programs."""

ORACLE = "oracle"
PREDICTORS = ("restatement", "bayesian", "greedy", ORACLE)
"""Predictors of the regimes to come; the oracle knows them."""

MODES = "reactive", "lazy"
"""Whether a plan is made anew when a job's batch size changes (section 7)."""
KNOWLEDGE = "agnostic", "reactive", "proactive"
"""What policies without a predictor know of changes of batch size (section 2.2)."""

RELAXATIONS = ("copter", "water-filling", "cvxpy")
"""Solvers of the relaxation: copter's core, a method for this one program, and cvxpy with Clarabel."""
EXACT = "highs-milp"
SOLVERS = (*RELAXATIONS, EXACT)
"""What the benchmark of plans measures."""
