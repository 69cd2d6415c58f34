"""Proofs of reported infeasibility, for solvers that return no rays.

Presolve, interior-point methods, PDLP and OR-Tools' model builder return no rays. If such a solver reports
infeasible or unbounded, HiGHS solves the program again without costs, as a general LP
(:mod:`copter.models.highs_lp`). The time of this solve is not part of a solver's measured time, but the solve
must end by the deadline. A ray counts only if :mod:`copter.proof.rays` confirms it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from copter.clock import Clock, Interrupted
from copter.models.arrays import flat_lp
from copter.models.highs_lp import HighsLP
from copter.models.linear_program import checked
from copter.proof.rays import farkas_ray
from copter.solution import FarkasRay
from copter.status import Status
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_TOLERANCE = 1e-6
"""Relative tolerance of a feasible point."""
_INSTANT = 1e-3
"""Shortest deadline of HiGHS, in seconds."""


def find_ray(
    program: ContinualProgram, claim: Status, clock: Clock, *, whole: bool = True
) -> tuple[Status, FarkasRay | None]:
    """Return the status of a program that is reported infeasible or unbounded, and the ray that proves it.

    Without a ray the status is unproved, with one exception. If `whole`, the report is about an integer
    program. An MILP with a feasible relaxation has no ray, so the reported infeasibility is returned. Raise
    Interrupted if the time is up before that.
    """
    alone = farkas_ray(program, np.zeros(program.store.rows.size))
    if alone is not None:  # the bounds of a request contradict its sum row
        return Status.INFEASIBLE, alone
    compiled = compile_program(program)
    lp = flat_lp(compiled)
    bare = replace(lp, c=np.zeros(lp.c.size), integral=np.zeros(lp.c.size, np.bool_))
    answer = HighsLP(checked(bare)).solve(_TOLERANCE, Clock(max(clock.left(), _INSTANT)))
    if answer.status is Status.DEADLINE:
        raise Interrupted(clock.why())
    ray = None
    if answer.ray is not None:
        y = np.zeros(program.store.rows.size)
        y[program.resource_slots] = answer.ray.vector[: program.resource_slots.size]
        ray = farkas_ray(program, y)
    if ray is not None:
        return Status.INFEASIBLE, ray
    met = answer.status is Status.OPTIMAL
    if met and whole and claim is Status.INFEASIBLE and compiled.integrality.any():
        return claim, None
    return Status.UNPROVED, None
