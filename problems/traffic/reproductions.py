"""Flows on a wide-area network with few large or with bimodal demands, for `reproductions.toml`.

LP-All is the whole program by a simplex method that keeps its basis.  LP-Top solves the largest tenth of the
demands with it, and puts the others on their shortest paths.  POP-k has random parts.  The first rounds are
omitted, as in the thesis.

Source: thesis, section 5.2.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from copter.bench.reproduction import Effort, PaperFigure
from copter.bench.result_files import SolverResult
from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.problems.reading import find
from copter.problems.traffic.baselines import split_for
from copter.problems.traffic.course import Instance, make_instance, prepare
from copter.problems.traffic.matrices import make_matrix
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.topology import load_topology
from copter.solvers.registry import make_solver

_NETWORKS = {"Kdl": "Kdl.json", "ASN2k": "ASN2k.json"}
"""Networks of the thesis, by their files in the data folder."""
_FOLDER = "wan/harvard-cns_teal"
_GENERATED, _SMALL = "gabriel/250/0", "gabriel/50/0"
"""Topologies of topohub: one to use without a file, and a small one."""
_CARRIED = 0.9
"""Share of the volume that the links can carry, which determines their capacity."""
_DEMANDS, _ROUNDS, _LEFT_OUT = 20_000, 20, 5
_METHODS = {"LP-All": "highs-hot", "COpter": "copter", "LP-Top": "lp-top"} | {
    f"POP-{parts}": f"pop-{parts}" for parts in (16, 64, 128)
}


def _networks(effort: Effort) -> dict[str, str | Path]:
    """Return the networks by their labels: those of the thesis if files exist, else a generated one."""
    if effort.quick:
        return {"generated, 50 nodes": _SMALL}
    files = {name: find(effort.data, f"{_FOLDER}/{file}", file) for name, file in _NETWORKS.items()}
    there: dict[str, str | Path] = {name: file for name, file in files.items() if file is not None}
    return there or {"generated, 250 nodes": _GENERATED}


def demands(effort: Effort) -> list[PaperFigure]:
    """Return the share of volume of the largest demands."""
    figures = []
    for label, source in _networks(effort).items():
        topology = load_topology(source, capacity=1000.0)
        for model in ("poisson", "bimodal"):
            matrix = make_matrix(model, topology, seed=effort.seed)
            volumes = np.sort(matrix[matrix > 0.0])[::-1]
            for percent in (1, 10, 50):
                largest = volumes[: max(1, round(volumes.size * percent / 100))].sum()
                share = 100.0 * float(largest / volumes.sum())
                column = f"volume of the largest {percent}% of the demands"
                figures.append(PaperFigure(f"{label}, {model}", column, "%", share))
    return figures


def busy(instance: Instance, carried: float = _CARRIED) -> Instance:
    """Return the demands with equal capacities of links, such that a given share of the volume fits."""
    topology = replace(instance.topology, capacity=np.ones_like(instance.topology.capacity))
    solver, volumes = make_solver("copter", tolerance=1e-3), instance.volumes[0]
    traffic = TrafficEngineering(topology, instance.paths, "max-flow")
    scale, low, high = 1.0 / float(volumes.mean()), 0.0, math.inf
    while high > 1.01 * low:
        traffic.set_volumes(volumes * scale)
        flow = traffic.round(solver).flows.extras["total_flow"] / float(volumes.sum() * scale)
        low, high = (scale, high) if flow > carried else (low, scale)
        scale = (math.sqrt(low * high) if low else high / 4.0) if math.isfinite(high) else 4.0 * low
    return replace(instance, topology=replace(topology, capacity=topology.capacity / scale))


def flows(effort: Effort, *, model: str) -> list[PaperFigure]:
    """Return the flow over the optimum, and the time, of each method on each network."""
    figures = []
    for label, source in _networks(effort).items():
        figures += _flows_on(effort, model, label, source)
    return figures


def _flows_on(effort: Effort, model: str, label: str, source: str | Path) -> list[PaperFigure]:
    rounds, left_out = (4, 1) if effort.quick else (_ROUNDS, _LEFT_OUT)
    played: list[SolverResult] = []
    with TemporaryDirectory() as folder:
        topology = load_topology(source, capacity=1000.0)
        matrix = make_matrix(model, topology, seed=effort.seed)
        demands = 1_000 if effort.quick else _DEMANDS
        instance = busy(make_instance(topology, matrix, demands=demands, seed=effort.seed))
        split = split_for(model)
        course = prepare(
            Path(folder),
            instance,
            "max-flow",
            rounds=rounds,
            changes=("independent",),
            seed=effort.seed,
            split=split,
        )
        for name, solver in _METHODS.items():
            effort.say(f"{name}: {instance.paths.n_pairs} demands of {label}, {model}")
            played.append(measure(course, SolverSettings(solver, 1e-4)))
    course.compare(played)
    figures = []
    for name, one in zip(_METHODS, played, strict=True):
        records = one.records[left_out:]
        optimality = 100.0 * float(np.mean([record["optimality"] for record in records]))
        figures.append(PaperFigure(f"{label}: {name}", "flow over the optimum", "%", optimality))
        seconds = [record["seconds"] for record in records]
        mean = float(np.mean(seconds))
        figures.append(PaperFigure(f"{label}: {name}", "time a round", "s", mean, std=_deviation(seconds)))
    return figures


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
