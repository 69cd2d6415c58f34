"""Audit of a round that read active requests only: all columns are read, and the results compared.

sums          of the inactive requests, computed again: must be bitwise equal
contributions of the inactive requests, copied from the program again: must be bitwise equal
allocations   of the inactive requests: must be optimal at the prices, and no remaining price change may
exceed
              the margin. If requests are fixed, each must have its recorded loss and no larger violation
certificate   of all requests by a pass over all columns: objective, bound and excess of the rows must be
equal
              up to the stated rounding error.  A round divides the excess by a row size that never increases
              (``InactiveSet.step``), so its primal residual may be larger
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.errors import AuditError
from copter.proof.certificate import Certificate, certify
from copter.proof.measure import measure
from copter.proof.pricing import price
from copter.solvers.memory import LastX
from copter.solvers.proximal.inactive_index import InactiveIndex
from copter.store.allocation import NOTHING
from copter.store.local import in_this_process
from copter.store.view import costs_at

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.inactive import Block, InactiveSet
    from copter.store.allocation import SparseX
    from copter.store.store import ConstraintStore

_ROUNDING = 1e-12
"""Bound on the rounding error of prices, as a share of their terms."""
_PLAIN = 64.0
"""Factor on a certificate's rounding error for plain sums over all requests, which have more roundings."""
_UNIT = 2.0**-53
"""Relative rounding error of each addition in a plain sum, for the objective."""


def audit(
    program: ContinualProgram,
    index: InactiveIndex,
    x: SparseX,
    y: NDArray[np.float64],
    proof: Certificate,
    summed: int,
    threads: int | None = None,
) -> None:
    """Compare the sums and the certificate of a round with those of all columns.

    `x`: allocation of all requests. `summed`: number of nonzeros of active requests, which bounds the
    rounding errors of the sums. Raise AuditError if they differ, which is a bug in copter.
    """
    faults = [] if index.sums_agree() else ["the sums of the inactive requests differ"]
    faults += inactive_faults(program, index.inactive)
    faults += _figures(program, index.inactive, x, y, proof, summed, threads)
    if faults:
        raise AuditError("the incremental round disagrees with a full pass: " + "; ".join(faults))


def inactive_faults(program: ContinualProgram, inactive: InactiveSet) -> list[str]:
    """Return the errors in a set of inactive requests, in words.

    Requests edited since the set was made are skipped, because they become active.
    """
    edited = program.store.edited_since(inactive.revision)
    if edited is None:
        return []  # the next solve then reads all columns
    index = InactiveIndex(inactive, program)
    index.begin(LastX.of(program, NOTHING), edited, None)
    block = inactive.pick(index.inactive_now())
    faults = [] if index.recollected(block) else ["costs or coefficients differ from the program's"]
    of_each = _losses if inactive.fixed else _allocations
    return faults + of_each(program, index, block)


def _allocations(program: ContinualProgram, index: InactiveIndex, block: Block) -> list[str]:
    margin, _ = index.best(block.slots)
    left = index.left(block.slots)
    off = _ROUNDING * (_price_size(program.store, index.y) if block.size else 0.0)
    faults, less = [], int((left > np.maximum(margin, 0.0) + off).sum())
    if less:
        faults.append(f"{less} requests have a threshold beyond their margin")
    if not index.holds_best(block, off):
        faults.append("some allocations are not optimal at the prices")
    return faults


def _losses(program: ContinualProgram, index: InactiveIndex, block: Block) -> list[str]:
    store, x, y = program.store, block.x(), index.y
    found = measure(store, *x, y, price(store, y, slack=0.0))
    total = store.requests.total[block.slots]
    taken = np.bincount(x.slot, abs(x.value), store.requests.size)[block.slots]
    taken = np.maximum(taken, np.where(np.isfinite(total), total, 0.0))
    off = _ROUNDING * (_price_size(store, y) if block.size else 0.0)
    faults, other = [], int((abs(found.loss[block.slots] - block.parts.lost) > off * taken).sum())
    if other:
        faults.append(f"{other} requests have another loss than recorded")
    if found.local > index.local and not index.active().size:
        faults.append("boxes or sum rows are violated by more than recorded")
    return faults


def _figures(
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


def _price_size(store: ConstraintStore, y: NDArray[np.float64]) -> float:
    """Return an upper bound on the sum of a price's absolute terms, at prices y, (row slots,)."""
    store = in_this_process(store)
    costs, coefficients = store.costs, store.coefficients
    scale, own = store.requests.scale[: store.requests.size], costs.cost[: costs.used]
    dearest = float(abs(own).max(initial=0.0)) * float(abs(scale).max(initial=0.0))
    return dearest + float(abs(coefficients.value[: coefficients.used]).max()) * float(abs(y).sum())
