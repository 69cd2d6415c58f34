"""Cases of the suite: flows of wide-area networks, with the largest flow or the least utilisation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from copter.bench.case import Case, Inputs, listed
from copter.bench.course import Course
from copter.bench.solvers import EVERY_LP, HIGHS, ORTOOLS
from copter.problems.traffic import Objective
from copter.problems.traffic.course import course_of, make_instance
from copter.problems.traffic.matrices import make_matrix
from copter.problems.traffic.topology import load_topology

_METHODS = ("pop-16", "lp-top", "shortest")
_CAPACITY, _GENERATED = 1000.0, 400.0
"""Capacity per link; generated networks get less, because all demands would fit on their many paths."""


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases."""
    return listed("traffic", _case, inputs)


def _case(
    inputs: Inputs,
    name: str,
    *,
    topology: str,
    demands: int,
    columns: int,
    file: str = "",
    objective: Objective = "max-flow",
    change: str = "independent",
    rounds: int = 5,
) -> Case:
    """Return the case of a network.

    `topology`: name of a topohub network. `file`: name of a file in the data folder to use instead.
    `columns`: approximate number of columns. `change`: ``single`` if one random demand changes in each round.
    """
    topology, shown = _topology(inputs, topology, file)
    title = f"{'Most flow' if objective == 'max-flow' else 'Least utilisation'}, {shown}, {demands:,} demands"
    x = {"demands": demands, "columns": columns}
    solvers: Sequence[str] = (*EVERY_LP, *_METHODS)
    if change == "single":
        title, x["changed"] = f"{title}, one of them changes", 1
        solvers = ("copter", *HIGHS, *ORTOOLS)
    return Case(
        name,
        "traffic",
        title,
        partial(_prepared, topology, demands, objective, inputs.seed, (change,), rounds),
        solvers,
        rounds=rounds,
        x=x,
        ladder=objective,
    )


def _topology(inputs: Inputs, generated: str, real: str) -> tuple[str, str]:
    """Return a topology and its name: a file of the data folder if it exists, else that of topohub."""
    found = [] if inputs.data is None or not real else sorted(inputs.data.rglob(f"{real}.graphml"))
    return (str(found[0]), real) if found else (generated, generated)


def _prepared(
    topology: str,
    demands: int,
    objective: Objective,
    seed: int,
    changes: Sequence[str],
    rounds: int,
    scratch: Path,
) -> Course:
    """Return the course of a network's paths and demands, as in ``copter bench traffic``."""
    capacity = _GENERATED if topology.startswith("gabriel") else _CAPACITY
    network = load_topology(topology, capacity=capacity)
    matrices = make_matrix("gravity", network, seed=seed, scale=16.0)[None]
    instance = make_instance(network, matrices, demands=demands, seed=seed)
    return course_of(instance, objective, rounds=rounds, changes=changes, seed=seed, split=0.0)
