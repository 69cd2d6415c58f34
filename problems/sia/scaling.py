"""Figures 4.3 and 4.4 of the thesis: Sia's relaxation by open-source solvers, as the cluster grows.

Figure 4.3 has the time of a round: copter keeps the program and its answer, all others but HiGHS, hot, begin
anew.  Figure 4.4 has the composition of one round's answer.  The rounds are those of a cluster in a steady
state (:mod:`copter.problems.sia.course`).

Source: thesis, sections 4.3.1 and 4.3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from copter.bench.composition import compare
from copter.bench.reproduction import Effort, Figure, Reproduction
from copter.bench.rounds import Job, play
from copter.bench.settings import SolverSettings
from copter.bench.solvers import entrant
from copter.problems.sia.course import record_sia
from copter.problems.sia.steady import SteadyReplay
from copter.solvers.registry import make_solver

SOLVERS = ("copter", "highs-hot", "highs-simplex", "highs-ipm", "highs-pdlp", "glop", "pdlp", "scs", "osqp")
SIZES = ((64, 20), (256, 60), (1024, 160), (4096, 500), (10240, 1000))
"""GPUs and jobs at any time."""
ROUNDS, LIMIT, TOLERANCE = 4, 60.0, 1e-4
"""The first round is left out; seconds that a round may take: one that takes longer is a solver's last."""
COMPOSED = (1024, 160)
"""GPUs and jobs of the program whose answers are looked at: SCS and OSQP get it done."""


def _times(effort: Effort) -> list[Figure]:
    figures: list[Figure] = []
    there = list(SOLVERS)
    for gpus, jobs in SIZES[:2] if effort.quick else SIZES:
        with TemporaryDirectory() as folder:
            course = record_sia(Path(folder), gpus=gpus, jobs=jobs, rounds=ROUNDS, seed=effort.seed)
            for solver in tuple(there):
                label = entrant(solver).label
                effort.say(f"{label}: {jobs} jobs on {gpus} GPUs")
                settings = SolverSettings(solver, TOLERANCE, time_limit=LIMIT)
                played = play(Job(course, settings, limit=LIMIT, warm_up_seconds=10.0))
                seconds = [
                    record["t_total"] for record in played.records[1:] if record["status"] == "optimal"
                ]
                if len(seconds) < ROUNDS - 1:
                    there.remove(solver)
                    seconds = []
                figures.append(_figure(f"{gpus} GPUs", label, seconds))
    return figures


def _figure(row: str, column: str, seconds: Sequence[float]) -> Figure:
    """The median, NaN where there is none: the limit was passed."""
    if not seconds:
        return Figure(row, column, "s", math.nan)
    return Figure(row, column, "s", float(np.median(seconds)), std=float(np.std(seconds, ddof=1)))


def _composition(effort: Effort) -> list[Figure]:
    gpus, jobs = SIZES[1] if effort.quick else COMPOSED
    replay = SteadyReplay(gpus, jobs, ROUNDS, make_solver("copter", tolerance=1e-6), seed=effort.seed)
    for _ in replay.run():
        pass
    return compare(replay.policy.program, effort.say)


REPRODUCTIONS = (
    Reproduction(
        "thesis-figure-4.3",
        "Time of a round of Sia's relaxation by the size of the cluster, by solver",
        "thesis, Figure 4.3",
        "The picture is not readable. A generated cluster in a steady state; medians of three rounds on 2 "
        "cores, to a certified gap of 1e-4; a solver that passes a minute is not asked on. "
        "SCS and OSQP, of ADMM, are compiled by cvxpy, which counts.",
        _times,
        minutes=20.0,
        seeds=1,
    ),
    Reproduction(
        "thesis-figure-4.4",
        "How integral the answers of Sia's relaxation are, by solver",
        "thesis, Figure 4.4",
        "The paper has CPLEX' simplex, and says of ADMM that its answers are less integral; 1,024 GPUs, one "
        "round of a generated cluster in a steady state.",
        _composition,
        minutes=5.0,
        seeds=1,
    ),
)
