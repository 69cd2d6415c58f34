"""Cases of the suite: flows of wide-area networks, largest flow and least utilisation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from copter.bench.case import Case, Inputs, Profile
from copter.bench.course import Course
from copter.bench.solvers import EVERY_LP, HIGHS, ORTOOLS
from copter.problems.traffic import Objective
from copter.problems.traffic.course import make_instance, prepare
from copter.problems.traffic.matrices import make_matrix
from copter.problems.traffic.topology import load_topology

_METHODS = ("pop-16", "lp-top", "shortest")
_QUICK = ("copter", "highs-dual", *_METHODS)
_NETWORKS: tuple[tuple[str, str, str, int, Objective, int, Sequence[Profile]], ...] = (
    ("quick", "topozoo/Abilene", "", 60, "max-flow", 5, ("quick",)),
    ("tiny", "topozoo/Abilene", "", 60, "max-flow", 5, ("full",)),
    ("small", "gabriel/50/0", "", 1_000, "max-flow", 5, ("full",)),
    ("gtsce", "gabriel/150/0", "GtsCe", 10_000, "max-flow", 5, ("full",)),
    ("kdl", "gabriel/250/0", "Kdl", 20_000, "max-flow", 5, ("full",)),
    ("mlu", "gabriel/150/0", "GtsCe", 5_000, "min-mlu", 24, ("full",)),
)
"""Name, topology of topohub, file of the data folder to use instead, demands, objective, rounds, profiles.

In some of the first rounds of min-MLU copter tries simplex, which the median of 24 rounds leaves out.
"""
_CAPACITY, _GENERATED = 1000.0, 400.0
"""Capacity per link; generated networks get less, because with more paths all demands would fit."""


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases."""
    return [*(_line(inputs, *network) for network in _NETWORKS), _one_changes(inputs)]


def _one_changes(inputs: Inputs) -> Case:
    """Return the case in which one random demand changes in each round."""
    topology, shown = _topology(inputs, "gabriel/250/0", "Kdl")
    demands, rounds = 60_000, 88
    return Case(
        "traffic-single",
        "traffic",
        f"Most flow, {shown}, {demands:,} demands, one of them changes",
        partial(_prepared, topology, demands, "max-flow", inputs.seed, ("single",), rounds),
        ("copter", *HIGHS, *ORTOOLS),
        rounds=rounds,
        x={"demands": demands, "columns": 1.9 * demands, "changed": 1},
        left_out=8,
        profiles=("full",),
        own_rounds=True,
    )


def _line(
    inputs: Inputs,
    name: str,
    generated: str,
    real: str,
    demands: int,
    objective: Objective,
    rounds: int,
    profiles: Sequence[Profile],
) -> Case:
    topology, shown = _topology(inputs, generated, real)
    return Case(
        f"traffic-{name}",
        "traffic",
        f"{'Most flow' if objective == 'max-flow' else 'Least utilisation'}, {shown}, {demands:,} demands",
        partial(_prepared, topology, demands, objective, inputs.seed, ("independent",), rounds),
        _QUICK if name == "quick" else (*EVERY_LP, *_METHODS),
        rounds=rounds,
        x={"demands": demands, "columns": 3.4 * demands},
        ladder=objective,
        profiles=profiles,
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
    folder: Path,
) -> Course:
    """Return the course of a network's paths and demands, as in ``copter bench traffic``."""
    capacity = _GENERATED if topology.startswith("gabriel") else _CAPACITY
    network = load_topology(topology, capacity=capacity)
    matrices = make_matrix("gravity", network, seed=seed, scale=16.0)[None]
    instance = make_instance(network, matrices, demands=demands, seed=seed)
    return prepare(folder, instance, objective, rounds=rounds, changes=changes, seed=seed, split=0.0)
