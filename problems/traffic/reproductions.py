"""Figures 5.4 to 5.6 of the thesis: flows on a wide-area network under few large demands, and two bands.

LP-All is the whole program by a simplex method that keeps its basis, LP-Top the largest tenth of the demands
by it and the others on their shortest path, POP-k random parts.  The first rounds are left out, as in the
thesis.

Source: thesis, section 5.2.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction
from copter.bench.results import SolverResult
from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.problems.traffic.baselines import split_for
from copter.problems.traffic.course import make_instance, prepare
from copter.problems.traffic.matrices import make_matrix
from copter.problems.traffic.topology import load_topology

NETWORK, SMALL = "gabriel/250/0", "gabriel/50/0"
"""Topologies of topohub: a network without a file, and a small one."""
PAPER: Mapping[tuple[str, str], float] = {
    ("poisson", "COpter"): 99.9,
    ("poisson", "POP-64"): 99.0,
    ("bimodal", "LP-Top"): 90.0,
}
"""Share of the optimum on Kdl, in percent, from the text: COpter and POP allocate more, LP-Top less."""
CAPACITY: Mapping[str, float] = {"poisson": 1000.0, "bimodal": 40.0}
"""Capacity of every link, so that about nine tenths of the volume can be carried."""
_DEMANDS, _ROUNDS, _LEFT_OUT = 20_000, 20, 5
_METHODS = {"LP-All": "highs-hot", "COpter": "copter", "LP-Top": "lp-top", "POP-64": "pop-64"}


def _demands(effort: Effort) -> list[Figure]:
    """Figure 5.4: what share of the volume the largest demands have."""
    topology = load_topology(SMALL if effort.quick else NETWORK, capacity=1000.0)
    figures = []
    for model in ("poisson", "bimodal"):
        matrix = make_matrix(model, topology, seed=effort.seed)
        volumes = np.sort(matrix[matrix > 0.0])[::-1]
        for percent in (1, 10, 50):
            largest = volumes[: max(1, round(volumes.size * percent / 100))].sum()
            share = 100.0 * float(largest / volumes.sum())
            figures.append(Figure(model, f"volume of the largest {percent}% of the demands", "%", share))
    return figures


def _flows(effort: Effort, *, model: str) -> list[Figure]:
    """Figures 5.5 and 5.6: flow over the optimum, and time, of each method."""
    rounds, left_out = (4, 1) if effort.quick else (_ROUNDS, _LEFT_OUT)
    played: list[SolverResult] = []
    with TemporaryDirectory() as folder:
        topology = load_topology(SMALL if effort.quick else NETWORK, capacity=CAPACITY[model])
        matrix = make_matrix(model, topology, seed=effort.seed)
        demands = 1_000 if effort.quick else _DEMANDS
        instance = make_instance(topology, matrix, demands=demands, seed=effort.seed)
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
            effort.say(f"{name}: {instance.paths.n_pairs} demands, {model}")
            played.append(measure(course, SolverSettings(solver, 1e-4)))
    course.compare(played)
    figures = []
    for name, one in zip(_METHODS, played, strict=True):
        records = one.records[left_out:]
        printed = math.nan if effort.quick else PAPER.get((model, name), math.nan)
        optimality = 100.0 * float(np.mean([record["optimality"] for record in records]))
        figures.append(Figure(name, "flow over the optimum", "%", optimality, printed))
        seconds = [record["t_total"] for record in records]
        figures.append(Figure(name, "time a round", "s", float(np.mean(seconds)), std=_deviation(seconds)))
    return figures


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


_OTHERS = (
    "A generated network of 250 nodes in place of Kdl, 20,000 demands drawn, capacities for about nine "
    "tenths of the volume; HiGHS in place of a commercial solver; 2 cores; POP's time is that of all "
    "parts, one after the other. The text prints bounds on Kdl: more than for COpter and POP, less than "
    "for LP-Top; bars of the picture are not readable. ASN is not public."
)
REPRODUCTIONS = (
    Reproduction(
        "thesis-figure-5.4",
        "Demands of the two traffic matrices",
        "thesis, Figure 5.4",
        "A generated network of 250 nodes in place of Kdl; the picture is not readable.",
        _demands,
        minutes=0.1,
    ),
    Reproduction(
        "thesis-figure-5.5",
        "Flow and time under Poisson demands",
        "thesis, Figure 5.5",
        _OTHERS,
        partial(_flows, model="poisson"),
        minutes=10.0,
    ),
    Reproduction(
        "thesis-figure-5.6",
        "Flow and time under bimodal demands",
        "thesis, Figure 5.6",
        _OTHERS,
        partial(_flows, model="bimodal"),
        minutes=10.0,
    ),
)
