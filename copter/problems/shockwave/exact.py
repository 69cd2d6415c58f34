"""Plans that are proven optimal: fixing of counts by prices, then branch and bound on the remaining counts.

The objective of a plan depends only on the number of rounds of each job (:mod:`.tables`).  At prices with the
bound d, the loss of job j with n rounds is the value of its best count minus that of n, both net of prices.
The losses in a plan of objective U sum to at most d - U.  So no better plan gives a job a count whose loss
alone is above d - U, and such counts are excluded.  This is reduced-cost fixing; it works with logarithms
because the tables contain their values.

The remaining problem chooses one count for each job,

    maximise sum_jn value_jn l_jn - weight H,    sum_n l_jn = 1,    sum_jn g_j n l_jn <= M T,
             H >= sum_n left_jn l_jn for all j,  H >= sum_jn g_j left_jn l_jn / M,

with binary l and one row for the GPU time of all rounds together.  So its optimum bounds all plans, and if
its counts can be packed into the rounds, the result is an optimal plan.  The first model has only the counts
with the smallest losses: its optimum is found quickly, and excludes many of the other counts.  If the counts
of a few jobs cannot be packed, the model includes the rounds.

The model is relative to the known plan: costs are losses against this plan, in units in which the budget
d - U is a fixed number, and the column of H is the amount by which H exceeds its least value.

A baseline is the model with the rounds and all counts by HiGHS' branch and bound (:func:`solve_milp`).  There
l_j is a convex combination of whole counts.  The value is exact at whole counts and linear between them,
which is finer than the six breakpoints of the authors' code.  If a job's values are concave, as most are, l
needs no binaries.  For other jobs (that speed up within the window) l is binary, as the authors' SOS2
constraints require.  The model does not forbid that a GPU idles while a job fits; the shim completes the
resulting plan, which never makes it worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.sparse import block_array, csc_array, eye_array, kron

from copter.arrays import Flags, Floats, Ints
from copter.problems.shockwave.plan import Plan
from copter.problems.shockwave.tables import PlanProblem, best_price, normal_prices
from copter.solvers.base import Stopwatch
from copter.solvers.milp import MilpAnswer, MilpEffort, run_milp
from copter.store.compiled import CompiledProgram

PROVEN = 1e-9
"""Largest gap at which a plan counts as proven optimal."""
_ROUNDING = 1e-12
"""Rounding error relative to the terms of a bound; counts whose loss is above d - U by less are kept."""
_FEW, _PART = 2_000, 4.0
"""With more than 2,000 counts, the budget is divided by 4 until fewer remain; those counts come first."""
_MOST_ROUNDS = 3_000
"""Largest number of jobs times rounds for a model with rounds."""
_BUDGET = 1e4
"""The budget in units of the model; HiGHS' tolerances are 1e-6."""


_CONVEX = 1e-12


_Arrange: TypeAlias = Callable[..., "Flags | None"]
"""Function that packs counts of rounds, which may grow, into rounds; None if it finds no packing.

Its arguments are the counts, and a packing of them if one is known.
"""


def prove(
    problem: PlanProblem,
    plan: Plan,
    prices: tuple[float, float, Floats],
    arrange: _Arrange,
    seconds: float | None = None,
) -> Plan:
    """Return the best plan, or the best that was found, with its bound.

    `plan`: a known plan. `prices`: dual prices of the relaxation. `seconds`: time limit. The gap of the
    result is at most :data:`PROVEN` if the plan is proven optimal.
    """
    watch = Stopwatch()
    mu, work, jobs = normal_prices(problem, prices)
    mu, outer = best_price(problem, mu, work, jobs)
    net = problem.net(mu, work, jobs)
    best = net.max(axis=1, initial=-np.inf)
    loss = best[:, None] - net
    margin = _ROUNDING * (float(abs(best).sum()) + mu * problem.capacity * problem.rounds)
    bound, slack, first = min(plan.bound, outer), np.inf, True
    while bound - plan.objective > PROVEN * problem.size(plan.runs.sum(axis=1)) + margin:
        budget = outer - plan.objective + margin
        slack = budget
        while first and np.count_nonzero(loss <= slack) > _FEW + len(best):
            slack /= _PART
        first = False
        left = None if seconds is None else seconds - watch()
        if left is not None and left <= 0.0:
            break
        mask, complete = loss <= slack, slack >= budget
        found = _best_counts(problem, plan, mask, budget, left)
        better = found.plan(problem, plan, arrange)
        if better is None and complete and found.counts is not None and mask[:, 1:].size <= _MOST_ROUNDS:
            found = _best_counts(problem, plan, mask, budget, left, rounds=True)
            better = found.plan(problem, plan, arrange)
        inside = max(found.bound, plan.objective)
        bound = min(bound, inside if complete else max(inside, outer - slack))
        if better is None and complete:
            break
        plan = plan if better is None else better
    size = max(problem.size(plan.runs.sum(axis=1)), abs(bound))
    gap = (bound - plan.objective) / size if bound > plan.objective else 0.0
    return replace(plan, bound=bound, gap=gap, seconds=plan.seconds + watch())


@dataclass(frozen=True)
class _Counts:
    """Result of branch and bound: counts if found, their rounds if the model had rounds, and the bound."""

    counts: Ints | None
    rounds: Flags | None
    bound: float

    def plan(self, problem: PlanProblem, plan: Plan, arrange: _Arrange) -> Plan | None:
        """Return the plan with these counts if it is better, else None."""
        runs = None if self.counts is None else arrange(self.counts, self.rounds)
        if runs is None:
            return None
        objective = problem.objective(runs.sum(axis=1))
        return replace(plan, runs=runs, objective=objective) if objective > plan.objective else None


def _best_counts(
    problem: PlanProblem,
    plan: Plan,
    mask: Flags,
    budget: float,
    seconds: float | None,
    *,
    rounds: bool = False,
) -> _Counts:
    """Return the best counts among the masked counts and the counts of the plan."""
    rows = np.arange(len(mask))
    now = plan.runs.sum(axis=1)
    mask = mask.copy()
    mask[rows, now] = True
    job, count = np.nonzero(mask)
    unit = budget / _BUDGET
    value, left, least = problem.value[rows, now], problem.remaining[rows, now], _least(problem, mask)
    program = _model(problem, job, count, unit, value, left, least)
    if rounds:
        program = _in_rounds(program, problem, job, count)
    found, _ = run_milp(program, program.integrality, mip_gap=0.0, time_limit=seconds, threads=1)
    bound = float(value.sum()) - problem.makespan_weight * least - unit * found.bound
    if found.x is None:
        return _Counts(None, None, bound)
    chosen = found.x[: job.size] > 0.5
    counts = np.zeros(len(mask), np.int64)
    counts[job[chosen]] = count[chosen]
    return _Counts(counts, found.x[job.size + 1 :].reshape(plan.runs.shape) > 0.5 if rounds else None, bound)


def _in_rounds(program: CompiledProgram, problem: PlanProblem, job: Ints, count: Ints) -> CompiledProgram:
    """Return the model with an additional binary column for each job and round."""
    n, rounds = len(problem.gpus), problem.rounds
    of_job = kron(eye_array(n), np.ones((1, rounds)))
    of_round = kron(problem.gpus[None, :].astype(float), eye_array(rounds))
    counted = csc_array((-count.astype(float), (job, np.arange(job.size))), (n, job.size + 1))
    return replace(
        program,
        c=np.append(program.c, np.zeros(n * rounds)),
        lower=np.append(program.lower, np.zeros(n * rounds)),
        upper=np.append(program.upper, np.ones(n * rounds)),
        A=block_array([[program.A, None], [counted, of_job], [None, of_round]], format="csc"),
        row_lower=np.concatenate((program.row_lower, np.zeros(n), np.full(rounds, -np.inf))),
        row_upper=np.concatenate((program.row_upper, np.zeros(n), np.full(rounds, float(problem.capacity)))),
        integrality=np.append(program.integrality, np.ones(n * rounds, np.bool_)),
    )


def _least(problem: PlanProblem, mask: Flags) -> float:
    """Return the least value of H for the masked counts."""
    return problem.makespan(np.where(mask, problem.remaining, np.inf).min(axis=1))


def _model(
    problem: PlanProblem, job: Ints, count: Ints, unit: float, value: Floats, left: Floats, least: float
) -> CompiledProgram:
    """Return the model: columns l by job and count, then H above its least value, in units of costs.

    `value`, `left` (n,): value and remaining run time of each job, to which costs and H are relative.
    """
    k, n = job.size, len(value)
    used = float(problem.gpus @ left) / problem.capacity
    weight = problem.makespan_weight
    of_time = weight / unit if weight > 0.0 else 1.0 / max(problem.remaining.max(), 1.0)
    remaining = problem.remaining[job, count]
    above = np.maximum(remaining - least, 0.0) * of_time
    long = np.unique(job[above > 0.0])
    position = np.full(n, -1)
    position[long] = np.arange(long.size)
    part = np.flatnonzero(position[job] >= 0)
    share = problem.gpus[job] * of_time / problem.capacity * (remaining - left[job])
    time, work, longest = n, n + 1, n + 2
    row = np.concatenate(
        (job, np.full(k, time), np.full(k + 1, work), longest + position[job[part]], longest + position[long])
    )
    column = np.concatenate((np.arange(k), np.arange(k), np.arange(k + 1), part, np.full(long.size, k)))
    entries = np.concatenate(
        (np.ones(k), problem.gpus[job] * count, share, [-1.0], above[part], -np.ones(long.size))
    )
    lost = (value[job] - problem.value[job, count]) / unit
    highest = np.concatenate(
        (np.ones(n), [problem.capacity * problem.rounds, (least - used) * of_time], np.zeros(long.size))
    )
    return CompiledProgram(
        c=np.append(lost, 1.0 if weight > 0.0 else 0.0),
        lower=np.zeros(k + 1),
        upper=np.append(np.ones(k), np.inf),
        A=csc_array((entries, (row, column)), (longest + long.size, k + 1)),
        row_lower=np.concatenate((np.ones(n), np.full(highest.size - n, -np.inf))),
        row_upper=highest,
        integrality=np.append(np.ones(k, np.bool_), False),
    )


@dataclass(frozen=True)
class ExactPlan:
    """Result of branch and bound.

    `runs`: the plan; None if none was found in time. `bound`: upper bound on the objective of any plan;
    infinite if unknown.
    """

    runs: Flags | None
    bound: float
    found: MilpAnswer
    effort: MilpEffort


def solve_milp(
    problem: PlanProblem,
    *,
    mip_gap: float = 1e-3,
    time_limit: float | None = None,
    threads: int | None = None,
) -> ExactPlan:
    """Return the best plan that branch and bound finds.

    `mip_gap`: relative gap at which branch and bound stops; the default is that of the authors' runs.
    `time_limit`: seconds for making and solving the model.
    """
    watch = Stopwatch()
    n, rounds = len(problem.gpus), problem.rounds
    job, count = np.nonzero(np.arange(rounds + 1) <= problem.most[:, None])
    largest = float(np.abs(problem.value).max(initial=0.0))
    unit = max(largest, problem.makespan_weight * float(problem.remaining.max(initial=0.0))) or 1.0
    program = _in_rounds(
        _model(problem, job, count, unit, np.zeros(n), np.zeros(n), 0.0), problem, job, count
    )
    steps, spread = np.diff(problem.value, 2, axis=1), np.abs(problem.value).max(axis=1, initial=0.0)
    bent = (steps > _CONVEX * spread[:, None]).any(axis=1)
    program.integrality[: job.size] = bent[job]
    found, effort = run_milp(
        program, program.integrality, mip_gap=mip_gap, time_limit=time_limit, threads=threads, watch=watch
    )
    runs = None if found.x is None else found.x[job.size + 1 :].reshape(n, rounds) > 0.5
    return ExactPlan(runs, -unit * found.bound, found, effort)
