"""Answers of a solve, each with the pass that certifies it, and which of two is better."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.proof.certificate import Certificate, measured_certificate, proved, with_bound

if TYPE_CHECKING:
    from copter.proof.measure import Measures
    from copter.proof.pricing import Pricing
    from copter.store.allocation import SparseX
    from copter.store.store import ConstraintStore


@dataclass(frozen=True)
class Answer:
    """An allocation, prices, the pass at them, their certificate and what that was measured by."""

    x: SparseX
    y: NDArray[np.float64]
    pricing: Pricing
    certificate: Certificate
    measures: Measures

    @classmethod
    def of(
        cls,
        store: ConstraintStore,
        x: SparseX,
        y: NDArray[np.float64],
        pricing: Pricing,
        threads: int | None,
    ) -> Answer:
        """Certify an allocation at the prices of a pass.

        Parameters
        ----------
        y : (row slots,) ndarray
        pricing : Pricing
            The pass.
        """
        return cls(x, y, pricing, *measured_certificate(store, x, y, pricing, threads=threads))

    def proved(self, store: ConstraintStore, threads: int | None) -> Answer:
        """The answer at prices next to its own (:func:`copter.proof.certificate.proved`)."""
        return Answer(self.x, *proved(store, self.x, self.y, threads))

    def bounded(self, bound: float) -> Answer:
        """The answer with a bound that was proved elsewhere, if it is better."""
        return replace(self, certificate=with_bound(self.certificate, bound))

    @property
    def residuals(self) -> tuple[float, float, float]:
        """Primal and dual residual and the gap that they leave, ``near_gap``: the measure of progress."""
        proof = self.certificate
        return proof.relative.primal, proof.relative.dual, proof.near_gap

    @property
    def worth(self) -> float:
        """The worst relative residual, each counted as 1 at most, by which answers are compared."""
        return max(math.inf if math.isnan(part) else min(part, 1.0) for part in self.residuals)

    def better_than(self, other: Answer) -> bool:
        """Whether its worst residual is smaller, or as large and the others are."""
        total, least = (sum(min(part, 1.0) for part in each.residuals) for each in (self, other))
        # of equals one that has an allocation at all, then the one that proves more
        rest = [(not each.x.slot.size, -each.certificate.bound) for each in (self, other)]
        return (self.worth, total, rest[0]) < (other.worth, least, rest[1])
