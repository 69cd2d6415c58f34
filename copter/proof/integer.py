"""What is known of an integral allocation beside all others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IntegerProof:
    """What is known of an integral allocation beside all others.

    Attributes
    ----------
    bound : float
        Certified lower bound on the cost of every integral allocation; at least the relaxation's.
    gap : float
        (objective - bound) / size of the solution; infinite without an allocation.
    proven : bool
        Whether the gap is at most what was asked for: the allocation is an optimum.
    reason : str
        How it was proven, or why it was not.
    columns : int
        Of the program.
    columns_left : int
        Those that the prices do not fix at the allocation that was found; the others are 0 in every better
        one.
    runs, nodes : int
        Of branch and bound.
    seconds : float
        Of all that came after the relaxation.
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
