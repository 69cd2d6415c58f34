"""Flows on a wide-area network with few large or with bimodal demands, for `reproductions.toml`.

LP-All is the whole program by a simplex method that keeps its basis, which for large programs is first that
of copter's answer; it ends at its first round without an answer in time.  LP-Top solves the largest tenth of
the demands, and puts the others on their shortest paths.  POP-k has random parts.  Both solve their programs
by interior point (:mod:`.baselines`).  The first rounds are omitted, as in the thesis.

Source: thesis, section 5.2.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from copter.bench.reproduction import Effort, PaperFigure
from copter.bench.result_files import SolverResult
from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.problems.reading import find
from copter.problems.traffic.baselines import split_for
from copter.problems.traffic.course import Instance, course_of, make_instance
from copter.problems.traffic.matrices import make_matrix
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.topology import load_topology
from copter.solvers.registry import make_solver


class _Network(NamedTuple):
    """A network: its file in the data folder or its name, its number of demands, and its rounds.

    `demands`: number of random demands; None for all. `rounds`: rounds, of which the first `left_out` do not
    count.
    """

    source: str | Path
    demands: int | None
    rounds: int
    left_out: int


_NETWORKS = {"Kdl": _Network("Kdl.json", None, 3, 1), "ASN2k": _Network("ASN2k.json", 100_000, 5, 1)}
"""Networks of the thesis."""
_FOLDER = "wan/harvard-cns_teal"
_GENERATED, _SMALL = _Network("gabriel/250/0", 20_000, 20, 5), _Network("gabriel/50/0", 1_000, 4, 1)
"""Topologies of topohub: one to use without a file, and a small one."""
_CARRIED = 0.9
"""Share of the volume that the links can carry, which determines their capacity."""
_LIMIT = 400.0
"""Seconds after which a round of LP-All ends without an answer."""
_LP_ALL = "LP-All"
_METHODS = {_LP_ALL: "highs-hot", "COpter": "copter", "LP-Top": "lp-top"} | {
    f"POP-{parts}": f"pop-{parts}" for parts in (16, 64, 128)
}


def _networks(effort: Effort) -> dict[str, _Network]:
    """Return the networks by their labels: those of the thesis if files exist, else a generated one."""
    if effort.quick:
        return {"generated, 50 nodes": _SMALL}
    there = dict[str, _Network]()
    for label, network in _NETWORKS.items():
        file = find(effort.data, f"{_FOLDER}/{network.source}", str(network.source))
        if file is not None:
            there[label] = network._replace(source=file)
    return there or {"generated, 250 nodes": _GENERATED}


def busy(instance: Instance, carried: float = _CARRIED) -> Instance:
    """Return the demands with equal capacities of links, such that a given share of the volume fits."""
    topology = replace(instance.topology, capacity=np.ones_like(instance.topology.capacity))
    solver, volumes = make_solver("copter", tolerance=1e-3), instance.volumes[0]
    traffic = TrafficEngineering(topology, instance.paths, "max-flow")
    scale, low, high = 1.0 / float(volumes.mean()), 0.0, math.inf
    while high > 1.01 * low:
        traffic.set_volumes(volumes * scale)
        flow = traffic.play(solver).flows.extras["total_flow"] / float(volumes.sum() * scale)
        low, high = (scale, high) if flow > carried else (low, scale)
        scale = (math.sqrt(low * high) if low else high / 4.0) if math.isfinite(high) else 4.0 * low
    return replace(instance, topology=replace(topology, capacity=topology.capacity / scale))


def flows(effort: Effort, *, model: str) -> list[PaperFigure]:
    """Return the flow over the optimum, and the time, of each method on each network."""
    figures = []
    for label, network in _networks(effort).items():
        figures += _flows_on(effort, model, label, network)
    return figures


def _flows_on(effort: Effort, model: str, label: str, network: _Network) -> list[PaperFigure]:
    played: list[SolverResult] = []
    topology = load_topology(network.source, capacity=1000.0)
    matrix = make_matrix(model, topology, seed=effort.seed)
    instance = busy(make_instance(topology, matrix, demands=network.demands, seed=effort.seed))
    course = course_of(
        instance,
        "max-flow",
        rounds=network.rounds,
        changes=("independent",),
        seed=effort.seed,
        split=split_for(model),
    )
    for name, solver in _METHODS.items():
        effort.say(f"{name}: {instance.paths.n_pairs} demands of {label}, {model}")
        if name == _LP_ALL:
            settings = SolverSettings(solver, 1e-4, time_limit=_LIMIT)
            played.append(measure(course, settings, limit=_LIMIT))
        else:
            played.append(measure(course, SolverSettings(solver, 1e-4)))
    course.compare(played)
    figures = [PaperFigure(label, "demands", "", float(instance.paths.n_pairs))]
    for name, one in zip(_METHODS, played, strict=True):
        row, last = f"{label}: {name}", one.records[-1]["seconds"]
        if name == _LP_ALL and (len(one.records) < network.rounds or last > _LIMIT):
            figures.append(PaperFigure(row, "time without an answer", "s", last))
            continue
        records = one.records[network.left_out :]
        optimality = 100.0 * float(np.mean([record["optimality"] for record in records]))
        figures.append(PaperFigure(row, "flow over the optimum", "%", optimality))
        seconds = [record["seconds"] for record in records]
        mean = float(np.mean(seconds))
        figures.append(PaperFigure(row, "time a round", "s", mean, std=_deviation(seconds)))
    return figures


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
