"""Proofs of reported infeasibility and unboundedness, for solvers that return no rays.

Presolve, interior-point methods, PDLP and OR-Tools' model builder return no rays. If such a solver reports
infeasible or unbounded, HiGHS solves the program again as a general LP (:mod:`copter.models.highs_lp`), first
without costs. This time is not part of a solver's measured time, but must end by the deadline. A ray counts
only if :mod:`copter.proof.rays` confirms it. The status "unbounded" also needs a feasible point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.models.arrays import flat_lp
from copter.models.general_lp import checked
from copter.models.highs_lp import HighsLP, LPAnswer
from copter.proof.rays import farkas_ray, primal_ray
from copter.solution import Ray, Status
from copter.store.allocation import dense_to_sparse
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_TOLERANCE = 1e-6
"""Relative tolerance of a feasible point."""
_INSTANT = 1e-3
"""Shortest deadline of HiGHS, in seconds."""


def find_ray(
    program: ContinualProgram, claim: Status, clock: Clock, *, whole: bool = True
) -> tuple[Status, Ray | None]:
    """Return the status of a program that is reported infeasible or unbounded, and the ray that proves it.

    Without a ray the status is unproved, with one exception. If `whole`, the report is about an integer
    program. An MILP with a feasible relaxation has no ray, so the reported infeasibility is returned. Raise
    Interrupted if the time is up before.
    """
    alone = farkas_ray(program, np.zeros(program.store.rows.size))
    if alone is not None:  # the bounds of a request contradict its sum row
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
    """Return whether a program has a feasible point, and a ray that proves the contrary.

    Return (False, None) if HiGHS fails.
    """
    answer = _relaxed(program, clock, costs=False)
    if answer.ray is None:
        return answer.status is Status.OPTIMAL, None
    return False, farkas_ray(program, _by_slot(program, answer.ray.vector))


def _falling(program: ContinualProgram, clock: Clock) -> Ray | None:
    """Return a primal ray of a program that has a feasible point, or None."""
    answer = _relaxed(program, clock)
    if answer.ray is None or answer.ray.kind != "unbounded":
        return None
    sizes = program.store.requests.n_columns[program.request_slots]
    return primal_ray(program, dense_to_sparse(program.request_slots, sizes, answer.ray.vector))


def _relaxed(program: ContinualProgram, clock: Clock, *, costs: bool = True) -> LPAnswer:
    """Return HiGHS' answer for the relaxation, whose rows are the resources followed by the sum rows."""
    lp = flat_lp(compile_program(program))
    lp = replace(lp, c=lp.c if costs else np.zeros(lp.c.size), integral=np.zeros(lp.c.size, np.bool_))
    answer = HighsLP(checked(lp)).solve(_TOLERANCE, Clock(max(clock.left(), _INSTANT)))
    if answer.status is Status.DEADLINE:
        raise Interrupted(clock.why())
    return answer


def _by_slot(program: ContinualProgram, prices: NDArray[np.float64]) -> NDArray[np.float64]:
    y = np.zeros(program.store.rows.size)
    y[program.resource_slots] = prices[: program.resource_slots.size]
    return y
