"""Prices to begin with where there are none: those of a sample of the requests that stands for all.

Without prices a pass finds the columns that would be best if everything were free, and it takes many
passes to get from them to those that matter.  A request is drawn as likely as its total is large, and then
stands for others: its total is divided by that likelihood (:mod:`copter.solvers.inner.sampling`).
Where the last round's answer is worth something, the sample begins from its part of that, as many times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.solvers.inner.gather import Held, gather
from copter.solvers.inner.sampling import Sampler
from copter.solvers.inner.working_set import WorkingSet
from copter.solvers.proximal.steps import Aim, run_steps
from copter.store.allocation import SparseX, row_activity
from copter.store.store import EXACTLY, NO_TOTAL, ConstraintStore, slice_indices

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.budget import Budget
    from copter.solvers.proximal.inner import Method
    from copter.solvers.proximal.tuning import ProximalTuning


class Sampled(NamedTuple):
    """What a sample says of the whole.

    Attributes
    ----------
    y : (row slots,) prices
    flow : (row slots,) A x, about; None where there is no sample
    """

    y: NDArray[np.float64]
    flow: NDArray[np.float64] | None


def sampled_prices(
    program: ContinualProgram,
    x: SparseX,
    y: NDArray[np.float64],
    method: Method,
    budget: Budget,
    tuning: ProximalTuning,
) -> Sampled:
    """Prices of a sample of the requests, with all their columns; ``y`` itself where a sample is no use.

    Parameters
    ----------
    x, y : SparseX and (row slots,) ndarray
        Allocation and prices to begin with.
    method : "cd" or "newton"
    """
    sample = _sample(program, tuning)
    if sample is None:
        return Sampled(y, None)
    working, held, stands_for = sample
    goal = tuning.sample.goal
    aim = Aim(goal, tuning.steps.cold_sigma, loose=tuning.sample.loose * goal)
    begin = x._replace(value=x.value * stands_for[x.slot])
    steps = run_steps(program, working, method, budget, begin, y, aim, tuning, project=False)
    flow = row_activity(program.store, steps.x, threads=budget.threads)
    return Sampled(steps.y, flow if held is None else flow + held.usage)


def _sample(
    program: ContinualProgram, tuning: ProximalTuning
) -> tuple[WorkingSet, Held | None, NDArray[np.float64]] | None:
    """A sample as a working set, what it leaves out, and how many requests each stands for.

    None if the program is small, or a sample could not know every price.
    """
    store, sample, rows = program.store, tuning.sample, len(program.resource_slots)
    table = store.requests
    n_columns, relation = table.n_columns[: table.size], table.relation[: table.size]
    summed, decided = relation != NO_TOTAL, (relation == EXACTLY) & (n_columns == 1)
    slots, single = np.flatnonzero(summed & (n_columns > decided)), np.flatnonzero(~summed & (n_columns > 0))
    columns = max(sample.columns, sample.columns_a_row * rows)
    wanted = slots.size * columns // max(1, int(n_columns[slots].sum()))
    least, most = max(sample.least_requests, rows), sample.largest_share * slots.size
    if wanted < least <= sample.small_share * slots.size:  # wide requests: more columns, still few of all
        wanted = least
    if not least <= wanted <= most or int(n_columns[single].sum()) > columns:
        return None
    taken, factor = Sampler(table.total[slots], wanted).draw()
    drawn = np.sort(np.concatenate((slots[taken], single)))
    sizes = n_columns[drawn]
    stands_for = np.ones(table.size)
    stands_for[slots[taken]] = factor
    column = slice_indices(np.zeros_like(sizes), sizes)
    held = _held(store, np.flatnonzero(decided))
    slot = np.repeat(drawn, sizes)
    working = gather(store, slot, column, held, stands_for, tuning=tuning.working_set)
    return working, held, stands_for


def _held(store: ConstraintStore, decided: NDArray[np.int64]) -> Held | None:
    """What requests without a choice use, each for itself: one of them must not stand for others."""
    if not decided.size:
        return None
    x = SparseX(decided, np.zeros_like(decided), store.requests.total[decided])
    return Held(row_activity(store, x), store.rows.alive[: store.rows.size])
