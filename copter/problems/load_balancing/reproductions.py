"""Shards on servers under random or drifting loads, for `reproductions.toml`.

Heuristic is E-Store's greedy method.  POP-k splits shards and servers into k parts, each solved exactly.
LP-Relaxed is the relaxation by a solver of linear programs, with the same shim as copter's.  The first rounds
are omitted, as in the thesis.  POP by branch and bound takes up to half a minute per round on 1,024 shards.

Source: thesis, section 5.2.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.problems.load_balancing import MODES, Mode
from copter.problems.load_balancing.course import BURN_IN, Balancing
from copter.problems.load_balancing.scenario import ShardScenario

_TOLERANCE = 1e-2
_OURS, _RELAXED = "COpter", "LP-Relaxed"
_BRIEF = {"rounds": BURN_IN + 3, "samples": 1}
_UNITS = {"imbalance": "%", "time a round": "s"}


def balanced(effort: Effort, *, parts: int, brief_pop: bool = False, **settings: Any) -> list[PaperFigure]:
    """Return movements, imbalance and time of each method for both kinds of loads, and their ratios.

    With `brief_pop`, POP runs in few rounds of one sample.
    """
    methods: dict[str, dict[str, Any]] = {
        _OURS: {"solver": "copter"},
        _RELAXED: {"solver": "highs-simplex"},
        "Heuristic": {"solver": "heuristic"},
        f"POP-{parts}": {"solver": f"pop-{parts}", **(_BRIEF if brief_pop else {})},
    }
    faster = {
        "row": "{mode}",
        "field": "time a round",
        "column": f"{_OURS} faster than {_RELAXED}",
        "of": f"{{mode}}, {_RELAXED}",
        "over": f"{{mode}}, {_OURS}",
    }
    return grid(
        effort,
        _play,
        _UNITS,
        row="{mode}, {method}",
        axes={"mode": MODES, "method": methods},
        columns=("movements a round", "imbalance", "time a round"),
        derived=[faster],
        timed=True,
        **settings,
    )


def _play(
    effort: Effort, row: str, k: int, *, shards: int, servers: int, rounds: int, mode: Mode, solver: str
) -> dict[str, float]:
    """Replay a sample of the loads, and return means over its rounds."""
    effort.say(f"{row}: {shards} shards on {servers} servers")
    scenario = ShardScenario(shards, servers, rounds, mode, effort.seed + k)
    settings = SolverSettings(solver, _TOLERANCE)
    records = measure(Balancing(scenario), settings).records[BURN_IN:]
    movements, imbalance, seconds = (
        float(np.mean([record[field] for record in records]))
        for field in ("movements", "imbalance", "seconds")
    )
    return {"movements a round": movements, "imbalance": 100.0 * imbalance, "time a round": seconds}
