"""HiGHS with one model that is updated between rounds, and simplex from the last basis.

This is the strongest use of HiGHS that its incremental interface allows.  The differences are read from the
store's revisions: columns of requests that left or were replaced are deleted, new ones are added, and costs,
bounds and capacities are set where they changed.  HiGHS keeps the basis: entries of deleted rows and columns
are removed, new columns are nonbasic, and new rows are basic. If the basis became singular, the next
factorization replaces columns by slacks (HiGHS calls the basis "alien", but uses it).

Choice of the simplex variant: if only capacities, totals and bounds changed, the last basis is dual feasible,
and dual simplex continues from it.  If only costs or columns changed, the basis is almost primal feasible,
and primal simplex continues from it if the program is wide. On Sia's rounds with 1.46 million columns, 2% of
the jobs replaced and nearly all costs changed, primal takes 14 to 16 s in every round. Dual, HiGHS' own
choice, took 5 s once; in the next round it did not end in 12 minutes and ignored its deadline.  Otherwise
HiGHS chooses by feasibility.

The first round is the slowest: for max-flow on Kdl with 20,000 demands, interior point with crossover found a
basis in 4 minutes, and for all 567,744 demands there was none after 38.  So the first basis of a large
program comes from copter, which takes seconds; they count towards the time of the first round.  If optima
tie, copter's solution lies between vertices. So copter solves with randomly perturbed costs, whose optimum is
a vertex with probability 1.  Columns strictly between their bounds become basic, and so do the rows that have
neither a price nor a tight sum. HiGHS corrects the rounding errors of this basis, and primal simplex on the
true costs continues from it: 0.3 s for 20,000 demands, 2 minutes for all.

A run from the last basis skips presolve, so it can be slower than a fresh start. ``keep_basis=False`` keeps
the model but clears the solver's state before every run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import highspy
import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, check_for
from copter.clock import check as check_clock
from copter.models.highs import Engine, check, load, run_until, set_option, status_of
from copter.models.highs_units import fits
from copter.solution import ColdStart, Start, Status
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.baseline import BASELINE, Baseline, BaselineAnswer, Layout
from copter.solvers.baselines.highs import STRATEGIES, WIDE, fitting_strategy, outcome_of, simplex_options
from copter.solvers.features import Feature
from copter.solvers.inner.scaling import root_mean_square
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.rebuild import Copy
from copter.solvers.settings import Setting, one_of, switch
from copter.store.allocation import SparseX
from copter.store.compiled import append_sum_rows, compile_program
from copter.store.reading import effective_costs, sum_row_bounds, upper_bounds, usage_columns
from copter.store.store import NO_TOTAL, slice_indices

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.store import ConstraintStore

_START_SHARE = 4.0
"""copter computes a first basis only if this many times the seconds for making the model are left."""
_START_FROM = 20_000
"""Number of columns from which on copter computes the first basis."""
_PERTURBATION = 1e-2
"""Perturbation of the costs, as a share of their root mean square."""
_TOLERANCE = 1e-7
_NEARLY = 1e-6
"""Distance from a bound, as a share of the bound, up to which a value counts as at the bound."""


class HighsHot(Baseline):
    """HiGHS simplex, with model and basis kept between rounds.

    Parameters
    ----------
    strategy : "auto", "choose", "dual" or "primal"
        Kind of simplex; "auto" depends on the edits, "choose" is HiGHS' own choice by feasibility.
    keep_basis : bool
        True to start from the last basis, False to start with presolve.
    **common
        ``tolerance``, ``deadline``, ``threads`` of :class:`copter.solvers.baselines.baseline.Baseline`.
    """

    features = BASELINE | Feature.WARM_START | Feature.DIFFERENTIAL_EDITS | Feature.THREADS
    strategy = Setting(one_of("auto", *STRATEGIES))
    keep_basis = Setting(switch)

    def __init__(
        self,
        name: str,
        *,
        strategy: Literal["auto", "choose", "dual", "primal"] = "auto",
        keep_basis: bool = True,
        **common: Any,
    ) -> None:
        super().__init__(name, **common)
        self.strategy = strategy
        self.keep_basis = keep_basis
        self._model: _HotModel | None = None
        self._began = False  # True after the first round, even if its model was discarded

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_model": None}  # HiGHS' state cannot be copied: a copy starts cold

    def reset(self) -> None:
        """Forget everything about earlier rounds."""
        super().reset()
        self._model, self._began = None, False

    def stopping(self) -> dict[str, float]:
        """Return the tolerances that HiGHS gets."""
        options = simplex_options(self.tolerance, "choose")
        return {name: value for name, value in options.items() if name.endswith("tolerance")}

    def _load(self, program: ContinualProgram) -> Layout:
        model, self._model = self._model, None  # a push that fails halfway leaves an unusable model
        moved = bounded = False
        other = model is not None and model.store is not program.store
        if model is not None and not other:
            try:
                moved, bounded = model.push()
            except _OtherUnits:
                model = None
        if model is not None and not other:
            self._warm = Start(True, "basis kept") if self.keep_basis else ColdStart.SWITCHED_OFF.start()
        else:
            lost = ColdStart.OTHER_PROGRAM if other else ColdStart.NOTHING_LEFT
            self._warm = (lost if self._began else ColdStart.FIRST_ROUND).start()
            options = simplex_options(self.tolerance, "choose")
            model = _HotModel(program, self.threads, options)
        self._began = True
        set_option(model.highs, "simplex_strategy", STRATEGIES[self._fitting(model, moved, bounded)])
        self._model = model
        return model.layout()

    def _fitting(self, model: _HotModel, moved: bool, bounded: bool) -> str:
        """Return the kind of simplex; `moved`, `bounded`: whether costs or columns, and bounds, changed."""
        if self.strategy != "auto":
            return self.strategy
        n, bounds = int(model.size.sum()), model.row_bounds()
        if not self._warm.warm:
            return fitting_strategy(n, *bounds)
        if not moved:
            return "dual"
        return "primal" if not bounded and n >= WIDE * bounds[0].size else "choose"

    def _start(self, model: _HotModel, clock: Clock) -> bool:
        """Give a large new model copter's basis; return whether copter found one in half of the time."""
        if self._warm.warm or not self.keep_basis or int(model.size.sum()) < _START_FROM:
            return False
        if clock.over(_START_SHARE * model.seconds):
            return False
        share = None if clock.left() == math.inf else clock.left() / 2
        basis = first_basis(model.program, deadline=share, threads=self.threads)
        if basis is None or model.highs.setBasis(basis) == highspy.HighsStatus.kError:
            return False
        if self.strategy == "auto":
            set_option(model.highs, "simplex_strategy", STRATEGIES["primal"])
        return True

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        model, self._model = self._model, None  # an abandoned run still uses the model
        assert model is not None
        highs, watch = model.highs, Stopwatch()
        started = self._start(model, clock)
        warm = self._warm
        if started:
            warm = warm._replace(reason=f"{warm.reason}, from copter's basis")
        if not self.keep_basis:
            check(highs.clearSolver(), "clearing the solver")
        seconds = watch()
        seconds += run_until(highs, clock, reserve)
        status, reason = status_of(highs)
        if status is Status.NUMERICAL_ERROR and (warm.warm or started):
            # this happened once in 640 rounds of random edits
            check(highs.clearSolver(), "clearing the solver")
            seconds += run_until(highs, clock, reserve)
            warm = ColdStart.BASIS_FAILED.start(f" ({reason})")
            status, reason = status_of(highs)
        self._model = model
        return outcome_of(highs, (status, reason), model.upper(), seconds, warm)


class _OtherUnits(Exception):
    """Raised if the program's numbers do not fit HiGHS' units, so that the whole model must be rescaled."""


class _HotModel:
    """A HiGHS model that is updated with the edits of a store.

    Blocks of columns are in HiGHS' order: ``slot``, ``generation``, ``size`` and ``bound`` of each request
    (the upper bound if all its columns share one, otherwise NaN). Rows are in HiGHS' order too: ``owner`` is
    the slot of a resource, or ``-1 - slot`` of the request of a sum row; ``row_generation`` is the generation
    of either. `seconds`: time for making the model.
    """

    def __init__(self, program: ContinualProgram, threads: int | None, options: dict[str, Any]) -> None:
        self.program = program
        self.store: ConstraintStore = program.store
        store, table = self.store, self.store.requests
        watch = Stopwatch()
        compiled = compile_program(program)
        check_for(watch())
        self.highs: Engine = load(compiled, threads, **options)
        self.seconds = watch()
        self.slot = program.request_slots
        self.generation, self.size = table.generation[self.slot], table.n_columns[self.slot]
        self.bound = _common_bound(store, self.slot)
        rows, summed = program.resource_slots, self.slot[table.relation[self.slot] != NO_TOTAL]
        self.owner = np.concatenate((rows, -1 - summed))
        self.row_generation = np.concatenate((store.rows.generation[rows], table.generation[summed]))
        self.seen = store.clock

    def layout(self) -> Layout:
        """Return the slots of the requests and resources that the model's columns and rows represent."""
        at = np.flatnonzero(self.owner >= 0)
        return Layout(self.slot, self.size, self.owner[at], at)

    def upper(self) -> NDArray[np.float64]:
        """Return the upper bounds of the columns."""
        return upper_bounds(self.store, self.slot)

    def row_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper bounds of the rows."""
        rows, of_resource = self.store.rows, self.owner >= 0
        lower, upper = np.empty(self.owner.size), np.empty(self.owner.size)
        resources = self.owner[of_resource]
        lower[of_resource], upper[of_resource] = rows.lower[resources], rows.upper[resources]
        lower[~of_resource], upper[~of_resource] = sum_row_bounds(self.store, -1 - self.owner[~of_resource])
        return lower, upper

    def push(self) -> tuple[bool, bool]:
        """Apply all edits to the model; return whether costs or columns, and whether bounds, changed."""
        if self.highs.units is not None:
            raise _OtherUnits
        before = self.slot.size
        check_clock()
        self._delete()
        left = before - self.slot.size
        check_clock()
        priced, bounded = self._change()
        check_clock()
        added = self._add()
        self.seen = self.store.clock
        return bool(left or priced or added), bounded

    def _delete(self) -> None:
        """Delete the columns of requests that left or were replaced, and the rows that no longer exist."""
        store, table = self.store, self.store.requests
        gone = table.generation[self.slot] != self.generation
        if gone.any():
            columns = slice_indices((np.cumsum(self.size) - self.size)[gone], self.size[gone])
            check(self.highs.deleteCols(columns.size, columns.astype(np.int32)), "deleting columns")
            keep = ~gone
            self.slot, self.generation, self.size = self.slot[keep], self.generation[keep], self.size[keep]
            self.bound = self.bound[keep]
        of_resource = self.owner >= 0
        resource, request = np.where(of_resource, self.owner, 0), np.where(of_resource, 0, -1 - self.owner)
        stays = np.where(
            of_resource,
            store.rows.alive[resource] & (store.rows.generation[resource] == self.row_generation),
            (table.relation[request] != NO_TOTAL) & (table.generation[request] == self.row_generation),
        )
        if not stays.all():
            rows = np.flatnonzero(~stays).astype(np.int32)
            check(self.highs.deleteRows(rows.size, rows), "deleting rows")
            self.owner, self.row_generation = self.owner[stays], self.row_generation[stays]

    def _change(self) -> tuple[bool, bool]:
        """Set costs and bounds that changed since the last push; return whether costs, and bounds, did."""
        store, table = self.store, self.store.requests
        start = np.cumsum(self.size) - self.size
        moved = table.cost_stamp[self.slot] > self.seen
        priced = bool(moved.any())
        if priced:
            columns = slice_indices(start[moved], self.size[moved]).astype(np.int32)
            costs = effective_costs(store, self.slot[moved])
            if not fits(np.empty(0), costs):
                raise _OtherUnits
            check(self.highs.changeColsCost(columns.size, columns, costs), "costs")
        bound = _common_bound(store, self.slot)
        moved = (table.bound_stamp[self.slot] > self.seen) & ~(bound == self.bound)
        bounded = bool(moved.any())
        if bounded:
            columns = slice_indices(start[moved], self.size[moved]).astype(np.int32)
            upper = upper_bounds(store, self.slot[moved])
            status = self.highs.changeColsBounds(columns.size, columns, np.zeros(columns.size), upper)
            check(status, "bounds of columns")
        self.bound = bound
        of_resource = self.owner >= 0
        stamp = np.empty(self.owner.size, np.int64)
        stamp[of_resource] = store.rows.stamp[self.owner[of_resource]]
        stamp[~of_resource] = table.bound_stamp[-1 - self.owner[~of_resource]]
        moved = stamp > self.seen
        if moved.any():
            lower, upper = self.row_bounds()
            rows = np.flatnonzero(moved).astype(np.int32)
            check(self.highs.changeRowsBounds(rows.size, rows, lower[moved], upper[moved]), "bounds of rows")
        return priced, bounded or bool(moved.any())

    def _add(self) -> bool:
        """Append new resources, sum rows and requests; return whether there were new requests."""
        store, table = self.store, self.store.requests
        kept = np.zeros(store.rows.size, np.bool_)
        kept[self.owner[self.owner >= 0]] = True
        new_rows = np.flatnonzero(store.rows.alive[: store.rows.size] & ~kept)
        kept = np.zeros(table.size, np.bool_)
        kept[self.slot] = True
        live = store.live_requests()
        new = live[~kept[live]]
        summed = np.zeros(table.size, np.bool_)
        summed[-1 - self.owner[self.owner < 0]] = True
        # A request that got a total since the last push needs a new sum row with the entries of its columns.
        late = np.flatnonzero((table.relation[self.slot] != NO_TOTAL) & ~summed[self.slot])
        owners = np.concatenate((new_rows, -1 - self.slot[late], -1 - new[table.relation[new] != NO_TOTAL]))
        if owners.size:
            self._add_rows(new_rows, owners[new_rows.size :], late)
        if new.size:
            self._add_columns(new)
        return bool(new.size)

    def _add_rows(
        self, resources: NDArray[np.int64], sums: NDArray[np.int64], late: NDArray[np.int64]
    ) -> None:
        store = self.store
        requests = -1 - sums
        sum_lower, sum_upper = sum_row_bounds(store, requests)
        lower = np.concatenate((store.rows.lower[resources], sum_lower))
        upper = np.concatenate((store.rows.upper[resources], sum_upper))
        lengths = np.zeros(lower.size, np.int64)
        lengths[resources.size : resources.size + late.size] = self.size[late]
        starts = (np.cumsum(lengths) - lengths).astype(np.int32)
        columns = slice_indices((np.cumsum(self.size) - self.size)[late], self.size[late]).astype(np.int32)
        ones = np.ones(columns.size)
        status = self.highs.addRows(lower.size, lower, upper, columns.size, starts, columns, ones)
        check(status, "adding rows")
        self.owner = np.concatenate((self.owner, resources, sums))
        generations = store.rows.generation[resources], store.requests.generation[requests]
        self.row_generation = np.concatenate((self.row_generation, *generations))

    def _add_columns(self, new: NDArray[np.int64]) -> None:
        store, table = self.store, self.store.requests
        at = np.arange(self.owner.size)
        of_resource = self.owner >= 0
        position = np.full(store.rows.size, -1, np.int32)
        position[self.owner[of_resource]] = at[of_resource]
        sum_at = np.full(table.size, -1, np.int64)
        sum_at[-1 - self.owner[~of_resource]] = at[~of_resource]
        sizes = table.n_columns[new]
        columns = usage_columns(store, new, position)
        indptr, indices, data = append_sum_rows(columns, np.repeat(sum_at[new], sizes))
        costs, upper = effective_costs(store, new), upper_bounds(store, new)
        if not fits(data, costs):
            raise _OtherUnits
        n = costs.size
        status = self.highs.addCols(n, costs, np.zeros(n), upper, data.size, indptr[:-1], indices, data)
        check(status, "adding columns")
        self.slot = np.concatenate((self.slot, new))
        self.generation = np.concatenate((self.generation, table.generation[new]))
        self.size = np.concatenate((self.size, sizes))
        self.bound = np.concatenate((self.bound, _common_bound(store, new)))


def _common_bound(store: ConstraintStore, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the upper bound that all columns of a request share; NaN (unequal to all) if they differ."""
    table = store.requests
    bound: NDArray[np.float64] = np.where(table.upper_start[slots] >= 0, np.nan, table.upper[slots])
    return bound


# ---- the first basis ---------------------------------------------------------------------------------------


def first_basis(
    program: ContinualProgram, *, deadline: float | None = None, threads: int | None = None
) -> highspy.HighsBasis | None:
    """Return a basis near an optimal vertex, in the order of :func:`copter.store.compiled.compile_program`.

    Return None if copter finds no optimum before the deadline. With the perturbed costs there may be an
    optimum although the program itself has none.
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
    upper[upper >= most] = np.inf  # the sum row is then at least as tight
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
    basis.valid = basis.alien = True  # alien: HiGHS checks and repairs the basis
    return basis


def _vertex(
    program: ContinualProgram, deadline: float | None, threads: int | None
) -> tuple[SparseX, NDArray[np.float64]] | None:
    """Return allocation and prices at the optimum of slightly perturbed costs; None without an optimum."""
    watch = Stopwatch()
    copy = Copy(program)
    store, slots = copy.program.store, copy.program.request_slots
    costs = effective_costs(store, slots)
    typical = root_mean_square(costs) or 1.0
    # only upwards: so no program becomes unbounded
    costs += _PERTURBATION * typical * np.random.default_rng(0).random(costs.size)
    ends = np.cumsum(store.requests.n_columns[slots])
    copy.program.update_requests(copy.program.request_ids, costs=np.split(costs, ends[:-1]))
    left = None if deadline is None else max(0.0, deadline - watch())
    solver = ProximalPoint(tolerance=_TOLERANCE, deadline=left, threads=threads, fall_back=False)
    solution = solver.solve(copy.program)
    if solution.status is not Status.OPTIMAL:
        return None
    return copy.original_x(solution.nonzeros), copy.original_y(solution.y)
