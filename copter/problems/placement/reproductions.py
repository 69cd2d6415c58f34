"""Reproductions: allocated GPUs on the eight published mixes.

Source: Weng et al. (ATC 2023), section 6; the published figures are means over the ten seeds in
`fgd_results.csv`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.errors import InputError
from copter.problems.placement.experiment import Experiment
from copter.problems.reading import find, read_csv

_FOLDER = "placement/alibaba_gpu_v2023"
_ALLOCATED = "allocated at 100%"


def allocated(effort: Effort, **settings: Any) -> list[PaperFigure]:
    """Return the percentage of GPUs that policies have allocated at 100% demand, by mix of tasks."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in read_csv(_folder(effort) / "fgd_results.csv", ("workload", "policy", "allocated_at_100")):
        key = row.text("workload").removeprefix("openb_pod_list_"), row.text("policy")
        values.setdefault(key, []).append(row.amount("allocated_at_100"))

    def paper(effort: Effort, *, mix: str, published: str = "", **others: Any) -> dict[str, float]:
        found = values.get((mix, published))
        return {} if found is None else {_ALLOCATED: float(np.mean(found))}

    return grid(effort, _play, {_ALLOCATED: "%"}, paper=paper, **settings)


def _play(
    effort: Effort, row: str, k: int, *, mix: str, policy: str, half: bool = False, published: str = ""
) -> dict[str, float]:
    """Play arrivals of a mix under a policy, which may know one half of the tasks."""
    effort.say(f"{row}, seed {effort.seed + k}")
    played = _experiment(effort, mix, half=half).play(policy, effort.seed + k)
    return {_ALLOCATED: played.allocated_at(100)}


def _experiment(effort: Effort, mix: str, *, half: bool = False) -> Experiment:
    folder = _folder(effort)
    files = folder / "openb_node_list_gpu_node.csv", folder / f"openb_pod_list_{mix}.csv"
    return Experiment.read(*files, half=half)


def _folder(effort: Effort) -> Path:
    found = find(effort.data, _FOLDER)
    if found is None:
        raise InputError(effort.data or "data", _FOLDER, "does not exist in the folder of data")
    return found
