"""Figure 4.6 of the thesis: what solver, differential interface and warm start are worth, one on the other.

The same recorded rounds four times: by a general solver that gets a new model each round, by copter's that
gets one too and starts cold, by one that gets edits in place, still cold, and by one that starts warm.  Each
speed-up is a ratio of the seconds of a round, round by round.

Source: thesis, section 4.5.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from copter.bench.reproduction import Effort, Figure, Reproduction
from copter.bench.rounds import measure
from copter.bench.settings import Record, SolverSettings
from copter.problems.sia.course import record_sia

PAPER = {"solver": 5.0, "differential updates": 3.5, "warm start": 1.5, "all three": 24.0}
"""Means, from the text."""
_GPUS, _JOBS, _ROUNDS = 2_560, 250, 6
_TOLERANCE = 1e-4
_GENERAL = "highs-simplex"


def _attribution(effort: Effort) -> list[Figure]:
    gpus, jobs = (256, 60) if effort.quick else (_GPUS, _JOBS)
    played: dict[str, Sequence[Record]] = {}
    with TemporaryDirectory() as folder:
        course = record_sia(Path(folder), gpus=gpus, jobs=jobs, rounds=_ROUNDS, seed=effort.seed)
        for solver in (_GENERAL, "copter-rebuild", "copter-cold", "copter"):
            effort.say(f"{solver}: {jobs} jobs on {gpus} GPUs")
            played[solver] = measure(course, SolverSettings(solver, _TOLERANCE)).records[1:]
    general, cold, warm = (_seconds(played[name], "t_total") for name in (_GENERAL, "copter-cold", "copter"))
    # copter's solver cold on a program that is built anew: the one's edits, the other's solve
    rebuilt = cold - _seconds(played["copter-cold"], "t_edit") + _seconds(played["copter-rebuild"], "t_edit")
    speedups = {
        "solver": general / rebuilt,
        "differential updates": rebuilt / cold,
        "warm start": cold / warm,
        "all three": general / warm,
    }
    return [
        figure
        for name, ratios in speedups.items()
        for figure in _spread(name, ratios, math.nan if effort.quick else PAPER[name])
    ]


def _seconds(records: Sequence[Record], field: str) -> NDArray[np.float64]:
    return np.array([record[field] for record in records], np.float64)


def _spread(name: str, ratios: NDArray[np.float64], paper: float) -> list[Figure]:
    """Mean, median, 10th and 90th percentile, as in the figure."""
    p10, p50, p90 = np.percentile(ratios, (10, 50, 90)).tolist()
    values = {"mean": float(ratios.mean()), "median": p50, "p10": p10, "p90": p90}
    return [
        Figure(name, what, "x", value, paper if what == "mean" else math.nan)
        for what, value in values.items()
    ]


REPRODUCTIONS = (
    Reproduction(
        "thesis-figure-4.6",
        "Speed-ups by solver, differential updates and warm start, one on the other",
        "thesis, Figure 4.6",
        "HiGHS' simplex method in place of a commercial solver, 2 cores, recorded rounds of a generated "
        "cluster of 2,560 GPUs, as HiGHS' simplex takes minutes a round on 10,240. "
        "Differential updates alone are worth less the faster the solver is beside them.",
        _attribution,
        minutes=4.0,
        seeds=1,
    ),
)
