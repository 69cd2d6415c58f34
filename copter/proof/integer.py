"""What is known of an integral allocation beside all others."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ROUNDING = 1e-14
"""Share of the objective up to which a gap counts as none."""


@dataclass(frozen=True)
class IntegerProof:
    """Proof of how good an integral allocation is in comparison with all others.

    Attributes
    ----------
    bound : float
        Lower bound on the cost of every integral allocation, in the solution of a maximisation an upper bound
        on its objective. For ``copter-exact``: certified at the
        relaxation's prices, except for what branch and bound says of the remaining columns, and at least the
        relaxation's bound. For ``highs-milp``: HiGHS' own, which copter does not recompute.
    gap : float
        (objective - bound) / size of the solution; infinite without an allocation.
    proven : bool
        Whether the gap is at most the requested one, so that the allocation is optimal.
    reason : str
        How it was proven, or why it was not.
    columns : int
        Of the program.
    columns_left : int
        Columns that the prices do not fix at this allocation; the others are 0 in every better one.
    runs, nodes : int
        Of branch and bound.
    seconds : float
        After the relaxation.
    """

    bound: float
    gap: float
    proven: bool
    reason: str
    columns: int
    columns_left: int
    runs: int
    nodes: int
    seconds: float


def gap_between(cost: float, bound: float, size: float) -> float:
    """Return (cost - bound) / size; 0 if they differ by rounding alone, infinite if the size is 0."""
    lost = cost - bound
    if lost <= _ROUNDING * abs(cost):  # where all costs are forced the size is 0
        return 0.0
    return lost / size if size > 0.0 else math.inf


def integer_figures(proof: IntegerProof | None) -> dict[str, float]:
    """Return a proof's figures for the record of a round, NaN if no proof was tried.

    ``proven``: 1 or 0. ``columns_left``: to branch and bound. ``t_integer``: seconds after the relaxation.
    """
    if proof is None:
        return dict.fromkeys(("proven", "columns_left", "t_integer"), math.nan)
    return {
        "proven": float(proof.proven),
        "columns_left": float(proof.columns_left),
        "t_integer": proof.seconds,
    }
