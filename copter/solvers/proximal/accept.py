"""Stopping rules: an iterate is optimal, a ray proves that there is no optimum, or the time is over.

If a function of this module returns None, the solve continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from copter.compile.kernels import compile_seconds
from copter.proof.rays import farkas_ray
from copter.solution import Status
from copter.solvers.proximal.run import End, SolveContext
from copter.solvers.proximal.state import Iterate

if TYPE_CHECKING:
    from copter.solvers.proximal.steps import StepsResult


def accept_unchanged(run: SolveContext) -> End | None:
    """Return the last solution if the program was not edited since and it is within the tolerance."""
    if not run.begin.how.warm or run.state.proof is None:
        return None
    clock, last = run.state.proof
    if clock != run.program.store.clock or not last.certificate.within(run.budget.tolerance):
        return None
    if run.options.callback is not None:
        run.options.callback(0, last.certificate)
    return End(Status.OPTIMAL, "nothing changed since the last answer, which is optimal", last)


def accept_first(run: SolveContext, now: Iterate) -> End | None:
    """Return the end of the solve if the first pricing pass proves it."""
    if now.pricing.request_bound == np.inf:
        ray = farkas_ray(run.program, np.zeros_like(now.y), run.options.threads)
        reason = "the bounds and the sum row of a request leave no allocation of finite cost"
        return End(Status.INFEASIBLE, reason, now, ray)
    met = now.certificate.relative.primal <= run.options.tuning.steps.feasible * run.budget.tolerance
    return (
        _optimal(run, now, "the point of the warm start is optimal") if run.begin.how.warm and met else None
    )


def accept(run: SolveContext, now: Iterate, found: StepsResult | None = None) -> End | None:
    """Return the end of the solve if an iterate is optimal, its steps proved a ray, or the time is over."""
    ray, by_highs = (None, False) if found is None else (found.ray, found.by_highs)
    how = ", by HiGHS" if by_highs else ""
    end = _optimal(run, now, f"residuals and gap are within the tolerance{how}")
    if end is None and ray is not None:
        return End(Status.INFEASIBLE, f"a ray proves it (value {ray.value:.3g})", run.incumbent, ray)
    if end is None and run.budget.late():
        return out_of_time(run)
    return end


def stuck(run: SolveContext) -> End:
    """Return the end of a solve that makes no further progress."""
    reason = f"no optimum was proved: no progress beyond a residual of {run.worst:.1e}"
    return End(Status.UNPROVED, reason, run.incumbent)


def out_of_time(run: SolveContext) -> End:
    """Return the end of a solve by deadline or cancellation."""
    clock = run.budget.clock
    status = Status.CANCELLED if clock.cancelled else Status.DEADLINE
    reason, compiling = clock.why(), compile_seconds() - run.compiled
    if compiling > 0.1 * clock():
        reason += f"; {compiling:.1f} s of it were spent on compiling; solver.warm_up() avoids that"
    return End(status, reason, run.incumbent)


def _optimal(run: SolveContext, now: Iterate, reason: str) -> End | None:
    """Return the end if an iterate is optimal."""
    tolerance, tuning = run.budget.tolerance, run.options.tuning
    if not now.certificate.within(tolerance):
        return None
    primal = now.certificate.relative.primal
    if primal > tuning.steps.feasible * tolerance and run.fall_back.can():
        return None  # the rows' violations may be what makes the objective look optimal: HiGHS tries first
    if run.fall_back.gave_up and primal > tuning.fall_back.met:
        return None
    return End(Status.OPTIMAL, reason, now)
