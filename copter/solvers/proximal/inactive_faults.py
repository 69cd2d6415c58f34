"""Errors in a set of inactive requests, for sets that were read from a file.

contributions of the inactive requests are computed from the program again, and must be bitwise equal
allocations   of the inactive requests must be optimal at the prices, and no remaining price change may
              exceed the margin; if requests are fixed, each must have its recorded loss and no larger
              violation
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.proof.measure import measure
from copter.proof.pricing import price
from copter.solvers.memory import LastX
from copter.solvers.proximal.inactive_index import InactiveIndex
from copter.store.allocation import NOTHING
from copter.store.local import in_this_process

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.inactive import Block, InactiveSet
    from copter.store.store import ConstraintStore

_ROUNDING = 1e-12
"""Bound on the rounding error of prices, as a share of their terms."""


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
    found = measure(store, x, y, price(store, y, slack=0.0))
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


def _price_size(store: ConstraintStore, y: NDArray[np.float64]) -> float:
    """Return an upper bound on the sum of a price's absolute terms, at prices y, (row slots,)."""
    store = in_this_process(store)
    costs, coefficients = store.costs, store.coefficients
    scale, own = store.requests.scale[: store.requests.size], costs.cost[: costs.used]
    dearest = float(abs(own).max(initial=0.0)) * float(abs(scale).max(initial=0.0))
    return dearest + float(abs(coefficients.value[: coefficients.used]).max()) * float(abs(y).sum())
