"""Rounds that read active requests only, each compared with a pass over all columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter import ContinualProgram, ProximalPoint, Solution
from copter.proof.certificate import Certificate, certify
from copter.proof.rest import RestSums
from copter.solvers.proximal.inactive import InactiveSet
from copter.solvers.proximal.inactive_faults import inactive_faults
from copter.solvers.proximal.inactive_index import InactiveIndex
from copter.store.allocation import SparseX
from copter.store.local import in_this_process
from copter.store.view import costs_at

_ROUNDING = 1e-12
"""Bound on the rounding error of prices, as a share of their terms."""
_PLAIN = 64.0
"""Factor on a certificate's rounding error for plain sums over all requests, which have more roundings."""
_UNIT = 2.0**-53
"""Relative rounding error of each addition in a plain sum, for the objective."""


class Audited(ProximalPoint):
    """A solver whose rounds that read active requests only are audited, every so many of them."""

    every = 1

    def solve(self, program: ContinualProgram, **options: Any) -> Solution:
        before = self._state.inactive
        solution = super().solve(program, **options)
        inactive, index = self._state.inactive, self._cache._index
        read_few = "open_requests" in solution.details
        if read_few and inactive is not before and self.every and inactive.rounds % self.every == 0:
            faults = [] if sums_agree(index) else ["the sums of the inactive requests differ"]
            faults += inactive_faults(program, inactive)
            x, summed = solution.nonzeros, self._state.x.x.slot.size
            faults += figures(program, inactive, x, solution.y, solution.certificate, summed, self.threads)
            assert not faults, "; ".join(faults)
        return solution


def sums_agree(index: InactiveIndex) -> bool:
    """Whether the sums equal those of the set, computed again, in all bits."""
    fresh, block = RestSums(index._step.size), index.inactive.merged()
    fresh.add(block.parts, np.arange(block.size))
    fresh.fit(index._step.size)
    return fresh._figures == index._sums._figures and fresh._rows == index._sums._rows


def figures(
    program: ContinualProgram,
    inactive: InactiveSet,
    x: SparseX,
    y: NDArray[np.float64],
    proof: Certificate,
    summed: int,
    threads: int | None,
) -> list[str]:
    whole = certify(program.store, x, y, threads=threads)
    most = _PLAIN * max(whole.rounding, proof.rounding)
    view, place = program.store.executor.columns(x.slot, x.column)
    paid = (costs_at(view, x.slot, place) * x.value).tolist()
    primal, excess = max(whole.relative.primal, proof.relative.primal), whole.absolute.primal
    if inactive.fixed:  # a round states an upper bound on the violation of boxes and sum rows
        excess = max(excess, proof.absolute.primal)
    coefficients = in_this_process(program.store).coefficients
    largest = float(abs(coefficients.value[: coefficients.used]).max(initial=1.0))
    figures = {
        "objective": (math.fsum(paid), proof.objective, (summed + 4) * _UNIT * math.fsum(map(abs, paid))),
        "bound": (whole.bound, proof.bound, most),
        "gap": (whole.absolute.gap, proof.absolute.gap, most),
        "primal residual": (primal, proof.relative.primal, _ROUNDING),
        "excess": (excess, proof.absolute.primal, _ROUNDING * largest * float(abs(x.value).sum())),
        "constant cost": (
            whole.constant_cost,
            proof.constant_cost,
            most + _ROUNDING * abs(whole.constant_cost),
        ),
        "denominator of the gap": (whole.gap_denominator, proof.gap_denominator, most),
    }
    return [
        f"{name} = {found!r}, but all columns give {expected!r}"
        for name, (expected, found, off) in figures.items()
        if not abs(expected - found) <= off
    ]
