"""Names that commands and models of Shockwave share; importing them takes nothing else."""

from __future__ import annotations

BASELINES = ("max-min-fairness", "max-sum-throughput", "themis", "allox", "ossp", "gandiva-fair", "srpt")
"""Policies of :func:`copter.problems.shockwave.make_baseline`."""
POLICIES = ("shockwave", *BASELINES)
SHORT = {"max-min": "max-min-fairness", "max-sum": "max-sum-throughput"}
"""Other names of policies on the command line."""

ORACLE = "oracle"
PREDICTORS = ("restatement", "bayesian", "greedy", ORACLE)
"""Predictors of the regimes to come; the oracle knows them."""

RELAXATIONS = ("copter", "water-filling", "cvxpy")
"""Solvers of the relaxation: copter's core, a method for this one program, and cvxpy with Clarabel."""
EXACT = "highs-milp"
SOLVERS = (*RELAXATIONS, EXACT)
"""What the benchmark of plans measures."""
