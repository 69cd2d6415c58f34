"""HiGHS with the model rebuilt every round: simplex, interior point, PDLP, branch and bound.

Settings of each method:

``simplex``
    Primal simplex if x = 0 is feasible and there are many more columns than rows, otherwise dual simplex
    (:func:`fitting_strategy`; HiGHS' default is always dual).  Presolve is on. The feasibility tolerances are
    1e-7 (HiGHS' default), or the wanted tolerance if it is smaller.
``ipm``
    Interior point without crossover: prices and columns at the wanted tolerance suffice, and crossover takes
    additional time.
``pdlp``
    First-order method, cold, at half the wanted tolerance: its gap is relative to |primal| + |dual|, and
    copter's to |primal| alone.
``milp``
    Branch and bound over the requests that want an integral allocation, to a relative gap or until the
    deadline.  A bound counts only if the point satisfies all rows exactly and the range of the coefficients
    is not too wide for HiGHS' tolerances.  Branch and bound returns no prices. The certificate uses those of
    the LP relaxation, which simplex solves afterwards.  The measured time excludes the relaxation, but the
    deadline includes it: a quarter of the remaining time is reserved for it.

HiGHS' interior point and PDLP measure rows and costs by norms over all of them. The certificate measures each
row and cost in its own scale. So these methods run again at a third of the tolerance if the optimum is not
within the wanted tolerance, at most eight times and while time is left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted, check_for
from copter.models.arrays import flat_lp
from copter.models.highs import HighsEngine, check
from copter.models.highs_lp import HighsLP
from copter.proof.integer import IntegerProof, gap_between
from copter.solution import Start, Status
from copter.solvers.apart import ProcessDied, call_apart
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.baseline import BASELINE, COLD, Baseline, BaselineAnswer, Layout
from copter.solvers.exact.certain import completed
from copter.solvers.exact.checks import WILD, keeps, wild
from copter.solvers.features import Feature
from copter.solvers.general.integer import solve_integer
from copter.solvers.highs_kept import simplex_options
from copter.solvers.milp import MilpAnswer, MilpEffort, read_answer, run_milp
from copter.solvers.settings import Setting, one_of, share_or_nothing, switch
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.certificate import Certificate
    from copter.store.compiled import CompiledProgram

WIDE = 20
"""Number of columns per row from which on a program counts as wide."""
_TIGHTENINGS = 8
_TIGHTENED = {"ipm": ("ipm_optimality_tolerance", 1e-12), "pdlp": ("kkt_tolerance", 1e-10)}
"""For each method its tolerance option, and the smallest value of that option."""
_MIP_FEASIBILITY = 1e-6
"""Default feasibility tolerance of branch and bound."""
_CLOSED = 1e-8
"""Gap that counts as closed: branch and bound always stops at an absolute gap of 1e-6."""
_RELAXATION_SHARE = 0.25
"""Share of the remaining time that is reserved for the relaxation after branch and bound."""


def fitting_strategy(n: int, row_lower: NDArray[np.float64], row_upper: NDArray[np.float64]) -> str:
    """Return the simplex strategy that is faster for a program of ``n`` columns from a cold start.

    Measured with HiGHS 1.13.1, one thread, primal against dual: Sia, 189,000 columns by 307 rows, 2.6 s
    against 15 s; traffic engineering, 16,000 by 8,200, 26 s against 5 s; shard balancing, 131,072 by 1,280
    with equalities, 3.7 s against 1.2 s.
    """
    zero_feasible = bool(((row_lower <= 0) & (row_upper >= 0)).all())
    return "primal" if zero_feasible and n >= WIDE * row_lower.size else "dual"


class HighsRebuild(Baseline):
    """HiGHS, with a new model in every round.

    Parameters
    ----------
    method : "simplex", "ipm", "pdlp" or "milp"
        Algorithm.
    crossover : bool
        True to continue from the interior point to a vertex.
    mip_gap : float
        Relative gap at which branch and bound stops.
    isolated : bool
        True to run branch and bound in a separate process, so that a crash does not end the caller.
    **common
        ``tolerance``, ``time_limit``, ``threads`` of :class:`copter.solvers.baselines.baseline.Baseline`.
    """

    method = Setting(one_of("simplex", "ipm", "pdlp", "milp"))
    crossover = Setting(switch)
    mip_gap = Setting(share_or_nothing)
    isolated = Setting(switch)

    def __init__(
        self,
        name: str,
        *,
        method: Literal["simplex", "ipm", "pdlp", "milp"] = "simplex",
        crossover: bool = False,
        mip_gap: float = 1e-4,
        isolated: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(name, **common)
        self.method = method
        self.crossover = crossover
        self.mip_gap = mip_gap
        self.isolated = isolated

    @property
    def features(self) -> Feature:
        """Features of the solver; INTEGRALITY only with branch and bound."""
        own = BASELINE | Feature.THREADS
        return own | Feature.INTEGRALITY if self.method == "milp" else own

    _of_one_round = ("_compiled", "_highs")

    def stopping(self) -> dict[str, float]:
        """Return the tolerances and the gap that HiGHS gets."""
        options = simplex_options(self.tolerance, "choose") if self.method == "simplex" else self._options()
        return {name: value for name, value in options.items() if name.endswith(("tolerance", "gap"))}

    def _load(self, program: ContinualProgram) -> Layout:
        watch = Stopwatch()
        self._compiled = compile_program(program)
        check_for(watch())  # HiGHS' copy of the model takes about as long, and cannot be interrupted
        kinds = self._compiled.integrality.astype(np.int32) if self.method == "milp" else None
        self._highs = HighsEngine.loaded(self._compiled, self.threads, kinds=kinds, **self._options())
        return Layout.of(program)

    def _solve_model(self, model: Any, clock: Clock) -> Any:
        """Solve a :class:`~copter.Model` cold; only branch and bound regards integrality."""
        lp = model.lp
        if self.method == "milp" and (lp.integral.any() or lp.semi is not None):
            found = solve_integer(lp, self.mip_gap, clock, threads=self.threads)
            return model.integer_solution(found, solver=self.name)
        options = {"solver": "simplex"} if self.method in ("simplex", "milp") else self._options()
        answer = HighsLP(lp, self.threads, options).solve(self.tolerance, clock)
        return model.solution(answer, solver=self.name)

    def _options(self) -> dict[str, Any]:
        if self.method == "simplex":
            return self._simplex_options()
        if self.method == "ipm":
            return {
                "solver": "ipm",
                "run_crossover": "on" if self.crossover else "off",
                "ipm_optimality_tolerance": float(np.clip(self.tolerance, 1e-12, 1e-4)),
            }
        if self.method == "pdlp":
            return {"solver": "pdlp", "kkt_tolerance": float(np.clip(self.tolerance / 2, 1e-10, 1e-4))}
        return {"mip_rel_gap": self.mip_gap}

    def _simplex_options(self) -> dict[str, Any]:
        compiled = self._compiled
        strategy = fitting_strategy(compiled.c.size, compiled.row_lower, compiled.row_upper)
        return simplex_options(self.tolerance, strategy)

    def _tightenings(self) -> int:
        return _TIGHTENINGS if self.method in ("ipm", "pdlp") else 0

    def _accepts(self, certificate: Certificate) -> bool:
        if self.method != "milp":
            return super()._accepts(certificate)
        # the gap that counts is that of branch and bound
        return certificate.relative.primal <= max(self.tolerance, _MIP_FEASIBILITY)

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        highs, compiled, left = self._highs, self._compiled, reserve
        if self.method in _TIGHTENED:
            option, least = _TIGHTENED[self.method]
            highs.set_option(option, max(self._options()[option] * tighter, least))
            check(highs.clearSolver(), "clearing the solver")
        if self.method == "milp" and clock.left() < math.inf:
            reserve += _RELAXATION_SHARE * clock.left(reserve)
        if self.method == "milp" and self.isolated:
            return self._run_apart(clock, reserve, left)
        seconds = highs.run_until(clock, reserve)
        if self.method == "milp":
            found = read_answer(highs, whole=bool(compiled.integrality.any()))
            return self._integral(found, seconds, clock, left)
        return outcome_of(highs, highs.outcome(), compiled.upper, seconds)

    def _run_apart(self, clock: Clock, reserve: float, left: float) -> BaselineAnswer:
        """Run branch and bound in a separate process."""
        compiled, watch = self._compiled, Stopwatch()
        seconds = clock.left(reserve)
        try:
            found, effort = call_apart(
                _branch_and_bound, compiled, self.mip_gap, seconds, self.threads, clock=clock
            )
        except ProcessDied as died:
            return BaselineAnswer(
                Status.NUMERICAL_ERROR, str(died), None, None, 0, details={"seconds": watch()}
            )
        return self._integral(found, effort.seconds, clock, left)

    def _integral(self, found: MilpAnswer, seconds: float, clock: Clock, left: float) -> BaselineAnswer:
        """Check branch and bound's answer in exact arithmetic and add the relaxation's duals."""
        compiled = self._compiled
        lp = flat_lp(compiled)
        x, status, reason, dual, known = None, found.status, found.reason, None, True
        if found.x is not None:
            x = np.clip(found.x, compiled.lower, compiled.upper)
            x = np.where(compiled.integrality, np.rint(x), x)
            if not keeps(lp, x):
                better = completed(lp, x)
                x, known = (x, False) if better is None else (better, True)
            dual = self._relaxation_dual(clock, left)
        if compiled.integrality.any() and (not known or wild(lp, WILD)):
            known = False
            if status in (Status.OPTIMAL, Status.INFEASIBLE):
                status, reason = (
                    Status.UNPROVED,
                    f"{reason}, but HiGHS' tolerances are too wide for the range of the coefficients",
                )
        details = {"seconds": seconds, "mip_gap": found.gap, "mip_bound": found.bound if known else -math.inf}
        return BaselineAnswer(status, reason, x, dual, found.nodes, details=details)

    def _proof(
        self, program: ContinualProgram, outcome: BaselineAnswer, proof: Certificate
    ) -> IntegerProof | None:
        """Return the proof by HiGHS' bound; None if the bound does not count or there is no point."""
        if self.method != "milp" or outcome.x is None or outcome.details["mip_bound"] == -math.inf:
            return None
        bound, columns = outcome.details["mip_bound"], program.n_variables
        size = proof.gap_denominator
        gap = gap_between(proof.objective, bound, size)
        return IntegerProof(
            bound=bound,
            gap=gap,
            proven=gap <= _CLOSED,
            reason=outcome.reason,
            columns=columns,
            columns_left=columns,
            runs=1,
            nodes=outcome.iterations,
            seconds=outcome.details["seconds"],
        )

    def _relaxation_dual(self, clock: Clock, reserve: float) -> NDArray[np.float64] | None:
        """Return row duals of the LP relaxation at the optimum or at the deadline; None if abandoned."""
        highs = HighsEngine.loaded(self._compiled, self.threads, **self._simplex_options())
        try:
            highs.run_until(clock, reserve)
        except Interrupted:
            return None
        _, y = highs.point()
        return None if y is None else -y


def outcome_of(
    highs: HighsEngine,
    ended: tuple[Status, str],
    upper: NDArray[np.float64],
    seconds: float,
    warm: Start = COLD,
) -> BaselineAnswer:
    """Return the result of a run, with columns clipped to their bounds."""
    x, y = highs.point()
    return BaselineAnswer(
        *ended,
        None if x is None else np.clip(x, 0.0, upper),
        None if y is None else -y,
        highs.iterations()[0],
        warm,
        {"seconds": seconds},
    )


def _branch_and_bound(
    compiled: CompiledProgram, gap: float, seconds: float, threads: int | None
) -> tuple[MilpAnswer, MilpEffort]:
    """Run branch and bound; this function is the entry point of the separate process."""
    time_limit = None if seconds == math.inf else seconds
    return run_milp(compiled, compiled.integrality, mip_gap=gap, time_limit=time_limit, threads=threads)
