"""Figures 2, 4 and 5: what it is worth to know changes of batch size before, and how well one can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from copter.bench.reproduction import Effort, Figure
from copter.problems.shockwave import KNOWLEDGE
from copter.problems.shockwave.awareness import make_knowledge
from copter.problems.shockwave.experiments import SIZES, published_trace, run
from copter.problems.shockwave.predictor import prediction_errors
from copter.problems.shockwave.simulation import ReplayResult
from copter.problems.shockwave.traces import Job, Mode, Regime

THREE_JOBS = (
    Job("J1", 0.0, 1, Mode.GNS, (Regime(32, 1, 3600.0), Regime(64, 4, 900.0))),
    Job("J2", 0.0, 1, Mode.GNS, (Regime(32, 1, 3600.0), Regime(64, 4, 900.0))),
    Job("J3", 0.0, 1, Mode.STATIC, (Regime(32, 5, 2160.0),)),
)
"""Jobs in the manner of figure 4, which prints no times: two look longer than the third, and are shorter."""


def _ratios(jobs: Sequence[Job], found: dict[str, ReplayResult]) -> dict[str, float]:
    """Fairness, by knowledge, of the dynamic job that the reactive policy is most unfair to."""
    dynamic = {job.name for job in jobs if len(job.regimes) > 1}
    by_name = {know: {job.name: job.ftf for job in one.jobs} for know, one in found.items()}
    name = max(sorted(dynamic & by_name["reactive"].keys()), key=by_name["reactive"].__getitem__)
    return {know: ratios[name] for know, ratios in by_name.items()}


def figure_2(effort: Effort) -> list[Figure]:
    """Measure Figure 2: one job under Themis, agnostic and reactive, and under Shockwave."""
    jobs = published_trace(effort, 32)
    known = ("agnostic", "reactive")
    found = {know: run(effort, jobs, 32, "themis", estimator=make_knowledge(know)) for know in known}
    found["proactive"] = run(effort, jobs, 32, "shockwave")
    rows = {"agnostic": ("themis", 3.07), "reactive": ("themis", 2.07), "proactive": ("shockwave", 1.0)}
    one = _ratios(jobs, found)
    figures = [
        Figure(f"{policy}, {know}", "FTF of one job", "", one[know], paper)
        for know, (policy, paper) in rows.items()
    ]
    for know, (policy, _) in rows.items():
        dynamic = [job.ftf for job in found[know].jobs if len(_named(jobs, job.name).regimes) > 1]
        late = 100.0 * float(np.mean(np.array(dynamic) > 1.0))
        figures.append(Figure(f"{policy}, {know}", "unfair dynamic jobs", "%", late))
    return figures


def _named(jobs: Sequence[Job], name: str) -> Job:
    return next(job for job in jobs if job.name == name)


def figure_4(effort: Effort) -> list[Figure]:
    """Measure Figure 4: the makespan of OSSP by what it knows, on three jobs and on the authors' trace."""
    figures = []
    cases: list[tuple[str, Sequence[Job], int, dict[str, float]]] = [
        ("3 jobs", THREE_JOBS, 2, {"agnostic": 30.0, "reactive": 22.3})
    ]
    if effort.data is not None:
        cases.append(("120 jobs", published_trace(effort, 32), 32, {}))
    for label, jobs, gpus, paper in cases:
        spans = {
            know: run(effort, jobs, gpus, "ossp", estimator=make_knowledge(know)).metrics.makespan
            for know in KNOWLEDGE
        }
        for know in ("agnostic", "reactive"):
            worse = 100.0 * (spans[know] / spans["proactive"] - 1.0)
            row = f"{know}, {label}"
            figures.append(Figure(row, "makespan over proactive", "%", worse, paper.get(know, float("nan"))))
    return figures


def figure_5(effort: Effort) -> list[Figure]:
    """Measure Figure 5: errors of the three rules of prediction, on the jobs of all traces."""
    jobs = [job for gpus in ((32,) if effort.quick else SIZES) for job in published_trace(effort, gpus)]
    paper = {"restatement": (6.0, 16.0)}
    figures = []
    for rule, errors in prediction_errors(jobs).items():
        regime, run_time = paper.get(rule, (float("nan"),) * 2)
        figures.append(Figure(rule, "regimes", "%", 100.0 * float(errors.regime.mean()), regime))
        figures.append(Figure(rule, "run time", "%", 100.0 * float(errors.run_time.mean()), run_time))
    return figures
