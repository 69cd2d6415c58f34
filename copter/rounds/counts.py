"""CountDomain: base class of domains that allocate whole amounts, for example instances or crews."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from copter.clock import Clock, time_left
from copter.errors import NoAllocationError
from copter.models.arrays import flat_lp
from copter.models.linear_program import supported
from copter.program.sense import Sense, in_sense
from copter.rounds.amounts import AmountDomain, Shared
from copter.shims.counts import Counts, CountShim, bounded, counts_of, limits
from copter.solution import Solution, Status
from copter.solvers.general.integer import solve_integer
from copter.store.compiled import compile_program

_SMALL = 2_000
"""Largest number of columns for which branch and bound searches for a better answer."""
_NODES = 100
"""Largest number of nodes: it ends a round without a deadline, and equal rounds have equal answers."""
_SHARE, _SECONDS = 0.7, 5.0
"""Branch and bound may use this share of the time left in the round, and at most these seconds."""
_GAP = 1e-6
"""Gap at which an answer is good enough."""


class CountDomain(AmountDomain):
    """Base class of domains with whole amounts: :class:`copter.CountShim` rounds their programs.

    Rows may have lower bounds (demand that must be covered), coefficients may have any sign, and columns may
    have minimum amounts. Columns of requests with ``integral=True`` get whole amounts. If the program has at
    most 2,000 columns, and the gap of the rounded answer is above 1e-6, branch and bound improves it in at
    most 100 nodes, 5 seconds, and 0.7 of the time that is left of the round. The bound of the answer is then
    the better one of the certified bound and the bound that HiGHS reports, which copter does not recompute.
    The class implements :class:`copter.Domain` except ``apply``. A subclass adds resources and requests to
    :attr:`program` and implements ``apply`` and, for `copter check`, ``events``.

    If no answer that satisfies all rows is found, the round falls back to an answer that keeps all upper
    bounds that are not negative; ``answer.short`` has the missing amounts. This usually happens to programs
    of more than 2,000 columns with ``==`` rows.

    Parameters
    ----------
    sense : "min" or "max"
        Sense of the program.

    Attributes
    ----------
    program : ContinualProgram
        Program that is solved in each round.
    minimum : dict of request id to float, (n,) array or mapping of column to float
        Least amounts of columns: a column with a minimum has 0 or at least this amount. A subclass keeps the
        mapping up to date with the program.
    last : Shared or None
        Answer that was accepted last; None before the first round.

    Examples
    --------
    >>> from copter import CountDomain, Rounds
    >>> class Fleet(CountDomain):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.program.add_resource("cores", lower=0.0, upper=float("inf"))
    ...         kinds, prices = ["small", "large"], [1.0, 3.5]
    ...         self.program.add_request(
    ...             "web", prices, {"cores": [4, 16]}, upper=9, integral=True, columns=kinds
    ...         )
    ...         self.minimum["web"] = {"large": 2}
    ...     def apply(self, cores):
    ...         self.program.update_resource("cores", lower=cores)
    >>> rounds = Rounds(Fleet())
    >>> rounds.play(20.0).answer.x["web"], rounds.play(60.0).answer.x["web"]
    ({'small': 5.0, 'large': 0.0}, {'small': 3.0, 'large': 3.0})
    """

    def __init__(self, sense: Sense = "min") -> None:
        super().__init__(sense, CountShim({}))

    @property
    def minimum(self) -> Any:
        """Least amounts of columns, by request id; a column with a minimum has 0 or at least this amount."""
        return self._shim.minimum

    @minimum.setter
    def minimum(self, value: dict[Hashable, Any]) -> None:
        self._shim = CountShim(value)

    def round(self, solution: Solution) -> Shared:
        """Round a solution to whole amounts, and improve them by branch and bound if the program is small."""
        counts, status = self._shim.round(self.program, solution), Status.UNPROVED
        if not counts.gap <= _GAP and self.program.n_variables <= _SMALL:
            counts, status = _improved(self, counts, solution)
        if counts.short:
            missing = ", ".join(f"{id!r} lacks {amount:g}" for id, amount in [*counts.short.items()][:3])
            why = f"no whole amounts that satisfy all rows were found: {missing}"
            raise NoAllocationError(str(status), why)
        return self._shared(counts, solution)

    def figures(self, answer: Shared) -> dict[str, float]:
        """Return the objective, the number of active resources and of rows that are short, for reports."""
        return {**super().figures(answer), "short": len(answer.short)}

    def violations(self, answer: Shared) -> Iterator[str]:
        """Yield descriptions of the rows, totals, minimums and whole amounts that an answer violates."""
        from copter.rounds.check import amounts_of, overdrawn

        program = self.program
        amounts = amounts_of(program, answer)
        yield from overdrawn(program, amounts, answer.short)
        whole = compile_program(program)
        least, _ = limits(program, self.minimum, whole)
        for id, first in zip(whole.request_ids, whole.column_start.tolist(), strict=False):
            request, own = program.requests[id], amounts.get(id, {})
            for column, amount in own.items():
                if request.integral and amount != round(amount):
                    yield f"request {id!r} has {amount!r} of column {column}, which must be whole"
                if amount < least[first + column]:
                    yield f"request {id!r} has {amount:g} of column {column}, less than its minimum"
            lacks = request.total - math.fsum(own.values()) if request.relation == "==" else 0.0
            if lacks > answer.short.get(("total", id), 0.0) + _GAP * max(1.0, request.total or 0.0):
                yield f"request {id!r} lacks {lacks:g} of its total"


def _improved(domain: CountDomain, counts: Counts, solution: Solution) -> tuple[Counts, Status]:
    """Return the given counts or better ones of branch and bound, and the status of branch and bound."""
    program, clock = domain.program, Clock(min(_SHARE * time_left(), _SECONDS))
    whole = compile_program(program)
    (least, most), lp = limits(program, domain.minimum, whole), flat_lp(whole)
    semi = least > lp.integral
    lower = np.where(semi, least, 0.0)
    lp = supported(replace(lp, lower=lower, upper=most, semi=semi if semi.any() else None))
    found = solve_integer(lp, _GAP, clock, options={"mip_max_nodes": _NODES})
    cost = in_sense(counts.objective, program.sense)
    if found.objective is not None and found.x is not None and found.objective < cost:
        counts = counts_of(program, whole, found.x, counts.seconds + clock())
    counts = bounded(counts, solution, -math.inf if found.bound is None else found.bound)
    return counts, found.status
