"""Rays of infeasible and unbounded programs, found by HiGHS for every baseline.

Presolve, interior point, PDLP and OR-Tools' model builder answer without rays.  So a program that a baseline
calls infeasible or unbounded is run once more, by dual simplex without presolve; this is no part of anybody's
measured time, but must be done by the deadline.  What comes back counts only if :mod:`copter.proof.rays`
finds that it proves its point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from copter.clock import Interrupted, check_for
from copter.proof.rays import farkas_ray, primal_ray
from copter.solution import Ray, Status
from copter.solvers.highs_model import engine, pass_model, run_until, status_of
from copter.store.allocation import dense_to_sparse
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram


def find_ray(
    program: ContinualProgram, claim: Status, clock: Clock, *, whole: bool = True
) -> tuple[Status, Ray | None]:
    """Status of a program that is claimed to be infeasible or unbounded, and the ray that shows it.

    Without a ray, where the LP itself is neither, only one claim can be true: that the MILP is infeasible.
    It stands; any other is a numerical error.

    Parameters
    ----------
    program : ContinualProgram
    claim : Status
        Infeasible or unbounded.
    clock : Clock
    whole : bool
        Whether the claim is about whole numbers where requests want an integral allocation.

    Returns
    -------
    Status, Ray or None

    Raises
    ------
    Interrupted
        No ray was found until the clock was over.
    """
    alone = farkas_ray(program, np.zeros(program.store.rows.size))
    if alone is not None:  # a request whose own bounds cannot meet its sum row
        return Status.INFEASIBLE, alone
    begin = clock()
    compiled = compile_program(program)
    check_for(clock() - begin)
    highs = engine(None, presolve="off", solver="simplex", simplex_strategy=1)
    pass_model(highs, compiled)
    run_until(highs, clock)
    status = status_of(highs)[0]
    if status is Status.INFEASIBLE:
        _, found, multipliers = highs.getDualRay()
        y = np.zeros(program.store.rows.size)
        y[program.resource_slots] = -multipliers[: len(compiled.resource_ids)]
        return status, farkas_ray(program, y) if found else None
    if status is Status.DEADLINE:
        raise Interrupted(clock.why())
    if status is Status.UNBOUNDED:
        _, found, direction = highs.getPrimalRay()
        sizes = np.diff(compiled.column_start)
        sparse = dense_to_sparse(program.request_slots, sizes, direction)
        return status, primal_ray(program, sparse) if found else None
    milp = whole and bool(compiled.integrality.any())
    return claim if milp and claim is Status.INFEASIBLE else Status.NUMERICAL_ERROR, None
