"""What the experiments of the paper share: traces of a size, policies over a trace, and figures of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from copter.bench.reproduction import Effort, Figure, mean_figure
from copter.errors import InputError
from copter.problems.cluster.policy import Estimator
from copter.problems.cluster.registry import make_policy
from copter.problems.reading import find
from copter.problems.shockwave.metrics import Metrics
from copter.problems.shockwave.simulation import ReplayResult, replay
from copter.problems.shockwave.traces import RegimeJob, read_jobs

FOLDER = "uw-mad-dash_shockwave"
SIZES = {32: 120, 64: 220, 128: 460, 256: 900}
"""Jobs of the authors' trace for so many GPUs."""
FAIR = ("themis", "gavel", "allox")
"""The fair schedulers that the paper's ratios are over."""
AUTHORS = {
    32: {"rounds": 20, "power": 12.0},
    64: {"rounds": 20, "power": 5.0},
    128: {"rounds": 20, "power": 15.0},
    256: {"rounds": 20, "power": 5.0},
}
"""T and k of the authors' runs, by GPUs."""


def published_folder(effort: Effort) -> Path:
    """Folder of what the authors published.

    Parameters
    ----------
    effort : Effort
        Names the folder of the data.

    Raises
    ------
    InputError
        It is not there.
    """
    folder = find(effort.data, FOLDER)
    if folder is None:
        raise InputError(effort.data or "data", FOLDER, "no such folder")
    return folder


def published_trace(effort: Effort, gpus: int) -> list[RegimeJob]:
    """The authors' trace for so many GPUs.

    Parameters
    ----------
    effort : Effort
        Names the folder of the data.
    gpus : int
        One of :data:`SIZES`.
    """
    folder = published_folder(effort) / "derived_job_epochs"
    found = sorted(folder.glob(f"{SIZES[gpus]}_*.json"))
    if not found:
        raise InputError(folder, "file", f"no trace of {SIZES[gpus]} jobs")
    return read_jobs(found[0])


def run(
    effort: Effort,
    jobs: Sequence[RegimeJob],
    gpus: int,
    name: str,
    *,
    estimator: Estimator | None = None,
    **settings: Any,
) -> ReplayResult:
    """Replay a trace under a policy of the registry.

    Parameters
    ----------
    **settings
        Settings of the policy.
    """
    effort.say(f"{name} {settings or ''}: {len(jobs)} jobs on {gpus} GPUs")
    return replay(jobs, gpus, make_policy(name, **settings), estimator=estimator)


def metrics(
    effort: Effort, cases: Sequence[tuple[Sequence[RegimeJob], int, str, Mapping[str, Any]]]
) -> list[Metrics]:
    """Metrics of several replays, all at once where they are spread.

    Parameters
    ----------
    cases : sequence of (jobs, GPUs, name, settings)
        See :func:`run`.
    """
    return effort.each(_metrics, cases)


def _metrics(
    effort: Effort, jobs: Sequence[RegimeJob], gpus: int, name: str, settings: Mapping[str, Any]
) -> Metrics:
    return run(effort, jobs, gpus, name, **settings).metrics


def fairness_figures(row: str, found: Sequence[Metrics], paper: tuple[float, float]) -> list[Figure]:
    """Worst fairness and unfair share of replays, one for each seed.

    Parameters
    ----------
    paper : (float, float)
        Worst, and share in per cent; NaN where the paper prints none.
    """
    return [
        mean_figure(row, "worst FTF", "", (one.worst_ftf for one in found), paper[0]),
        mean_figure(row, "unfair", "%", (100.0 * one.unfair_fraction for one in found), paper[1]),
    ]
