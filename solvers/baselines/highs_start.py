"""A first basis for HiGHS, from copter's own answer.

The first round is the worst of a solver that is kept hot: of max-flow on Kdl with 20,000 demands, interior
point with crossover found a basis in 4 minutes, and for all 567,744 there was none after 38.  copter answers
in seconds, but where optima tie its answer lies between vertices.  So it is asked for the optimum of randomly
perturbed costs, which is a vertex almost surely.  There columns strictly between their bounds are basic, and
so are the rows that have neither a price nor a tight sum; HiGHS evens out what rounding got wrong, and primal
simplex on the true costs goes on from there: 0.3 s for 20,000 demands, 2 minutes for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.solution import Status
from copter.solvers.base import Stopwatch
from copter.solvers.inner.scaling import root_mean_square
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.rebuild import Copy
from copter.store.allocation import SparseX
from copter.store.reading import effective_costs, upper_bounds
from copter.store.store import NO_TOTAL

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_PERTURBATION = 1e-2
"""Of the costs, as a share of a typical one."""
_TOLERANCE = 1e-7
_NEARLY = 1e-6
"""Distance from a bound, as a share of it, that counts as none."""


def first_basis(
    program: ContinualProgram, *, deadline: float | None = None, threads: int | None = None
) -> highspy.HighsBasis | None:
    """Basis near an optimal vertex, in the order of :func:`copter.store.compiled.compile_program`.

    None if copter finds no optimum until the deadline; it may find one of the perturbed costs where the
    program itself has none.

    Parameters
    ----------
    deadline : float, optional
        Seconds.
    """
    found = _vertex(program, deadline, threads) if program.n_variables else None
    if found is None:
        return None
    x, y = found
    store, table, slots = program.store, program.store.requests, program.request_slots
    sizes = table.n_columns[slots]
    start = np.zeros(table.size, np.int64)
    start[slots] = np.cumsum(sizes) - sizes
    value = np.zeros(int(sizes.sum()))
    value[start[x.slot] + x.column] = x.value
    summed = table.relation[slots] != NO_TOTAL
    total = np.where(summed, table.total[slots], np.inf)
    upper, most = upper_bounds(store, slots), np.repeat(total, sizes)
    upper[upper >= most] = np.inf  # then the sum row is in the way first
    room = np.minimum(upper, most)
    near = _NEARLY * np.where(np.isfinite(room), room, 1.0)
    kind = highspy.HighsBasisStatus
    columns = np.where(value >= upper - near, int(kind.kUpper), int(kind.kBasic))
    columns[value <= near] = int(kind.kLower)
    owner = np.repeat(np.arange(slots.size), sizes)
    tight = np.bincount(owner, value, slots.size) >= total * (1 - _NEARLY)
    tight &= np.bincount(owner, columns == int(kind.kBasic), slots.size) > 0
    sums = np.where(tight, int(kind.kUpper), int(kind.kBasic))[summed]
    price = y[program.resource_slots]
    rows = np.full(price.size, int(kind.kBasic))
    weighty = _NEARLY * float(abs(price).max(initial=0.0))
    rows[price > weighty], rows[price < -weighty] = int(kind.kUpper), int(kind.kLower)
    basis = highspy.HighsBasis()
    known = [kind(each) for each in range(3)]
    basis.col_status = [known[each] for each in columns.tolist()]
    basis.row_status = [known[each] for each in np.concatenate((rows, sums)).tolist()]
    basis.valid = basis.alien = True  # alien: HiGHS checks it and evens it out
    return basis


def _vertex(
    program: ContinualProgram, deadline: float | None, threads: int | None
) -> tuple[SparseX, NDArray[np.float64]] | None:
    """Allocation and prices at the optimum of slightly different costs."""
    watch = Stopwatch()
    copy = Copy(program)
    store, slots = copy.program.store, copy.program.request_slots
    costs = effective_costs(store, slots)
    typical = root_mean_square(costs) or 1.0
    # upwards: no program becomes unbounded by that
    costs += _PERTURBATION * typical * np.random.default_rng(0).random(costs.size)
    ends = np.cumsum(store.requests.n_columns[slots])
    copy.program.update_requests(copy.program.request_ids, costs=np.split(costs, ends[:-1]))
    left = None if deadline is None else max(0.0, deadline - watch())
    solver = ProximalPoint(tolerance=_TOLERANCE, deadline=left, threads=threads, hand_over=False)
    solution = solver.solve(copy.program)
    if solution.status is not Status.OPTIMAL:
        return None
    return copy.original_x(solution.nonzeros), copy.original_y(solution.y)
