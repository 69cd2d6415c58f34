"""Program (11) as a mixed-integer program, by HiGHS' branch and bound: a baseline.

x_jt says whether job j runs in round t, and a convex combination l_j0 .. l_jT of whole counts picks how many
rounds it has in all:

    minimise  - sum_jn value_jn l_jn + lambda/Z_0 h
    sum_j g_j x_jt <= M  for all t,     sum_t x_jt = sum_n n l_jn,     sum_n l_jn = 1,
    h >= sum_n left_jn l_jn  for all j,     h >= sum_jn g_j left_jn l_jn / M

with the values and the run times left of :func:`.scheduler.plan_problem`.  Between whole counts the value is
linear, at them it is exact: finer than the six bases of the authors' code.  Where a job's values are concave,
as most are, l needs no binaries; for the others (jobs that speed up within the window) it is binary, which
does what the authors' SOS2 constraints do.  That no GPU may idle while a job fits is not asked: the plan that
comes out is completed by the shim, which never makes it worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix

from copter.problems.shockwave.plan import PlanProblem
from copter.solvers.base import Stopwatch
from copter.solvers.milp import Effort, MilpAnswer, run_milp
from copter.store.compiled import CompiledProgram

_CONVEX = 1e-12


@dataclass(frozen=True)
class ExactPlan:
    """Answer of branch and bound.

    Attributes
    ----------
    runs : (N, T) bool array or None
        None if it found no plan in time.
    bound : float
        To be maximised, as a plan's objective: no plan has a larger one; infinite if it has none.
    """

    runs: NDArray[np.bool_] | None
    bound: float
    found: MilpAnswer
    effort: Effort


def solve_milp(
    problem: PlanProblem,
    *,
    mip_gap: float = 1e-3,
    deadline: float | None = None,
    threads: int | None = None,
) -> ExactPlan:
    """Best plan.

    Parameters
    ----------
    mip_gap : float
        Relative gap at which it stops; that of the authors' runs by default.
    deadline : float, optional
        Seconds, of making the model and solving it.
    """
    watch = Stopwatch()
    program, factor = formulate(problem)
    found, effort = run_milp(
        program, program.integrality, mip_gap=mip_gap, deadline=deadline, threads=threads, watch=watch
    )
    shape = len(problem.gpus), problem.rounds
    runs = None if found.x is None else found.x[: shape[0] * shape[1]].reshape(shape) > 0.5
    return ExactPlan(runs, -found.bound / factor, found, effort)


def formulate(problem: PlanProblem) -> tuple[CompiledProgram, float]:
    """Columns x by job and round, l by job and count, h; and the factor by which its costs were multiplied.

    Values of jobs differ by many powers of ten: costs are in units of the largest, h in units of the longest
    run time.
    """
    count, rounds = len(problem.gpus), problem.rounds
    levels = rounds + 1
    n_x, n_l = count * rounds, count * levels
    longest = max(float(problem.remaining.max(initial=0.0)), 1.0)
    left = problem.remaining / longest
    kappa = problem.makespan_weight * longest
    factor = 1.0 / (max(float(np.abs(problem.value).max(initial=0.0)), kappa) or 1.0)
    x, level = np.arange(n_x), n_x + np.arange(n_l)
    job_x, round_x = x // rounds, x % rounds
    job_l, count_l = np.divmod(np.arange(n_l), levels)
    h = n_x + n_l
    capacity, link, one, longest_row, work = np.cumsum([0, rounds, count, count, count])
    share = (problem.gpus[:, None] * left / problem.capacity).ravel()
    blocks = (
        (capacity + round_x, x, problem.gpus[job_x]),
        (link + job_x, x, np.ones(n_x)),
        (link + job_l, level, -count_l),
        (one + job_l, level, np.ones(n_l)),
        (longest_row + job_l, level, left.ravel()),
        (longest_row + np.arange(count), np.full(count, h), -np.ones(count)),
        (np.full(n_l, work), level, share),
        (np.array([work]), np.array([h]), -np.ones(1)),
    )
    row, column, value = (np.concatenate(part) for part in zip(*blocks, strict=True))
    value = value.astype(float)
    matrix = coo_matrix((value, (row, column)), (work + 1, h + 1)).tocsc()
    matrix.eliminate_zeros()
    allowed = np.arange(levels) <= problem.most[:, None]
    steps = np.diff(problem.value, 2, axis=1)
    spread = np.abs(problem.value).max(axis=1, initial=0.0)[:, None]
    bent = (steps > _CONVEX * spread).any(axis=1)
    free = np.full(count, -math.inf)
    program = CompiledProgram(
        c=np.concatenate((np.zeros(n_x), -factor * problem.value.ravel(), [factor * kappa])),
        lower=np.zeros(h + 1),
        upper=np.concatenate(
            ((problem.most > 0)[job_x].astype(float), allowed.ravel().astype(float), [math.inf])
        ),
        A=matrix,
        row_lower=np.concatenate(
            (np.full(rounds, -math.inf), np.zeros(count), np.ones(count), free, [-math.inf])
        ),
        row_upper=np.concatenate(
            (np.full(rounds, float(problem.capacity)), np.zeros(count), np.ones(count), np.zeros(count + 1))
        ),
        integrality=np.concatenate((np.ones(n_x, bool), bent[job_l], [False])),
        request_ids=[],
        column_start=np.zeros(1, np.int64),
        resource_ids=[],
        sum_row=np.zeros(0, np.int64),
    )
    return program, factor
