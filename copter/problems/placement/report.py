"""`copter run placement`: a row for each seed in its folder, and metrics by policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from copter.bench.report.model import Claim, ReportTable, simple_table
from copter.cli.command import RunOptions
from copter.cli.console import progress
from copter.cli.plots import over_time
from copter.cli.run import Run
from copter.cli.runfolder import Rows
from copter.problems.placement.experiment import Experiment
from copter.problems.placement.online.play import DEMANDS, PlayedTasks

_FULL = 100
"""Demand, in percent of the GPUs, at which failures are counted."""
_SEEDS = "seeds.csv"
_ROW = {
    "policy": "name of the policy",
    "seed": "seed of the order of the tasks",
    "tasks": "number of tasks that arrived",
    "failed": "number of tasks that found no place",
    **{f"allocated_at_{at}": f"percent of the GPUs allocated at a demand of {at}%" for at in DEMANDS},
}


def run_placement(
    experiment: Experiment, policies: Sequence[str], seeds: Sequence[int], options: RunOptions
) -> None:
    """Play policies with several seeds under a progress bar, and report their allocations."""
    title = f"Placement: tasks on {len(experiment.servers)} servers"
    played: dict[str, list[PlayedTasks]] = {name: [] for name in policies}
    with Run(options, "placement", title, {_SEEDS: Rows("a row per policy and seed:", _ROW)}) as run:
        with progress("{task.fields[now]}", quiet=options.quiet) as bar:
            line = bar.add_task("policies and seeds", total=len(policies) * len(seeds), now="")
            for name in policies:
                for seed in seeds:
                    bar.update(line, now=f"{name} seed {seed}")
                    one = experiment.play(name, seed)
                    played[name].append(one)
                    run.write(_SEEDS, {"policy": name, "seed": seed, **_figures(one)})
                    bar.advance(line)
        groups = [kind.group for kind in experiment.tasks.kinds]
        metrics = {name: _metrics(each, groups) for name, each in played.items()}
        servers = experiment.servers
        sizes = {"servers": len(servers), "gpus": int(servers.gpus.sum()), "tasks": len(experiment.tasks)}
        run.end(sizes | {"policies": metrics}, [_table(title, metrics)], lambda: [_allocation(played)])


def _figures(one: PlayedTasks) -> dict[str, Any]:
    failed = sum(place is None for place in one.places)
    shares = {f"allocated_at_{at}": one.allocated_at(at) for at in DEMANDS}
    return {"tasks": len(one.places), "failed": failed, **shares}


def _metrics(played: Sequence[PlayedTasks], groups: Sequence[str]) -> dict[str, Any]:
    """Return the metrics of one policy; None at a demand that was not reached."""
    shown: dict[str, Any] = {}
    for at in DEMANDS:
        values = np.array([one.allocated_at(at) for one in played])
        there = bool(np.isfinite(values).all())
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
        shown[f"allocated_at_{at}"] = float(values.mean()) if there else None
        shown[f"allocated_at_{at}_std"] = spread if there else None
    failures = [one.failures(groups, _FULL) for one in played]
    shown["failed_at_100"] = {
        group: float(np.mean([each[group] for each in failures if group in each]))
        for group in sorted({group for each in failures for group in each})
    }
    return shown


def _allocation(played: dict[str, list[PlayedTasks]]) -> Claim:
    """Return the section with the picture of the allocation by demand, means over seeds."""
    lines = {
        name: [float(np.mean([one.allocated_at(at) for one in each])) for at in DEMANDS]
        for name, each in played.items()
    }
    label, axis = "allocated (% of GPUs)", "demand (% of GPUs)"
    shown = over_time("allocated", DEMANDS, lines, label, "Allocated GPUs, means over seeds", axis=axis)
    return Claim("allocation", "Allocation by demand", pictures=(shown,))


def _table(title: str, policies: dict[str, dict[str, Any]]) -> ReportTable:
    shown, rows = (80, 90, 100, 130), []
    for name, figures in policies.items():
        cells = []
        for at in shown:
            mean, spread = figures[f"allocated_at_{at}"], figures[f"allocated_at_{at}_std"]
            cells.append("-" if mean is None else f"{mean:.2f} ± {spread:.2f}")
        failed = (f"{group} {share:.1f}" for group, share in figures["failed_at_100"].items() if share)
        rows.append((name, *cells, ", ".join(failed) or "none"))
    columns = ("policy", *(f"at {at}%" for at in shown), "failed at 100% (%)")
    return simple_table(f"{title}, % of GPUs allocated by demand", columns, rows)
