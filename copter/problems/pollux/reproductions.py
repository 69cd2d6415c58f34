"""Pollux' evaluation (section 5) on the authors' workloads, for `reproductions.toml`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.problems.cluster.traces.pollux import WORKLOADS
from copter.problems.pollux.artifact import Artifact
from copter.problems.pollux.fitness import WEIGHTED_MEAN

_JCT = ("average JCT", "p50 JCT", "p99 JCT")


def simulated(effort: Effort, *, shipped: str = "", **settings: Any) -> list[PaperFigure]:
    """Return the figures of policies on the authors' workloads (`_sample`), with the published result."""
    units, artifact = dict.fromkeys(_JCT, "s"), Artifact(effort)

    def paper(effort: Effort, **case: Any) -> dict[str, float]:
        result = case.get("result", shipped).format(**case)
        return {"average JCT": artifact.shipped(result, artifact.numbers)} if result else {}

    return grid(effort, _sample, units, samples=WORKLOADS, paper=paper, **settings)


def _sample(
    effort: Effort,
    row: str,
    k: int,
    *,
    policy: str,
    load: float = 1.0,
    result: str = "",
    avoidance: str = "",
    decay: float | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Return completion times in seconds on a workload of a load.

    Pollux runs "with" or "without" avoidance of interference, or with a decay of the weights of jobs in the
    mean of their speedups.
    """
    artifact = Artifact(effort)
    jobs = artifact.jobs(artifact.numbers[k], "workloads" if load == 1.0 else f"workloads-{load}")
    if avoidance:
        settings["avoid_interference"] = avoidance == "with"
    if decay is not None:
        settings["fitness"] = replace(WEIGHTED_MEAN, decay=decay)
    played = artifact.simulator(policy, jobs, **settings).play()
    times = np.array([record.jct for record in played.job_results()])
    effort.say(f"{row}, workload {artifact.numbers[k]}: {times.mean():,.0f} s")
    return dict(zip(_JCT, [float(times.mean()), *np.quantile(times, (0.5, 0.99)).tolist()], strict=True))
