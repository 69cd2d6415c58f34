"""Answers of a solve, each with the pass that certifies it, and which of two is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from copter.proof.certificate import Certificate, SparseX
    from copter.proof.pricing import Pricing


@dataclass(frozen=True)
class Answer:
    """An allocation, prices, the pass at them and their certificate."""

    x: SparseX
    y: NDArray[np.float64]
    pricing: Pricing
    certificate: Certificate

    @property
    def worth(self) -> float:
        """The worst relative residual, each counted as 1 at most, by which answers are compared."""
        relative = self.certificate.relative
        parts = np.array([relative.primal, relative.dual, relative.gap])
        return float(np.where(np.isnan(parts), np.inf, np.minimum(parts, 1.0)).max())

    def better_than(self, other: Answer) -> bool:
        """Whether its worst residual is smaller, or as large and the others are."""
        mine, others = self.certificate.relative, other.certificate.relative
        total, least = (
            sum(min(part, 1.0) for part in (each.primal, each.dual, each.gap)) for each in (mine, others)
        )
        return (self.worth, total) < (other.worth, least)
