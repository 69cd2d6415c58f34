"""HiGHS with one model that is updated between rounds, and simplex from the last basis.

This is the strongest use of HiGHS that its incremental interface allows
(:mod:`copter.solvers.highs_kept`): columns of requests that left or were replaced are deleted, new ones are
added, and costs, bounds and capacities are set where they changed.

Choice of the simplex variant: if only capacities, totals and bounds changed, the last basis is dual feasible,
and dual simplex continues from it.  If only costs or columns changed, the basis is almost primal feasible,
and primal simplex continues from it if the program is wide. On Sia's rounds with 1.46 million columns, 2% of
the jobs replaced and nearly all costs changed, primal takes 14 to 16 s in every round. Dual, HiGHS' own
choice, took 5 s once; in the next round it did not end in 12 minutes and ignored its deadline.  Otherwise
HiGHS chooses by feasibility.

The first round is the slowest: for max-flow on Kdl with 20,000 demands, interior point with crossover found a
basis in 4 minutes, and for all 567,744 demands no basis was found in 38 minutes.  So the first basis of a
large program comes from copter, which takes seconds; these seconds count in the time of the first round. If
optima tie, copter's solution lies between vertices. So copter solves with randomly perturbed costs, whose
optimum is a vertex with probability 1. HiGHS corrects the rounding errors of this basis, and primal simplex
on the true costs continues from it: 0.3 s for 20,000 demands, 2 minutes for all.

A run from the last basis skips presolve, so it can be slower than a fresh start. ``keep_basis=False`` keeps
the model but clears the solver's state before every run.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import highspy
import numpy as np

from copter.clock import Clock
from copter.models.highs import STRATEGIES, check
from copter.models.highs_lp import HighsLP
from copter.program.program import ContinualProgram
from copter.solution import ColdStart, Start, Status
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.baseline import BASELINE, Baseline, BaselineAnswer, Layout
from copter.solvers.baselines.highs import WIDE, fitting_strategy, outcome_of
from copter.solvers.features import Feature
from copter.solvers.highs_kept import KeptModel, basis_near, simplex_options
from copter.solvers.inner.scaling import root_mean_square
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.settings import Setting, one_of, switch
from copter.store.allocation import SparseX
from copter.store.changes import Changes
from copter.store.reading import effective_costs

_START_SHARE = 4.0
"""copter computes a first basis only if this many times the seconds for making the model are left."""
_START_FROM = 20_000
"""Number of columns from which on copter computes the first basis."""
_PERTURBATION = 1e-2
"""Perturbation of the costs, as a share of their root mean square."""
_TOLERANCE = 1e-7


class HighsHot(Baseline):
    """HiGHS simplex, with model and basis kept between rounds.

    Parameters
    ----------
    strategy : "auto", "choose", "dual" or "primal"
        Kind of simplex; "auto" depends on the edits, "choose" is HiGHS' own choice by feasibility.
    keep_basis : bool
        True to start from the last basis, False to start with presolve.
    **common
        ``tolerance``, ``time_limit``, ``threads`` of :class:`copter.solvers.baselines.baseline.Baseline`.
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
        self._model: KeptModel | None = None
        self._lp: tuple[Any, HighsLP] | None = None
        self._began = False  # True after the first round, even if its model was discarded

    def __getstate__(self) -> dict[str, Any]:
        # HiGHS' state cannot be copied: a copy starts cold
        return super().__getstate__() | {"_model": None, "_lp": None}

    def reset(self) -> None:
        """Forget everything about earlier rounds."""
        super().reset()
        self._model, self._lp, self._began = None, None, False

    def stopping(self) -> dict[str, float]:
        """Return the tolerances that HiGHS gets."""
        options = simplex_options(self.tolerance, "choose")
        return {name: value for name, value in options.items() if name.endswith("tolerance")}

    def _load(self, program: ContinualProgram) -> Layout:
        model, self._model = self._model, None  # a push that fails halfway leaves an unusable model
        changes: Changes | None = None
        other = model is not None and model.flat.store is not program.store
        if model is not None and not other:
            changes = model.push()
        if model is not None and not other:
            self._warm = Start(True, "basis kept") if self.keep_basis else ColdStart.SWITCHED_OFF.start()
        else:
            lost = ColdStart.OTHER_PROGRAM if other else ColdStart.NOTHING_LEFT
            self._warm = (lost if self._began else ColdStart.FIRST_ROUND).start()
            options = simplex_options(self.tolerance, "choose")
            model = KeptModel(program, self.threads, options)
        self._began = True
        model.highs.set_option("simplex_strategy", STRATEGIES[self._fitting(model, changes)])
        self._model = model
        return Layout.of_model(model.flat)

    def _solve_model(self, model: Any, clock: Clock) -> Any:
        """Solve a :class:`~copter.Model` from the basis that this solver keeps for it."""
        known = self._lp
        if known is None or known[0] is not model:
            known = self._lp = model, HighsLP(model.lp, self.threads)
        known[1].follow(model.lp)
        return model.solution(known[1].solve(self.tolerance, clock), solver=self.name)

    def _fitting(self, model: KeptModel, changes: Changes | None) -> str:
        """Return the kind of simplex for a model that is new, or had these changes."""
        if self.strategy != "auto":
            return self.strategy
        n, bounds = model.flat.n_columns, model.flat.row_bounds()
        if changes is None or not self._warm.warm:
            return fitting_strategy(n, *bounds)
        if not changes.of_columns:
            return "dual"
        return "primal" if not changes.of_bounds and n >= WIDE * bounds[0].size else "choose"

    def _start(self, model: KeptModel, clock: Clock) -> bool:
        """Give a large new model copter's basis; return whether copter found one in half of the time."""
        if self._warm.warm or not self.keep_basis or model.flat.n_columns < _START_FROM:
            return False
        if clock.over(_START_SHARE * model.seconds):
            return False
        share = None if clock.left() == math.inf else clock.left() / 2
        basis = first_basis(model.program, time_limit=share, threads=self.threads)
        if basis is None or model.highs.setBasis(basis) == highspy.HighsStatus.kError:
            return False
        # Only in this round: the basis is nearly primal feasible, and dual simplex may need minutes from it.
        model.highs.set_option("simplex_strategy", STRATEGIES["primal"])
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
        seconds += highs.run_hot(clock, reserve) if warm.warm else highs.run_until(clock, reserve)
        status, reason = highs.outcome()
        if status is Status.NUMERICAL_ERROR and (warm.warm or started):
            # this happened once in 640 rounds of random edits
            check(highs.clearSolver(), "clearing the solver")
            seconds += highs.run_until(clock, reserve)
            warm = ColdStart.BASIS_FAILED.start(f" ({reason})")
            status, reason = highs.outcome()
        self._model = model
        return outcome_of(highs, (status, reason), model.flat.upper(), seconds, warm)


# ---- the first basis ---------------------------------------------------------------------------------------


def first_basis(
    program: ContinualProgram, *, time_limit: float | None = None, threads: int | None = None
) -> highspy.HighsBasis | None:
    """Return a basis near an optimal vertex, in the order of :func:`copter.store.compiled.compile_program`.

    Return None if copter finds no optimum before the deadline.
    """
    if not program.n_variables:
        return None
    watch, store = Stopwatch(), program.store
    slots, rows, given = program.request_slots, program.resource_slots, program.requests[:]
    costs = effective_costs(store, slots)
    typical = root_mean_square(costs) or 1.0
    # only upwards: so no program becomes unbounded
    costs += _PERTURBATION * typical * np.random.default_rng(0).random(costs.size)
    perturbed = ContinualProgram()
    perturbed.add_resources(**vars(program.resources[:]))
    sums = {"totals": given.totals, "relation": given.relation}
    perturbed.add_requests(given.ids, costs, given.sizes, given.usage, upper=given.upper, **sums)
    left = None if time_limit is None else max(0.0, time_limit - watch())
    solver = ProximalPoint(tolerance=_TOLERANCE, time_limit=left, threads=threads, fall_back=False)
    solution = solver.solve(perturbed)
    if solution.status is not Status.OPTIMAL:
        return None
    # the slots of the new program are 0, 1, ... in the order of the ids
    x, y = solution.nonzeros, np.zeros(store.rows.size)
    y[rows] = solution.y
    order = np.argsort(slots[x.slot], kind="stable")
    x = SparseX(slots[x.slot][order], x.column[order], x.value[order])
    return basis_near(program, x, y)
