"""The audit of a round that looked at open requests only: everything is read, and must say the same.

sums          of the closed requests, added up anew: equal to the last bit
allocations   of the closed requests: the best at the prices, none with more left to its expiry than it has;
              if they are frozen each loses what it is said to lose, and violates nothing by more
certificate   of all requests by a pass over all columns: objective, bound and residuals are the same but
              for the rounding error that a certificate states
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
from copter.proof.rest import RestSums, price_size
from copter.store.view import costs_at

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.closed import Closed
    from copter.store.allocation import SparseX

_ROUNDING = 1e-12
"""Of what prices are summed up from: more than their rounding errors."""
_PLAIN = 64.0
"""Times the rounding error of a certificate, which counts few roundings: those of plain sums of all."""
_UNIT = 2.0**-53
"""Of the terms of the objective without signs, that each rounding of their plain sum may be wrong."""


def audit(
    program: ContinualProgram,
    closed: Closed,
    x: SparseX,
    y: NDArray[np.float64],
    proof: Certificate,
    summed: int,
    threads: int | None = None,
) -> None:
    """Compare what a round says with what all columns say.

    Parameters
    ----------
    x : SparseX
        Of all requests.
    y : (row slots,) ndarray
    summed : int
        Numbers of x that belong to open requests: so many additions have rounding errors.

    Raises
    ------
    AuditError
        They differ: a fault of copter; it says where.
    """
    faults = closed_faults(program, closed) + _figures(program, closed, x, y, proof, summed, threads)
    if faults:
        raise AuditError("closed requests are not what they are taken for: " + "; ".join(faults))


def closed_faults(program: ContinualProgram, closed: Closed) -> list[str]:
    """What is wrong with closed requests, in words: their sums, their allocations, their expiries."""
    of_each = _losses if closed.frozen else _allocations
    return _sums(program, closed) + of_each(program, closed)


def _sums(program: ContinualProgram, closed: Closed) -> list[str]:
    held, fresh = closed.all_held(), RestSums(closed.y.size)
    fresh.add(program.store.executor.all_columns(), *held)
    return [] if closed.sums.same(fresh) else ["the sums of the closed requests are others"]


def _allocations(program: ContinualProgram, closed: Closed) -> list[str]:
    held = closed.all_held()
    margin, best = closed.best(held.slots)
    left, x = closed.left(held.slots), held.sparse()
    off = _ROUNDING * (price_size(program.store, closed.y) if held.slots.size else 0.0)
    faults, less = [], int((left > np.maximum(margin, 0.0) + off).sum())
    if less:
        faults.append(f"{less} margins are less than what is left until the expiry")
    clear = margin > off
    keys = [np.stack((each.slot, each.column, each.value.view(np.int64))) for each in (x, best)]
    mine, theirs = (each[:, np.isin(each[0], held.slots[clear])] for each in keys)
    if not np.array_equal(mine, theirs):
        faults.append("allocations of closed requests are not the best")
    return faults


def _losses(program: ContinualProgram, closed: Closed) -> list[str]:
    store, held = program.store, closed.all_held()
    x, y = held.sparse(), closed.y
    found = measure(store, *x, y, price(store, y, slack=0.0))
    total = store.requests.total[held.slots]
    taken = np.bincount(x.slot, abs(x.value), store.requests.size)[held.slots]
    taken = np.maximum(taken, np.where(np.isfinite(total), total, 0.0))
    off = _ROUNDING * (price_size(store, y) if held.slots.size else 0.0)
    faults, other = [], int((abs(found.loss[held.slots] - held.lost) > off * taken).sum())
    if other:
        faults.append(f"{other} lose something else")
    if found.local > closed.sums.local and not closed.opened().size:
        faults.append("they violate their boxes or sum rows by more")
    return faults


def _figures(
    program: ContinualProgram,
    closed: Closed,
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
    primal = whole.relative.primal
    if closed.frozen:  # a round says what it is at most
        primal = max(primal, proof.relative.primal)
    figures = {
        "objective": (math.fsum(paid), proof.objective, (summed + 4) * _UNIT * math.fsum(map(abs, paid))),
        "bound": (whole.near_bound, proof.near_bound, most),
        "gap": (whole.near_gap * whole.size, proof.near_gap * proof.size, most),
        "primal residual": (primal, proof.relative.primal, _ROUNDING),
        "unavoidable cost": (whole.unavoidable, proof.unavoidable, most + _ROUNDING * abs(whole.unavoidable)),
        "size of the gap": (whole.size, proof.size, most),
    }
    return [
        f"{name} {ours!r}, all columns say {theirs!r}"
        for name, (theirs, ours, off) in figures.items()
        if not abs(theirs - ours) <= off
    ]
