"""What solvers say of their own answers, and whether it holds.

A solver that calls its answer optimal claims one of two things.  Of a linear program: that residuals and gap
are within the line's tolerance, which its checker has recomputed (:mod:`copter.bench.suite.checker`).  Branch
and bound claims something else, which no checker of the relaxation can confirm: that its answer is feasible
and integral, and within its own gap of a bound that holds for all such answers.  The domain counts out what
the allocation comes to (and refuses one that is none), so that what is asked of the record is

    bound <= integral objective <= bound + gap * scale        in the domain's scale (``integral_gap``),

and that it is ``feasible``, where the domain counts that out too.  Nothing of this makes an answer
`certified`: it may be further from the optimum than the line's tolerance.  The bound itself is held against
the answers of the other solvers (:mod:`copter.bench.suite.validity`).
"""

from __future__ import annotations

import math

from copter.bench.settings import Record
from copter.bench.suite.results import SolverResult

GAP = "mip_rel_gap"
"""What a solver's stopping rule calls the gap at which branch and bound stops."""
_ROUNDING = 1e-6
"""Branch and bound's own tolerances: of feasibility, and of a gap that it takes for closed."""


def of_integers(record: Record) -> bool:
    """Whether a record claims an optimum of the integral program, and answers no relaxation."""
    integral = math.isfinite(record.get("integral_objective", math.nan))
    relaxed = math.isfinite(record.get("objective", math.nan))
    return bool(record["status"] == "optimal" and not record["missed"] and integral and not relaxed)


def holds(record: Record, gap: float) -> bool:
    """Whether a claim of :func:`of_integers` is borne out by what the domain makes of the answer.

    Parameters
    ----------
    gap : float
        Relative, at which branch and bound stops.

    Returns
    -------
    bool
        False without a bound.
    """
    value, bound, own = (record[name] for name in ("integral_objective", "bound", "integral_gap"))
    size = record.get("size", math.nan)
    above = (bound - value) / size if size > 0.0 else -own  # some domains' gaps end at 0
    return bool(record.get("feasible", True) and own <= gap + _ROUNDING and above <= _ROUNDING)


def unconfirmed(one: SolverResult) -> list[int]:
    """Rounds in which a solver claims what does not hold.

    Returns
    -------
    list of int
    """
    gap = one.stopping.get(GAP, 0.0)
    return [
        record["round"]
        for record in one.records
        if (not holds(record, gap) if of_integers(record) else record.get("disagrees") is True)
    ]
