"""Families of general LPs whose right-hand sides change: transport, and flows of several commodities."""

from __future__ import annotations

import math

import numpy as np

from copter.bench.programs import commodities, transport
from copter.bench.sequences.cuts import cover_cuts, cutting_stock
from copter.bench.sequences.energy import commitment, storage
from copter.bench.sequences.family import Family, SequenceRounds
from copter.bench.sequences.program import SequenceProgram
from copter.models.general_lp import GeneralLP

_SCALE = 6
"""Size of the generated programs."""
_STEP = 0.05
"""Standard deviation of the logarithm of a factor on a demand in a round."""


def families() -> list[Family]:
    """Return the families that need no domain."""
    return [
        Family(
            "general-transport",
            "Transport from 60 plants to 180 customers at least cost; demands and supplies drift.",
            ("sides",),
            _transport,
        ),
        Family(
            "general-flows",
            "Flows of 24 commodities on a network of 60 nodes at least cost; supplies, demands and the "
            "capacities of arcs change.",
            ("sides",),
            _flows,
        ),
        Family(
            "energy-commitment",
            "Relaxation of the commitment of 24 thermal units over 48 hours with ramps; in a round the "
            "oldest hour leaves, a new one enters, and the forecast of demand and fuel prices moves.",
            ("columns", "costs", "sides", "rows"),
            commitment,
        ),
        Family(
            "energy-storage",
            "Dispatch of 20 stores over 96 quarters of an hour at a common grid connection; in a round the "
            "oldest quarter leaves, a new one enters, and the forecast of load and prices moves.",
            ("columns", "costs", "sides", "rows"),
            storage,
        ),
        Family(
            "cuts-stock",
            "Column generation for cutting stock with 60 widths; a round adds patterns with negative reduced "
            "cost and removes idle ones, and if there is none, orders change and a width is replaced.",
            ("columns", "sides", "rows"),
            cutting_stock,
        ),
        Family(
            "cuts-cover",
            "Cover cuts for the assignment of 150 items to 30 knapsacks; a round adds violated cuts and "
            "removes slack ones, and if no cut is violated, profits change.",
            ("costs", "rows"),
            cover_cuts,
        ),
    ]


def program_of(lp: GeneralLP) -> SequenceProgram:
    """Return a program with the content of an LP: its rows and columns are numbered in its order."""
    program = SequenceProgram()
    rows = [
        program.add_row(low, high)
        for low, high in zip(lp.row_lower.tolist(), lp.row_upper.tolist(), strict=True)
    ]
    pointer = lp.A.indptr.tolist()
    indices, values = lp.A.indices.tolist(), lp.A.data.tolist()
    for j, cost in enumerate(lp.c.tolist()):
        entries = {rows[indices[k]]: values[k] for k in range(pointer[j], pointer[j + 1])}
        program.add_column(cost, float(lp.upper[j]), entries, lower=float(lp.lower[j]))
    return program


def _transport(seed: int) -> SequenceRounds:
    rng = np.random.default_rng(seed)
    lp = transport(rng, _SCALE)
    program = program_of(lp)
    plants = int(np.isinf(lp.row_lower).sum())
    supply, demand = lp.row_upper[:plants].copy(), lp.row_lower[plants:].copy()
    total = float(supply.sum())
    while True:
        yield program
        some = rng.choice(demand.size, demand.size // 4, replace=False)
        demand[some] *= np.exp(_STEP * rng.standard_normal(some.size))
        supply *= np.exp(_STEP * rng.standard_normal(plants))
        supply *= max(total, 1.1 * float(demand.sum())) / float(supply.sum())
        for k, value in enumerate(supply.tolist()):
            program.set_sides(f"r{k}", -math.inf, value)
        for k in np.sort(some).tolist():
            program.set_sides(f"r{plants + k}", float(demand[k]), math.inf)


def _flows(seed: int) -> SequenceRounds:
    rng = np.random.default_rng(seed)
    lp = commodities(rng, _SCALE)
    program, nodes = program_of(lp), 10 * _SCALE
    balance = lp.row_lower == lp.row_upper  # one row for each commodity and node
    ends, shared = np.flatnonzero(balance & (lp.row_lower != 0.0)), np.flatnonzero(~balance)
    size = np.ones(np.count_nonzero(balance) // nodes)
    while True:
        yield program
        size *= np.exp(_STEP * rng.standard_normal(size.size))
        size *= size.size / float(size.sum())
        for row in ends.tolist():
            side = math.copysign(float(size[row // nodes]), float(lp.row_lower[row]))
            program.set_sides(f"r{row}", side, side)
        for row in rng.choice(shared, 6, replace=False).tolist():
            program.set_sides(f"r{row}", -math.inf, float(lp.row_upper[row] * rng.uniform(0.8, 1.0)))
