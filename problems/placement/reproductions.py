"""GPUs that policies allocate on the eight published mixes of tasks, and rounds on up to 100,480 servers.

Source: Weng et al. (ATC 2023), section 6; the figures beside ours are means of the ten seeds in their
`fgd_results.csv`.  Nnorom, Boyd and Levis, "CvxCluster" (2026).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.errors import InputError
from copter.problems.placement.experiment import Experiment
from copter.problems.placement.scale import SIZES, measure, measure_regions
from copter.problems.placement.servers import read_servers
from copter.problems.placement.tasks import read_tasks
from copter.problems.reading import find, read_csv

FOLDER = "placement/alibaba_gpu_v2023"
MIXES = (
    "default",
    "cpu100",
    "gpushare40",
    "gpushare100",
    "gpuspec10",
    "gpuspec33",
    "multigpu20",
    "multigpu50",
)
"""Lists of tasks, as their files are called."""
THEIRS = {
    "copter": "",
    "fgd": "06-FGD",
    "best-fit": "05-BestFit",
    "gpu-packing": "04-GpuPacking",
    "gpu-clustering": "03-GpuClustering",
    "dot-product": "02-DotProd",
    "random": "01-Random",
}
"""Policies, and their names in the published results."""
_DEMAND = 100
SCALE_MIX = "gpushare100"
"""Whose tasks are so small that ten run on a server."""
MILLION, REGIONS, MILLION_GAP = 1_000_000, 2, 0.02
"""Servers, the actors that have them, and the gap at which a region ends its round."""
MOVE_MIXES = ("default", "gpushare100", "gpuspec33", "multigpu50")
FAILURE_MIXES = ("default", "gpushare100")
FAILURE_DEMANDS = (80, 90, 100, 110, 120, 130)
LABELS = {"copter": "copter", "two-stages": "CvxCluster's stages", "highs": "HiGHS"}


def _allocated(effort: Effort) -> list[Figure]:
    """Allocation at 100% of demand; FGD's and copter's also if they know one half of the tasks."""
    mixes = ("gpushare100",) if effort.quick else MIXES
    published = _published(_folder(effort))
    rows = [(mix, policy, half) for mix in mixes for policy in THEIRS for half in (False, True)]
    rows = [row for row in rows if not row[2] or row[1] in ("copter", "fgd")]
    seeds = range(effort.seed, effort.seed + effort.seeds)
    answers = iter(effort.each(play, [(*row, seed) for row in rows for seed in seeds]))
    figures = []
    for mix, policy, half in rows:
        values = [next(answers) for _ in seeds]
        name = f"{mix}, {policy}" + (" that knows one half" if half else "")
        paper = math.nan if half else published.get((mix, THEIRS[policy]), math.nan)
        figures.append(mean_figure(name, "allocated at 100%", "%", values, paper))
    return figures


def play(effort: Effort, mix: str, policy: str, half: bool, seed: int) -> float:
    """Percent of the GPUs that a policy has allocated when 100% were asked for."""
    effort.say(f"{mix}, {policy}{' that knows one half' if half else ''}, seed {seed}")
    folder = _folder(effort)
    files = folder / "openb_node_list_gpu_node.csv", folder / f"openb_pod_list_{mix}.csv"
    return Experiment.read(*files, half=half).play(policy, seed).allocated_at(_DEMAND)


def _moves(effort: Effort) -> list[Figure]:
    """Tasks that come in rounds: what 1% of them that move are worth, beside what a plan has."""
    mixes = MOVE_MIXES[:1] if effort.quick else MOVE_MIXES
    seeds = range(effort.seed, effort.seed + effort.seeds)
    answers = iter(effort.each(moves, [(mix, seed) for mix in mixes for seed in seeds]))
    figures = []
    for mix in mixes:
        stay, move, plan = zip(*(next(answers) for _ in seeds), strict=True)
        closed = [(b - a) / (c - a) for a, b, c in zip(stay, move, plan, strict=True)]
        for name, values in (("none moves", stay), ("1% move a round", move), ("a plan in parts", plan)):
            figures.append(mean_figure(mix, f"allocated at 100%, {name}", "%", list(values)))
        figures.append(mean_figure(mix, "what is left to the plan, closed", "", closed))
    return figures


def moves(effort: Effort, mix: str, seed: int) -> tuple[float, float, float]:
    """Percent of the GPUs allocated in rounds without moves and with them, and by a plan."""
    effort.say(f"{mix}, seed {seed}")
    folder = _folder(effort)
    its = Experiment.read(folder / "openb_node_list_gpu_node.csv", folder / f"openb_pod_list_{mix}.csv")
    return its.play_in_rounds(seed, False), its.play_in_rounds(seed, True), its.planned(seed)


def _failures(effort: Effort) -> list[Figure]:
    """Tasks that found no place, by what they ask for and by demand."""
    mixes = FAILURE_MIXES[:1] if effort.quick else FAILURE_MIXES
    rows = [(mix, policy) for mix in mixes for policy in ("copter", "fgd")]
    seeds = range(effort.seed, effort.seed + effort.seeds)
    answers = iter(effort.each(failures, [(*row, seed) for row in rows for seed in seeds]))
    figures = []
    for mix, policy in rows:
        found = [next(answers) for _ in seeds]
        for group in sorted({group for its in found for group, _ in its}):
            for demand in FAILURE_DEMANDS:
                values = [its.get((group, demand), 0.0) for its in found]
                name = f"failed at {demand}%, {group}"
                figures.append(mean_figure(f"{mix}, {policy}", name, "%", values))
    return figures


def failures(effort: Effort, mix: str, policy: str, seed: int) -> dict[tuple[str, int], float]:
    """Percent of the tasks of each group that found no place, by group and demand."""
    effort.say(f"{mix}, {policy}, seed {seed}")
    folder = _folder(effort)
    files = folder / "openb_node_list_gpu_node.csv", folder / f"openb_pod_list_{mix}.csv"
    played = Experiment.read(*files)
    course, groups = played.play(policy, seed), [kind.group for kind in played.tasks.kinds]
    return {
        (group, demand): failed
        for demand in FAILURE_DEMANDS
        for group, failed in course.failures(groups, demand).items()
    }


def _folder(effort: Effort) -> Path:
    found = find(effort.data, FOLDER)
    if found is None:
        raise InputError(effort.data, FOLDER, "is not in the folder of data")
    return found


def _published(folder: Path) -> dict[tuple[str, str], float]:
    """Mean of the published seeds, by mix and policy."""
    column = f"allocated_at_{_DEMAND}"
    values: dict[tuple[str, str], list[float]] = {}
    for row in read_csv(folder / "fgd_results.csv", ("workload", "policy", column)):
        key = row.text("workload").removeprefix("openb_pod_list_"), row.text("policy")
        values.setdefault(key, []).append(row.amount(column))
    return {key: float(np.mean(each)) for key, each in values.items()}


def _scale(effort: Effort) -> list[Figure]:
    """Seconds of a round and what it is short by, by servers and system."""
    folder = _folder(effort)
    servers = read_servers(folder / "openb_node_list_gpu_node.csv")
    tasks = read_tasks(folder / f"openb_pod_list_{SCALE_MIX}.csv")
    sizes = SIZES[:2] if effort.quick else SIZES
    figures = []
    for size in measure(servers, tasks, sizes, seed=effort.seed, say=effort.say):
        row = f"{size.servers:,} servers"
        for name, its in size.systems.items():
            figures.append(mean_figure(row, f"a round, {LABELS[name]}", "s", its.seconds))
        for name, its in size.systems.items():
            short = [100.0 * each for each in its.short]
            figures.append(mean_figure(row, f"short of the bound, {LABELS[name]}", "%", short))
        figures.append(mean_figure(row, "a task alone", "ms", [1e3 * each for each in size.alone]))
        figures.append(Figure(row, "tasks that run", "", float(size.tasks)))
        figures.append(Figure(row, "tasks that come and go a round", "", float(size.changed)))
    return figures


def _million(effort: Effort) -> list[Figure]:
    """What ten million tasks on a million servers cost on two actors."""
    folder = _folder(effort)
    servers = read_servers(folder / "openb_node_list_gpu_node.csv")
    tasks = read_tasks(folder / f"openb_pod_list_{SCALE_MIX}.csv")
    number = 10_000 if effort.quick else MILLION
    its = measure_regions(servers, tasks, number, REGIONS, gap=MILLION_GAP, seed=effort.seed, say=effort.say)
    row = f"{number:,} servers, {REGIONS} actors"
    return [
        mean_figure(row, "a round", "s", its.seconds),
        mean_figure(row, "to be told what changed", "s", its.edit),
        mean_figure(row, "short of the bound of all servers", "%", [100.0 * each for each in its.short]),
        mean_figure(row, "the first rounds", "s", its.first),
        Figure(row, "until all servers are full", "s", its.filled),
        Figure(row, "memory", "GB", its.memory / 1e9),
        Figure(row, "tasks that run", "", float(its.tasks)),
        Figure(row, "tasks that come and go a round", "", float(its.changed)),
    ]


REPRODUCTIONS: Sequence[Reproduction] = (
    Reproduction(
        "fgd-allocated",
        "GPUs allocated when 100% are asked for, eight mixes of tasks",
        "Weng et al. (ATC 2023), section 6; their published results",
        "Other random orders than theirs, whose generator cannot be had: means are compared.",
        _allocated,
        needs_data=True,
        minutes=60.0,
        seeds=10,
    ),
    Reproduction(
        "fgd-failures",
        "Tasks that find no place, by what they ask for and by demand",
        "Weng et al. (ATC 2023), section 6",
        "The paper has pictures and no numbers of this; here it is copter's policy beside our FGD.",
        _failures,
        needs_data=True,
        minutes=3.0,
        seeds=3,
    ),
    Reproduction(
        "placement-moves",
        "Tasks that come in rounds, and 1% of them that move",
        "none: copter's own, on the tasks and by the protocol of Weng et al. (ATC 2023)",
        "Tasks come in rounds of 1% of the list; as many may move. A plan is one for the expected tasks "
        "with mixes of servers in parts: nothing integral is known to be better.",
        _moves,
        needs_data=True,
        minutes=3.0,
        seeds=3,
    ),
    Reproduction(
        "cvxcluster-scale",
        "Rounds of tasks on 100 to 100,480 servers",
        "Nnorom, Boyd and Levis, CvxCluster (2026), abstract",
        "Alibaba's servers and tasks, drawn, not Azure's. CvxCluster's two stages are our own, by what its "
        "abstract says, with cvxpy and Clarabel; HiGHS has 20 s a round. What a round is short by is "
        "measured by the lowest bound that any of them proves.",
        _scale,
        needs_data=True,
        minutes=10.0,
        seeds=1,
    ),
    Reproduction(
        "placement-million",
        "Rounds of ten million tasks on a million servers, on two Ray actors",
        "none: copter's own",
        "Alibaba's servers and tasks, drawn. Both actors are on one machine, each with one processor; a "
        "region's round ends within 2%, and the bound is one of all servers together.",
        _million,
        needs_data=True,
        minutes=15.0,
        seeds=1,
    ),
)
