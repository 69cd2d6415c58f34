"""Figures 5.4 to 5.6 of the thesis: flows on a wide-area network under few large demands, and two bands.

LP-All is the whole program by a simplex method that keeps its basis, LP-Top the largest tenth of the demands
by it and the others on their shortest path, POP-k random parts.  The first rounds are left out, as in the
thesis.

Source: thesis, section 5.2.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction
from copter.bench.results import SolverResult
from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.problems.reading import find
from copter.problems.traffic.baselines import split_for
from copter.problems.traffic.course import Instance, make_instance, prepare
from copter.problems.traffic.matrices import make_matrix
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.topology import load_topology
from copter.solvers.registry import make_solver

NETWORKS = {"Kdl": "Kdl.json", "ASN2k": "ASN2k.json"}
"""The thesis' networks, by their files in the folder of data."""
FOLDER = "wan/harvard-cns_teal"
GENERATED, SMALL = "gabriel/250/0", "gabriel/50/0"
"""Topologies of topohub: a network without a file, and a small one."""
PAPER: Mapping[tuple[str, str], float] = {
    ("poisson", "COpter"): 99.9,
    ("poisson", "POP-64"): 99.0,
    ("bimodal", "LP-Top"): 90.0,
}
"""Share of the optimum on Kdl, in percent, from the text: COpter and POP allocate more, LP-Top less."""
CARRIED = 0.9
"""Share of the volume that the links can carry: every link has the capacity with which they can."""
_DEMANDS, _ROUNDS, _LEFT_OUT = 20_000, 20, 5
_METHODS = {"LP-All": "highs-hot", "COpter": "copter", "LP-Top": "lp-top"} | {
    f"POP-{parts}": f"pop-{parts}" for parts in (16, 64, 128)
}


def _networks(effort: Effort) -> dict[str, str | Path]:
    """Networks by their labels: the thesis' own where there are files, else a generated one."""
    if effort.quick:
        return {"generated, 50 nodes": SMALL}
    files = {name: find(effort.data, f"{FOLDER}/{file}", file) for name, file in NETWORKS.items()}
    there: dict[str, str | Path] = {name: file for name, file in files.items() if file is not None}
    return there or {"generated, 250 nodes": GENERATED}


def _demands(effort: Effort) -> list[Figure]:
    """Figure 5.4: what share of the volume the largest demands have."""
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
                figures.append(Figure(f"{label}, {model}", column, "%", share))
    return figures


def busy(instance: Instance, carried: float = CARRIED) -> Instance:
    """The same demands on links of such a capacity, the same for all, that a share of the volume fits."""
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


def _flows(effort: Effort, *, model: str) -> list[Figure]:
    """Figures 5.5 and 5.6: flow over the optimum, and time, of each method."""
    figures = []
    for label, source in _networks(effort).items():
        figures += _flows_on(effort, model, label, source)
    return figures


def _flows_on(effort: Effort, model: str, label: str, source: str | Path) -> list[Figure]:
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
        printed = PAPER.get((model, name), math.nan) if label == "Kdl" else math.nan
        optimality = 100.0 * float(np.mean([record["optimality"] for record in records]))
        figures.append(Figure(f"{label}: {name}", "flow over the optimum", "%", optimality, printed))
        seconds = [record["t_total"] for record in records]
        mean = float(np.mean(seconds))
        figures.append(Figure(f"{label}: {name}", "time a round", "s", mean, std=_deviation(seconds)))
    return figures


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


_OTHERS = (
    "20,000 demands drawn, links that can carry nine tenths of the volume; without data a generated network "
    "of 250 nodes in place of Kdl and ASN; HiGHS in place of a commercial solver; 2 cores; POP's time "
    "is that of all parts, one after the other. The text prints bounds on Kdl: more than for COpter and POP, "
    "less than for LP-Top; bars of the picture are not readable."
)
REPRODUCTIONS = (
    Reproduction(
        "thesis-figure-5.4",
        "Demands of the two traffic matrices",
        "thesis, Figure 5.4",
        "Without data a generated network of 250 nodes in place of Kdl and ASN; the picture is not readable.",
        _demands,
        minutes=0.1,
    ),
    Reproduction(
        "thesis-figure-5.5",
        "Flow and time under Poisson demands",
        "thesis, Figure 5.5",
        _OTHERS,
        partial(_flows, model="poisson"),
        minutes=60.0,
    ),
    Reproduction(
        "thesis-figure-5.6",
        "Flow and time under bimodal demands",
        "thesis, Figure 5.6",
        _OTHERS,
        partial(_flows, model="bimodal"),
        minutes=60.0,
    ),
)
