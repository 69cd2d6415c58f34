"""Families of programs: what their requests, their columns and their rows are like."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Family:
    """What is drawn for a program; pairs are a least and a largest number.

    Attributes
    ----------
    own : share of the requests whose columns are their own
    relation : of sum rows: "<=", "==" or "both"
    boxes : which requests have bounds of their columns: "no", "all" or "some"
    total : share of the requests that have a sum row
    signs : whether coefficients are of either sign
    unit : powers of ten of the requests' scales
    fixed : whether a few tied requests are so many that all become fixed
    whole : whether numbers are small and round: many ties, rows of every kind, often no answer
    """

    name: str
    requests: tuple[int, int] = (15, 70)
    width: tuple[int, int] = (2, 8)
    rows: tuple[int, int] = (2, 8)
    own: float = 0.4
    relation: str = "<="
    boxes: str = "no"
    total: float = 1.0
    signs: bool = False
    unit: int = 0
    fixed: bool = False
    whole: bool = False


FAMILIES = {
    family.name: family
    for family in (
        Family("total"),
        Family("equal", relation="=="),
        Family("box", boxes="all", total=0.0),
        Family("box and total", boxes="all", relation="both"),
        Family("scale", unit=3, relation="both"),
        Family("general", signs=True, relation="both", boxes="some", total=0.8),
        Family("network", rows=(66, 80), requests=(40, 90), width=(2, 4), own=1.0, fixed=True),
        Family("mixed", relation="both", boxes="some", total=0.7, signs=True, unit=1),
    )
}
TINY = Family("tiny", requests=(0, 4), width=(1, 10), rows=(0, 3), whole=True)
"""Nearly empty programs, to which anything may happen; games of them are short."""
SCARCE = Family("scarce", requests=(150, 250), rows=(66, 80), own=1.0)
"""Many scarce rows, and coefficients of their own."""


class Draw:
    """Random parts of a program of one family; shares are chosen so that most programs have an optimum."""

    def __init__(self, rng: np.random.Generator, family: Family, large: bool = False) -> None:
        self.rng, self.family, self.large = rng, family, large
        low, high = (1300, 1500) if large else family.requests
        self.requests = int(rng.integers(low, high + 1))
        low, high = (10, 12) if large else family.width
        self.width = int(rng.integers(low, high + 1))
        low, high = family.rows
        self.rows = int(rng.integers(low, high + 1))
        self.unit = 10.0 ** int(rng.integers(-3, 4))

    def chance(self, share: float) -> bool:
        """Whether something of this share happens."""
        return bool(self.rng.random() < share)

    def one(self, values: Any) -> Any:
        """One of some values."""
        return values[int(self.rng.integers(len(values)))]

    def number(self, low: float, high: float) -> float:
        """A number, round in some cases."""
        value = float(self.rng.uniform(low, high))
        return round(value, 1) if self.chance(0.3) else value

    def costs(self, n: int) -> list[float]:
        """Mostly negative; ties and zeros in some."""
        if self.family.whole:
            return (self.rng.integers(-6, 7, n) / 2).tolist()
        costs = -self.rng.uniform(0.1, 1.0, n) * self.unit
        if self.chance(0.2):
            costs *= self.rng.choice([-1.0, 1.0], n)
        if self.chance(0.15):
            costs = np.round(costs / self.unit, 1) * self.unit
        return costs.tolist()

    def usage(self, n: int, rows: list[Any], nothing: bool = False) -> dict[Any, dict[int, float]]:
        """Coefficients of n columns, each in a few rows; column 0 in none of them if asked."""
        found: dict[Any, dict[int, float]] = {}
        if self.family.whole:
            for row in rows:
                values = [self.one([1.0, 0.0, 2.0, 0.5, 3.0, -1.0]) for _ in range(n)]
                if self.chance(0.6):
                    found[row] = {j: value for j, value in enumerate(values) if value}
            return found
        for j in range(1 if nothing else 0, n):
            for row in self.rng.choice(
                len(rows), min(len(rows), int(self.rng.integers(1, 4))), replace=False
            ):
                value = self.number(0.3, 1.5)
                if self.family.signs and self.chance(0.25):
                    value = -value
                found.setdefault(rows[row], {})[j] = value
        return found

    def row(self) -> tuple[float, float]:
        """Bounds of a row: a capacity that a part of the requests fills."""
        if self.family.whole:
            at, below, above = (float(v) for v in self.rng.integers(0, [13, 5, 5]))
            inf = math.inf
            return self.one(
                [(-inf, at), (-inf, at), (at, inf), (at, at), (at - below, at + above), (-inf, inf)]
            )
        upper = self.number(0.1, 0.5) * self.requests * (1.5 if self.rows < 20 else 4.0 / self.rows)
        if self.chance(0.1):
            upper *= 50
        lower = -math.inf
        if self.chance(0.15):
            lower = -upper
        if self.chance(0.03):
            upper = self.one([math.inf, 1e20, 1e30])
        return lower, max(upper, 0.2)

    def sum_row(self) -> dict[str, Any]:
        """Total and relation of a request."""
        if self.family.whole:
            total = self.one([1.0, None, 0.0, 3.0, None, 2.0, 5.0])
            return {"total": total, "relation": "<=" if total is None else self.one(["<=", "=="])}
        if not self.chance(self.family.total):
            return {"total": None, "relation": "<="}
        relation = self.family.relation
        if relation == "both":
            relation = self.one(["<=", "=="])
        total = 0.0 if self.chance(0.03) else self.one([1.0, 1.0, self.number(0.5, 2.0)])
        return {"total": total, "relation": relation}

    def upper(self, n: int, total: float | None, form: str = "") -> float | list[float]:
        """Bounds of columns, of which the first alone can take the total."""
        if self.family.whole:
            free = math.inf if total is not None else 6.0
            bounds = [self.one([1.0, 2.5, free, 0.0, 4.0]) for _ in range(n)]
            return bounds if (form or self.one(["one", "each"])) == "each" else bounds[0]
        boxed = self.family.boxes == "all" or (self.family.boxes == "some" and self.chance(0.5))
        if not boxed and total is not None and not form:
            return math.inf
        form = form or self.one(["one", "each", "each"])
        if form == "one":
            return self.number(2.0, 3.0) if total is not None and self.chance(0.5) else self.number(0.6, 2.0)
        bounds = self.rng.uniform(0.2, 1.0, n)
        bounds[self.rng.random(n) < 0.1] = 0.0
        bounds[0] = 3.0
        return bounds.tolist()

    def scale(self) -> float:
        """Factor on costs."""
        if self.family.whole:
            return self.one([1.0, 0.25, 0.5, 2.0, 3.0])
        # Requests that are worth less than the tolerance stay between their columns: all columns are read.
        most = min(self.family.unit, 1) if self.large else self.family.unit
        unit = 10.0 ** int(self.rng.integers(-most, most + 1))
        return self.number(0.5, 2.0) * unit

    def override(self, n: int) -> dict[int, float]:
        """Costs of up to two columns."""
        columns = self.rng.choice(n, min(n, int(self.rng.integers(0, 3))), replace=False).tolist()
        return {j: self.costs(1)[0] for j in columns}

    def start(self, n: int) -> dict[int, float]:
        """Values of up to two columns."""
        columns = self.rng.choice(n, min(n, int(self.rng.integers(0, 3))), replace=False).tolist()
        return {j: self.number(0.0, 1.0) for j in columns}
