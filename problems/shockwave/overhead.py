"""Figure 12 of the Shockwave paper: how far a plan is from the optimum after how many seconds, by jobs.

The paper's solver ends after 15 s with the bound gap that it then has; copter's relaxation and shim end by
themselves, with a gap against the relaxation's certified bound.

Source: Shockwave, NSDI 2023, section 8.9.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction
from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.problems.shockwave.course import PlanCourse
from copter.problems.shockwave.scheduler import Settings
from copter.problems.shockwave.window import ROUNDS

PAPER: Mapping[int, float] = {500: 0.03, 1000: 0.11, 2000: 0.44}
"""Bound gap in percent after 15 s, by active jobs, on 256 GPUs."""
TIMEOUT = 15.0
_GPUS = 256
_SHIM_SECONDS = 1.0


def _overhead(effort: Effort) -> list[Figure]:
    figures = []
    for jobs in (60,) if effort.quick else PAPER:
        gpus = 16 if effort.quick else _GPUS
        effort.say(f"{jobs} jobs on {gpus} GPUs")
        course = PlanCourse(jobs, gpus, 6, effort.seed, Settings(rounds=ROUNDS, shim_seconds=_SHIM_SECONDS))
        records = measure(course, SolverSettings("copter", 1e-6, TIMEOUT)).records[1:]
        printed = math.nan if effort.quick else PAPER[jobs]
        gap = 100.0 * max(record["integral_gap"] for record in records)
        figures.append(Figure(f"{jobs:,} jobs", "largest bound gap", "%", float(gap), printed))
        seconds = [record["t_total"] for record in records]
        limit = math.nan if effort.quick else TIMEOUT
        figures.append(
            Figure(f"{jobs:,} jobs", "time of a plan, median", "s", float(np.median(seconds)), limit)
        )
    return figures


REPRODUCTIONS = (
    Reproduction(
        "shockwave-figure-12",
        "Overhead of the solver: bound gap by number of jobs",
        "Shockwave, NSDI 2023, Figure 12",
        "Jobs of this project's generator, T = 20; gap against the relaxation's bound, relative to what "
        "the objective is made up of; the paper's gaps are those after 15 s of Gurobi.",
        _overhead,
        minutes=1.0,
    ),
)
