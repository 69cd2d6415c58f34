"""Claims that a program is infeasible or unbounded, proved for whoever makes them.

Presolve, interior point, PDLP and OR-Tools' model builder answer without rays.  So a program that a solver
calls infeasible or unbounded is run once more as a general LP by HiGHS (:mod:`copter.proof.highs_lp`), first
its rows alone; this is no part of anybody's measured time, but must be done by the deadline.  What comes back
counts only if :mod:`copter.proof.rays` finds that it proves its point, and "unbounded" only with a point that
meets the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.models.arrays import flat_lp
from copter.models.general_lp import checked
from copter.proof.highs_lp import Answer, HighsLP
from copter.proof.rays import farkas_ray, primal_ray
from copter.solution import Ray, Status
from copter.store.allocation import dense_to_sparse
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_TOLERANCE = 1e-6
"""Relative residuals of a point that meets the rows."""
_INSTANT = 1e-3
"""The shortest deadline of HiGHS."""


def find_ray(
    program: ContinualProgram, claim: Status, clock: Clock, *, whole: bool = True
) -> tuple[Status, Ray | None]:
    """Return the status of a program that is claimed to be infeasible or unbounded, and the ray that proves
    it.

    Without a ray the claim is unproved. The exception is a claim about whole numbers (``whole``): an MILP
    with a feasible relaxation has no ray, so branch and bound's claim of infeasibility remains. Raises
    Interrupted if the clock is over before.
    """
    alone = farkas_ray(program, np.zeros(program.store.rows.size))
    if alone is not None:  # a request whose own bounds cannot meet its sum row
        return Status.INFEASIBLE, alone
    met, ray = rows_can_be_met(program, clock)
    if ray is not None:
        return Status.INFEASIBLE, ray
    if met and whole and claim is Status.INFEASIBLE and bool(compile_program(program).integrality.any()):
        return claim, None
    if met:
        ray = _falling(program, clock)
    return (Status.UNPROVED, None) if ray is None else (Status.UNBOUNDED, ray)


def rows_can_be_met(program: ContinualProgram, clock: Clock) -> tuple[bool, Ray | None]:
    """Whether a program has a feasible point, and the ray that proves it has none; neither if HiGHS fails."""
    answer = _relaxed(program, clock, costs=False)
    if answer.ray is None:
        return answer.status is Status.OPTIMAL, None
    return False, farkas_ray(program, _by_slot(program, answer.ray.vector))


def _falling(program: ContinualProgram, clock: Clock) -> Ray | None:
    """A ray of a program that has a feasible point."""
    answer = _relaxed(program, clock)
    if answer.ray is None or answer.ray.kind != "unbounded":
        return None
    sizes = program.store.requests.n_columns[program.request_slots]
    return primal_ray(program, dense_to_sparse(program.request_slots, sizes, answer.ray.vector))


def _relaxed(program: ContinualProgram, clock: Clock, *, costs: bool = True) -> Answer:
    """HiGHS' answer for the relaxation, whose rows are the resources and then the sum rows."""
    lp = flat_lp(compile_program(program))
    lp = replace(lp, c=lp.c if costs else np.zeros(lp.c.size), integral=np.zeros(lp.c.size, np.bool_))
    answer = HighsLP(checked(lp), _TOLERANCE, Clock(max(clock.left(), _INSTANT))).solve()
    if answer.status is Status.DEADLINE:
        raise Interrupted(clock.why())
    return answer


def _by_slot(program: ContinualProgram, prices: NDArray[np.float64]) -> NDArray[np.float64]:
    y = np.zeros(program.store.rows.size)
    y[program.resource_slots] = prices[: program.resource_slots.size]
    return y
