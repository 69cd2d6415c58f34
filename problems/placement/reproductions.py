"""Reproductions: allocated GPUs on the eight published mixes, and rounds on up to a million servers.

Sources: Weng et al. (ATC 2023), section 6; the published figures are means of the ten seeds in their
`fgd_results.csv`.  Nnorom, Boyd and Levis, "CvxCluster" (2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure, mean_figure
from copter.errors import InputError
from copter.problems.placement.experiment import Experiment
from copter.problems.placement.rounds.scale import measure, measure_regions
from copter.problems.placement.servers import Servers, read_servers
from copter.problems.placement.tasks import Tasks, read_tasks
from copter.problems.reading import find, read_csv

_FOLDER = "placement/alibaba_gpu_v2023"
_SCALE_MIX = "gpushare100"
"""Mix whose tasks are so small that ten run on a server."""
_FAILURE_DEMANDS = (80, 90, 100, 110, 120, 130)
_LABELS = {"copter": "copter", "two-stages": "CvxCluster's stages", "highs": "HiGHS"}
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


def moves(effort: Effort, **settings: Any) -> list[PaperFigure]:
    """Return the allocation of tasks in rounds, without moves, with 1% moves, and in a fractional plan."""
    names = ("none moves", "1% move a round", "a plan in parts")
    return grid(effort, _moves, {f"{_ALLOCATED}, {name}": "%" for name in names}, **settings)


def _moves(effort: Effort, row: str, k: int, *, mix: str) -> dict[str, float]:
    seed = effort.seed + k
    effort.say(f"{row}, seed {seed}")
    its = _experiment(effort, mix)
    stay, move, plan = its.play_in_rounds(seed, False), its.play_in_rounds(seed, True), its.planned(seed)
    return {
        f"{_ALLOCATED}, none moves": stay,
        f"{_ALLOCATED}, 1% move a round": move,
        f"{_ALLOCATED}, a plan in parts": plan,
        "what is left to the plan, closed": (move - stay) / (plan - stay),
    }


def failures(effort: Effort, **settings: Any) -> list[PaperFigure]:
    """Return the percentage of tasks that found no place, by request and by demand."""
    return grid(effort, _failures, {"": "%"}, **settings)


def _failures(effort: Effort, row: str, k: int, *, mix: str, policy: str) -> dict[str, float]:
    effort.say(f"{row}, seed {effort.seed + k}")
    played = _experiment(effort, mix)
    course, groups = played.play(policy, effort.seed + k), [kind.group for kind in played.tasks.kinds]
    found = {demand: course.failures(groups, demand) for demand in _FAILURE_DEMANDS}
    return {
        f"failed at {demand}%, {group}": found[demand].get(group, 0.0)
        for group in sorted(set(groups))
        for demand in _FAILURE_DEMANDS
    }


def _experiment(effort: Effort, mix: str, *, half: bool = False) -> Experiment:
    folder = _folder(effort)
    files = folder / "openb_node_list_gpu_node.csv", folder / f"openb_pod_list_{mix}.csv"
    return Experiment.read(*files, half=half)


def _folder(effort: Effort) -> Path:
    found = find(effort.data, _FOLDER)
    if found is None:
        raise InputError(effort.data or "data", _FOLDER, "does not exist in the folder of data")
    return found


def scale(effort: Effort, *, sizes: Sequence[int]) -> list[PaperFigure]:
    """Return the seconds and the gap of a round, by number of servers and system."""
    figures = []
    for size in measure(*_large(effort), sizes, seed=effort.seed, say=effort.say):
        row = f"{size.servers:,} servers"
        for name, its in size.systems.items():
            figures.append(mean_figure(row, f"a round, {_LABELS[name]}", "s", its.seconds))
        for name, its in size.systems.items():
            short = [100.0 * each for each in its.short]
            figures.append(mean_figure(row, f"short of the bound, {_LABELS[name]}", "%", short))
        figures.append(mean_figure(row, "a task alone", "ms", [1e3 * each for each in size.alone]))
        figures.append(PaperFigure(row, "tasks that run", "", float(size.tasks)))
        figures.append(PaperFigure(row, "tasks that come and go a round", "", float(size.changed)))
    return figures


def regions(effort: Effort, *, servers: int, actors: int, gap: float) -> list[PaperFigure]:
    """Return figures of rounds on several actors, each with a part of the servers, that end at a gap."""
    its = measure_regions(*_large(effort), servers, actors, gap=gap, seed=effort.seed, say=effort.say)
    row = f"{servers:,} servers, {actors} actors"
    return [
        mean_figure(row, "a round", "s", its.seconds),
        mean_figure(row, "to be told what changed", "s", its.edit),
        mean_figure(row, "short of the bound of all servers", "%", [100.0 * each for each in its.short]),
        mean_figure(row, "the first rounds", "s", its.first),
        PaperFigure(row, "until all servers are full", "s", its.filled),
        PaperFigure(row, "memory", "GB", its.memory / 1e9),
        PaperFigure(row, "tasks that run", "", float(its.tasks)),
        PaperFigure(row, "tasks that come and go a round", "", float(its.changed)),
    ]


def _large(effort: Effort) -> tuple[Servers, Tasks]:
    """Return the lists from which servers and tasks are drawn."""
    folder = _folder(effort)
    servers = read_servers(folder / "openb_node_list_gpu_node.csv")
    return servers, read_tasks(folder / f"openb_pod_list_{_SCALE_MIX}.csv")
