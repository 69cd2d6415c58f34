"""HiGHS with the model rebuilt every round: simplex, interior point, PDLP, branch and bound.

How each is run, and why:

``simplex``
    Primal simplex if x = 0 is feasible and there are many more columns than rows, dual simplex if not
    (:func:`fitting_strategy`; HiGHS' own default is always dual).  Presolve on, feasibility tolerances 1e-7
    (HiGHS' defaults) or the wanted one if it is smaller.
``ipm``
    Interior point without crossover: prices and columns at the wanted tolerance are all that is asked, and
    crossover only adds time.
``pdlp``
    First-order method, cold, at half the wanted tolerance: its gap is relative to |primal| + |dual|, ours to
    |primal| alone.  It judges rows and costs by the norms of all of them, the certificate each in its own
    scale: like interior point it is run again at a third of its tolerance, at most eight times and while
    there is time, if its optimum is not within the wanted one.
``milp``
    Branch and bound over the requests that want an integral allocation, to a relative gap or until the
    deadline.  Its point counts as proven only if it keeps all rows exactly, and numbers are not too far apart
    for its tolerances.  It has no prices: those of the LP relaxation certify it, found by simplex afterwards.
    That is no part of its measured time, but of its deadline: a quarter of what is left of that is kept for
    it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted, check_for
from copter.models.arrays import flat_lp
from copter.models.highs import Engine, check, iterations_of, load, point_of, run_until, set_option, status_of
from copter.proof.integer import IntegerProof, gap_between
from copter.solution import Start, Status
from copter.solvers.apart import ProcessDied, call_apart
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.baseline import BASELINE, COLD, Baseline, BaselineAnswer, Layout
from copter.solvers.exact.certain import completed
from copter.solvers.exact.checks import WILD, keeps, wild
from copter.solvers.features import Feature
from copter.solvers.milp import MilpAnswer, MilpEffort, read_answer, run_milp
from copter.solvers.settings import Setting, one_of, share_or_nothing, switch
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.certificate import Certificate
    from copter.store.compiled import CompiledProgram

WIDE = 20
"""Columns a row from which on a program counts as wide."""
_TIGHTENINGS = 8
_TIGHTENED = {"ipm": ("ipm_optimality_tolerance", 1e-12), "pdlp": ("kkt_tolerance", 1e-10)}
"""Option with the tolerance of a method, and the least that it may be."""
_MIP_FEASIBILITY = 1e-6
"""Default feasibility tolerance of branch and bound."""
_CLOSED = 1e-8
"""Gap that counts as none: branch and bound stops at an absolute one of 1e-6 in any case."""
_RELAXATION_SHARE = 0.25
STRATEGIES = {"choose": 0, "dual": 1, "primal": 4}


def simplex_options(tolerance: float, strategy: str) -> dict[str, Any]:
    """Return options of HiGHS' simplex, whose least tolerance is 1e-10, for a key of ``STRATEGIES``."""
    feasibility = float(np.clip(tolerance, 1e-10, 1e-7))
    return {
        "solver": "simplex",
        "simplex_strategy": STRATEGIES[strategy],
        "primal_feasibility_tolerance": feasibility,
        "dual_feasibility_tolerance": feasibility,
    }


def fitting_strategy(n: int, row_lower: NDArray[np.float64], row_upper: NDArray[np.float64]) -> str:
    """Return the kind of simplex that suits a program of ``n`` columns better, from a cold start.

    Measured with HiGHS 1.13.1, one thread, primal against dual: Sia, 189,000 columns by 307 rows, 2.6 s
    against 15 s; traffic engineering, 16,000 by 8,200, 26 s against 5 s; shard balancing, 131,072 by 1,280
    with equalities, 3.7 s against 1.2 s.
    """
    zero_feasible = bool(((row_lower <= 0) & (row_upper >= 0)).all())
    return "primal" if zero_feasible and n >= WIDE * row_lower.size else "dual"


class HighsRebuild(Baseline):
    """HiGHS from scratch every round.

    Parameters
    ----------
    strategy : "auto", "choose", "dual" or "primal"
        Kind of simplex; "choose" is HiGHS' own choice by feasibility of the slack basis.
    crossover : bool
        Whether interior point goes on to a vertex.
    mip_gap : float
        Relative gap at which branch and bound stops.
    isolated : bool
        Run branch and bound in a process of its own, which may die.
    **common
        ``tolerance``, ``deadline``, ``threads`` of :class:`copter.solvers.baselines.baseline.Baseline`.
    """

    method = Setting(one_of("simplex", "ipm", "pdlp", "milp"))
    strategy = Setting(one_of("auto", *STRATEGIES))
    crossover = Setting(switch)
    mip_gap = Setting(share_or_nothing)
    isolated = Setting(switch)

    def __init__(
        self,
        name: str,
        *,
        method: Literal["simplex", "ipm", "pdlp", "milp"] = "simplex",
        strategy: Literal["auto", "choose", "dual", "primal"] = "auto",
        crossover: bool = False,
        mip_gap: float = 1e-4,
        isolated: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(name, **common)
        self.method = method
        self.strategy = strategy
        self.crossover = crossover
        self.mip_gap = mip_gap
        self.isolated = isolated

    @property
    def features(self) -> Feature:
        """Features of the solver; integrality by branch and bound only."""
        own = BASELINE | Feature.THREADS
        return own | Feature.INTEGRALITY if self.method == "milp" else own

    _of_one_round = ("_compiled", "_highs")

    def stopping(self) -> dict[str, float]:
        """Tolerances and gap that HiGHS is given."""
        options = simplex_options(self.tolerance, "choose") if self.method == "simplex" else self._options()
        return {name: value for name, value in options.items() if name.endswith(("tolerance", "gap"))}

    def _load(self, program: ContinualProgram) -> Layout:
        watch = Stopwatch()
        self._compiled = compile_program(program)
        check_for(watch())  # HiGHS takes it in one piece
        kinds = self._compiled.integrality.astype(np.int32) if self.method == "milp" else None
        self._highs = load(self._compiled, self.threads, kinds=kinds, **self._options())
        return Layout.of(program)

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
        strategy: str = self.strategy
        if strategy == "auto":
            strategy = fitting_strategy(compiled.c.size, compiled.row_lower, compiled.row_upper)
        return simplex_options(self.tolerance, strategy)

    def _tightenings(self) -> int:
        return _TIGHTENINGS if self.method in ("ipm", "pdlp") else 0

    def _accepts(self, certificate: Certificate) -> bool:
        if self.method != "milp":
            return super()._accepts(certificate)
        # its gap is branch and bound's
        return certificate.relative.primal <= max(self.tolerance, _MIP_FEASIBILITY)

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        highs, compiled, left = self._highs, self._compiled, reserve
        if self.method in _TIGHTENED:
            option, least = _TIGHTENED[self.method]
            set_option(highs, option, max(self._options()[option] * tighter, least))
            check(highs.clearSolver(), "clearing the solver")
        if self.method == "milp" and clock.left() < math.inf:
            reserve += _RELAXATION_SHARE * clock.left(reserve)
        if self.method == "milp" and self.isolated:
            return self._run_apart(clock, reserve, left)
        seconds = run_until(highs, clock, reserve)
        if self.method == "milp":
            found = read_answer(highs, whole=bool(compiled.integrality.any()))
            return self._integral(found, seconds, clock, left)
        return outcome_of(highs, status_of(highs), compiled.upper, seconds)

    def _run_apart(self, clock: Clock, reserve: float, left: float) -> BaselineAnswer:
        """Branch and bound in a process of its own."""
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
        """Branch and bound's answer, judged exactly."""
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
                    f"{reason}, to tolerances that are too wide for these numbers",
                )
        details = {"seconds": seconds, "mip_gap": found.gap, "mip_bound": found.bound if known else -math.inf}
        return BaselineAnswer(status, reason, x, dual, found.nodes, details=details)

    def _proof(
        self, program: ContinualProgram, outcome: BaselineAnswer, proof: Certificate
    ) -> IntegerProof | None:
        """HiGHS' own bound, and the gap to it, if its point keeps all rows."""
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
        """Row duals of the LP relaxation, as good as they are when time is up; None if it is given up."""
        highs = load(self._compiled, self.threads, **self._simplex_options())
        try:
            run_until(highs, clock, reserve)
        except Interrupted:
            return None
        _, y = point_of(highs)
        return None if y is None else -y


def outcome_of(
    highs: Engine,
    ended: tuple[Status, str],
    upper: NDArray[np.float64],
    seconds: float,
    warm: Start = COLD,
) -> BaselineAnswer:
    """Return what a run that ended in some way found, its columns moved into their bounds."""
    x, y = point_of(highs)
    return BaselineAnswer(
        *ended,
        None if x is None else np.clip(x, 0.0, upper),
        None if y is None else -y,
        iterations_of(highs)[0],
        warm,
        {"seconds": seconds},
    )


def _branch_and_bound(
    compiled: CompiledProgram, gap: float, seconds: float, threads: int | None
) -> tuple[MilpAnswer, MilpEffort]:
    """Run branch and bound, called in a process of its own."""
    deadline = None if seconds == math.inf else seconds
    return run_milp(compiled, compiled.integrality, mip_gap=gap, deadline=deadline, threads=threads)
