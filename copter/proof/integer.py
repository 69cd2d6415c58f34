"""Proof of the quality of an integral allocation."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ROUNDING = 1e-14
"""Fraction of the objective up to which a gap counts as 0."""


@dataclass(frozen=True)
class IntegerProof:
    """Proof of the quality of an integral allocation.

    Attributes
    ----------
    bound : float
        Lower bound on the cost of every integral allocation. In the solution of a maximisation it is an upper
        bound on the objective. For ``copter-exact`` it is at least the relaxation's bound and certified at
        the relaxation's prices, except for the result of branch and bound on the remaining columns. For
        ``highs-milp`` it is HiGHS' bound, which copter does not recompute.
    gap : float
        (objective - bound) / denominator of the solution's gap; infinite without an allocation.
    proven : bool
        True if the allocation is proved optimal: the gap is at most the setting ``integer_gap`` of
        ``copter-exact``, or 1e-8 for ``highs-milp``.
    reason : str
        Method of the proof, or reason why there is no proof.
    columns : int
        Number of columns of the program.
    columns_left : int
        Number of columns that reduced-cost fixing leaves. All other columns are 0 in every better allocation.
    runs, nodes : int
        Number of runs and nodes of branch and bound.
    seconds : float
        Time after the relaxation, in seconds.
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
    """Return (cost - bound) / size; 0 if they differ only by rounding errors, infinite if the size is 0."""
    lost = cost - bound
    if lost <= _ROUNDING * abs(cost):  # the size is 0 if all costs are forced
        return 0.0
    return lost / size if size > 0.0 else math.inf


def integer_figures(proof: IntegerProof | None) -> dict[str, float]:
    """Return the figures of a proof for the record of a round, NaN without a proof.

    ``proven`` is 1 or 0. ``columns_left`` is the number of columns for branch and bound. ``t_integer`` is the
    time after the relaxation, in seconds.
    """
    if proof is None:
        return dict.fromkeys(("proven", "columns_left", "t_integer"), math.nan)
    return {
        "proven": float(proof.proven),
        "columns_left": float(proof.columns_left),
        "t_integer": proof.seconds,
    }
