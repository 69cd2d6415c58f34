"""Shockwave: Nash social welfare over time, for jobs whose batch size changes while they train.

:func:`replay` runs a trace under a policy: :class:`Shockwave`, or one of :data:`BASELINES`.  A plan is made
from a :class:`Window`, its relaxation, and :class:`copter.problems.shockwave.plan.PlanShim`.
:func:`solve_market` finds the equilibrium of a volatile Fisher market.

Source: Zheng and others, "Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in Machine
Learning", NSDI 2023.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from copter.lazy import lazy_names

if TYPE_CHECKING:
    from copter.problems.shockwave.baselines import make_baseline
    from copter.problems.shockwave.ftf import Outlook, finish_time_fairness, outlook
    from copter.problems.shockwave.generator import generate
    from copter.problems.shockwave.instances import snapshot
    from copter.problems.shockwave.interface import JobState, Policy, PolicyError, Round
    from copter.problems.shockwave.market import Equilibrium, Market, MarketError, solve_market
    from copter.problems.shockwave.mechanism import Mechanism
    from copter.problems.shockwave.metrics import JobResult, Metrics, PublishedResult, read_published
    from copter.problems.shockwave.names import BASELINES
    from copter.problems.shockwave.predictor import Errors, Pattern, pattern_of, prediction_errors
    from copter.problems.shockwave.relaxation import Relaxation, dual_bound, solve_relaxation
    from copter.problems.shockwave.scheduler import Settings, Shockwave, Solve, plan_problem
    from copter.problems.shockwave.simulation import ReplayResult, RoundRecord, replay, schedule_matrix
    from copter.problems.shockwave.traces import Job, Mode, Regime, TraceError, read_jobs, write_jobs
    from copter.problems.shockwave.waterfill import solve_waterfilling
    from copter.problems.shockwave.window import Window, build_window, window_of

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "baselines": "make_baseline",
        "ftf": "Outlook finish_time_fairness outlook",
        "generator": "generate",
        "instances": "snapshot",
        "interface": "JobState Policy PolicyError Round",
        "market": "Equilibrium Market MarketError solve_market",
        "mechanism": "Mechanism",
        "metrics": "JobResult Metrics PublishedResult read_published",
        "names": "BASELINES",
        "predictor": "Errors Pattern pattern_of prediction_errors",
        "relaxation": "Relaxation dual_bound solve_relaxation",
        "scheduler": "Settings Shockwave Solve plan_problem",
        "simulation": "ReplayResult RoundRecord replay schedule_matrix",
        "traces": "Job Mode Regime TraceError read_jobs write_jobs",
        "waterfill": "solve_waterfilling",
        "window": "Window build_window window_of",
    },
)

__all__ = [
    "BASELINES",
    "Equilibrium",
    "Errors",
    "Job",
    "JobResult",
    "JobState",
    "Market",
    "MarketError",
    "Mechanism",
    "Metrics",
    "Mode",
    "Outlook",
    "Pattern",
    "Policy",
    "PolicyError",
    "PublishedResult",
    "Regime",
    "Relaxation",
    "ReplayResult",
    "Round",
    "RoundRecord",
    "Settings",
    "Shockwave",
    "Solve",
    "TraceError",
    "Window",
    "build_window",
    "dual_bound",
    "finish_time_fairness",
    "generate",
    "make_baseline",
    "outlook",
    "pattern_of",
    "plan_problem",
    "prediction_errors",
    "read_jobs",
    "read_published",
    "replay",
    "schedule_matrix",
    "snapshot",
    "solve_market",
    "solve_relaxation",
    "solve_waterfilling",
    "window_of",
    "write_jobs",
]
