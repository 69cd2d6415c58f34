"""Names that commands and models of Shockwave share; importing them takes nothing else."""

from __future__ import annotations

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
