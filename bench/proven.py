"""Recorded rounds whose integral allocations are to be proven optimal: what the proofs took.

The objectives of all solvers in a round are compared: a proof that is right leaves none of them below it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from copter.bench.course import Figure
from copter.bench.recording import Recorded
from copter.bench.settings import Measured


@dataclass(frozen=True)
class ProvenRounds(Recorded):
    """A recording, with figures on the proofs."""

    figures: ClassVar[Sequence[Figure]] = (
        Figure("proven", "proven", "mean", ".0%"),
        Figure("integral_gap", "integer gap", "max", ".1e"),
        Figure("above_best", "above the best known", "max", ".1e"),
        Figure("columns_left", "columns left", "median", ".0f"),
        Figure("t_integer", "proof, s", "median", ".3f"),
    )

    def compare(self, measured: Sequence[Measured]) -> None:
        """Add how far each round's allocation is above the best of all solvers, relative to it."""
        best: dict[int, float] = {}
        for one in measured:
            for record in one.records:
                value, number = record["integral_objective"], record["round"]
                if math.isfinite(value):
                    best[number] = min(value, best.get(number, math.inf))
        for one in measured:
            for record in one.records:
                least = best.get(record["round"], math.nan)
                above = record["integral_objective"] - least
                record["above_best"] = above / max(abs(least), 1e-300) if above else above
