"""Shockwave on the authors' traces, for `reproductions.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.errors import InputError
from copter.problems.cluster.registry import make_policy
from copter.problems.reading import find
from copter.problems.shockwave.metrics import MarketMetrics, read_published
from copter.problems.shockwave.simulation import replay
from copter.problems.shockwave.traces import RegimeJob, read_jobs

_FOLDER = "uw-mad-dash_shockwave"
_SIZES = {32: 120, 64: 220, 128: 460, 256: 900}
"""Number of jobs of the authors' trace, by number of GPUs."""
_UNITS = {
    "makespan": "s",
    "average JCT": "s",
    "unfair": "%",
    "unfair, FTF above 1.1": "%",
    "leases extended": "%",
}


def simulated(effort: Effort, **settings: Any) -> list[PaperFigure]:
    """Return the figures of policies on traces (see `_sample`)."""
    return grid(effort, _sample, _UNITS, paper=_paper, **settings)


def _sample(
    effort: Effort,
    row: str,
    k: int,
    *,
    policy: str,
    gpus: int,
    published: str = "",
    file: str = "",
    **options: Any,
) -> dict[str, float]:
    """Replay the authors' trace for a number of GPUs, and return the values of the figures."""
    trace = _published_trace(effort, gpus)
    effort.say(f"{policy} {options or ''}: {len(trace)} jobs on {gpus} GPUs")
    found = replay(trace, gpus, make_policy(policy, **options))
    return _shown(found.metrics) | {
        "leases extended": 100.0 * found.extended,
        "starts a job": float(np.mean([job.starts for job in found.jobs])),
    }


def _shown(metrics: MarketMetrics) -> dict[str, float]:
    return {
        "makespan": metrics.makespan,
        "average JCT": metrics.average_jct,
        "worst FTF": metrics.worst_ftf,
        "unfair": 100.0 * metrics.unfair_fraction,
        "unfair, FTF above 1.1": 100.0 * metrics.unfair_fraction_tolerant,
    }


def _published_folder(effort: Effort) -> Path:
    folder = find(effort.data, _FOLDER)
    if folder is None:
        raise InputError(effort.data or "data", _FOLDER, "no such folder")
    return folder


def _published_trace(effort: Effort, gpus: int) -> list[RegimeJob]:
    """Return the authors' trace for 32, 64, 128 or 256 GPUs."""
    folder = _published_folder(effort) / "derived_job_epochs"
    found = sorted(folder.glob(f"{_SIZES[gpus]}_*.json"))
    if not found:
        raise InputError(folder, "file", f"no trace of {_SIZES[gpus]} jobs")
    return read_jobs(found[0])


def _paper(
    effort: Effort, *, gpus: int, published: str = "", file: str = "", **others: Any
) -> dict[str, float]:
    """Return the published result of the authors by its name, in which ``{file}`` denotes `file`."""
    if not published:
        return {}
    name = f"tacc_32gpus_{published.format(file=file)}.json"
    path = _published_folder(effort) / "scheduler" / "results_json" / name
    return _shown(read_published(path, _published_trace(effort, gpus)).metrics)


def sizes(effort: Effort, **settings: Any) -> list[PaperFigure]:
    """Return makespans relative to Shockwave's, by number of GPUs with ranges, and Shockwave's fairness."""
    over = {"of": "{policy}, {gpus} GPUs", "over": "shockwave, {gpus} GPUs"}
    fairness: list[dict[str, Any]] = [
        {"column": column, "of": "shockwave, {gpus} GPUs"} for column in ("worst FTF", "unfair")
    ]
    derived = [over | {"column": "makespan over Shockwave's"}, *fairness]
    for pick in ("least", "most"):
        derived.append(
            over | {"row": "{policy}", "column": f"makespan over Shockwave's, {pick}", "pick": pick}
        )
    worst = {"row": "{policy}", "column": "worst FTF over Shockwave's", "field": "worst FTF", "paired": False}
    derived += [over | worst, *({"row": "shockwave, mean"} | one for one in fairness)]
    return simulated(effort, row="{policy}, {gpus} GPUs", derived=derived, **settings)


def physical(effort: Effort, *, published: str, gpus: int, **settings: Any) -> list[PaperFigure]:
    """Return how far our simulation, and that of the authors, differs from runs on the physical cluster."""
    figures = simulated(effort, published=published, gpus=gpus, **settings)
    ours = {(one.row, one.column): one.ours for one in figures}
    physical = {(one.row, one.column): one.paper for one in figures}
    simulation = published.replace("physical", "simulation")
    theirs = {
        (row, column): value
        for row, one in settings["axes"]["policy"].items()
        for column, value in _paper(effort, gpus=gpus, published=simulation, **one).items()
    }
    for column in ("makespan", "average JCT", "unfair"):
        for row, found in (
            ("mean difference", ours),
            ("mean difference, authors' simulator by the same files", theirs),
        ):
            off = [
                abs(found[place] - paper) if column == "unfair" else 100.0 * abs(found[place] / paper - 1.0)
                for place, paper in physical.items()
                if place[1] == column
            ]
            figures.append(PaperFigure(row, column, "%", float(np.mean(off))))
    return figures
