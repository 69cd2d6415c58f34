"""OR-Tools' LP solvers: GLOP (simplex), rebuilt every round, and PDLP, warm from the last solution.

``Glop`` makes a new model every round by the array interface of OR-Tools' model builder, which is OR-Tools'
fastest interface for whole models: 0.06 s for 189,000 columns. GLOP runs with its defaults: presolve, primal
simplex, one thread.

``Pdlp`` (Applegate et al. 2021, arXiv 2106.04756) takes scipy matrices and an initial solution: last round's
columns and row duals, zero for new ones.  Its stopping criterion is relative to the norms of all right-hand
sides, costs and objectives, so it sometimes accepts a solution outside copter's tolerance. If the certificate
misses the tolerance, PDLP continues from that solution at a third of the tolerance, at most eight times.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from copter.clock import Clock, check_for
from copter.extras import extra
from copter.native import run_apart
from copter.proof.pricing import price
from copter.solution import ColdStart, Start, Status
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.baseline import BASELINE, COLD, Baseline, BaselineAnswer, Layout
from copter.solvers.features import Feature
from copter.solvers.memory import LastX, LastY
from copter.solvers.settings import Setting, switch
from copter.store.allocation import dense_to_sparse
from copter.store.compiled import compile_program

with extra("baselines"):
    from ortools.linear_solver.python.model_builder_helper import (
        ModelBuilderHelper,
        ModelSolverHelper,
        SolveStatus,
    )
    from ortools.pdlp import solve_log_pb2, solvers_pb2
    from ortools.pdlp.python import pdlp

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_GLOP_STATUS = {
    SolveStatus.OPTIMAL: Status.OPTIMAL,
    SolveStatus.FEASIBLE: Status.DEADLINE,
    SolveStatus.NOT_SOLVED: Status.DEADLINE,
    SolveStatus.INFEASIBLE: Status.INFEASIBLE,
    SolveStatus.UNBOUNDED: Status.UNBOUNDED,
}
_PDLP_STATUS = {
    solve_log_pb2.TERMINATION_REASON_OPTIMAL: Status.OPTIMAL,
    solve_log_pb2.TERMINATION_REASON_PRIMAL_INFEASIBLE: Status.INFEASIBLE,
    solve_log_pb2.TERMINATION_REASON_DUAL_INFEASIBLE: Status.UNBOUNDED,
    solve_log_pb2.TERMINATION_REASON_PRIMAL_OR_DUAL_INFEASIBLE: Status.INFEASIBLE,
    solve_log_pb2.TERMINATION_REASON_TIME_LIMIT: Status.DEADLINE,
    solve_log_pb2.TERMINATION_REASON_ITERATION_LIMIT: Status.ITERATION_LIMIT,
    solve_log_pb2.TERMINATION_REASON_KKT_MATRIX_PASS_LIMIT: Status.ITERATION_LIMIT,
}
_TIGHTENINGS = 8
_SETUP = 1.5
"""Time of PDLP before its first iteration, as a multiple of the time for building its model."""
_SECONDS_A_NONZERO, _LOOK_SHARE = 1e-8, 0.03
"""Approximate seconds of a PDLP iteration per nonzero, and the time between two checks of its limit, as a
share of the limit.
"""
_GRACE = 0.02
"""Seconds by which GLOP may exceed its limit before its run is abandoned."""


class Glop(Baseline):
    """GLOP, with a new model every round.

    Its parameters are those of :class:`copter.solvers.baselines.baseline.Baseline`.
    """

    _of_one_round = ("_builder", "_box")

    def stopping(self) -> dict[str, float]:
        """Return GLOP's feasibility tolerances: its default of 1e-6, or the wanted one if it is smaller."""
        tolerance = min(1e-6, max(self.tolerance, 1e-10))
        return {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}

    def _load(self, program: ContinualProgram) -> Layout:
        watch = Stopwatch()
        compiled = compile_program(program)
        check_for(1.5 * watch())  # filling the model takes about as long, and cannot be interrupted
        self._take(compiled)
        return Layout.of(program)

    def _take(self, compiled: Any) -> None:
        self._box = compiled.lower, compiled.upper
        self._builder: Any = ModelBuilderHelper()  # Any: its stubs declare wrong numpy types
        self._builder.fill_model_from_sparse_data(
            compiled.lower,
            compiled.upper,
            compiled.c,
            compiled.row_lower,
            compiled.row_upper,
            compiled.A.tocsr(),
        )

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        solver = ModelSolverHelper("glop")
        if clock.left(reserve) < math.inf:
            solver.set_time_limit_in_seconds(clock.left(reserve))
        if self.tolerance < 1e-6:
            given = " ".join(f"{name}: {value}" for name, value in self.stopping().items())
            solver.set_solver_specific_parameters(given)
        builder = self._builder

        def work() -> float:
            watch = Stopwatch()
            solver.solve(builder)
            return watch()

        seconds = run_apart(work, clock, reserve=reserve - _GRACE, stop=solver.interrupt_solve)
        word = solver.status()
        status = _GLOP_STATUS.get(word, Status.NUMERICAL_ERROR)
        x = dual = None
        if solver.has_solution():
            x, dual = np.clip(solver.variable_values(), *self._box), np.array(solver.dual_values())
        return BaselineAnswer(status, f"GLOP: {word.name.lower()}", x, dual, details={"seconds": seconds})


class Pdlp(Baseline):
    """PDLP, warm-started.

    `**common`: ``tolerance``, ``time_limit``, ``threads`` of
    :class:`copter.solvers.baselines.baseline.Baseline`.
    """

    features = (BASELINE | Feature.WARM_START | Feature.THREADS) & ~Feature.CANCEL  # it holds the GIL
    warm_start = Setting(switch)

    def __init__(self, name: str, *, warm_start: bool = True, **common: Any) -> None:
        super().__init__(name, **common)
        self.warm_start = warm_start
        self._memory: tuple[LastX, LastY] | None = None
        self._program: ContinualProgram | None = None

    _of_one_round = ("_program", "_layout", "_compiled", "_qp", "_begin", "_warm")

    def reset(self) -> None:
        """Forget everything about earlier rounds."""
        super().reset()
        self._memory = None

    def _load(self, program: ContinualProgram) -> Layout:
        watch = Stopwatch()
        compiled = compile_program(program)
        check_for(watch())
        self._take(compiled)
        self._program, self._layout = program, Layout.of(program)
        if not self.warm_start:
            self._warm = ColdStart.SWITCHED_OFF.start()
        elif self._memory is None or self._memory[0].program is not program:
            self._warm = (ColdStart.FIRST_ROUND if self._memory is None else ColdStart.OTHER_PROGRAM).start()
        else:
            self._begin = self._recalled(program, *self._memory)
            self._warm = Start(True, "last round's columns and prices")
        self._edit = watch()
        return self._layout

    def _take(self, compiled: Any) -> None:
        self._compiled, self._program, self._edit = compiled, None, 0.0
        qp = self._qp = pdlp.QuadraticProgram()
        qp.objective_vector = compiled.c
        qp.constraint_matrix = csc_matrix(compiled.A)
        qp.constraint_lower_bounds, qp.constraint_upper_bounds = compiled.row_lower, compiled.row_upper
        qp.variable_lower_bounds, qp.variable_upper_bounds = compiled.lower, compiled.upper
        self._begin, self._warm = None, COLD

    def _tightenings(self) -> int:
        return _TIGHTENINGS

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        tolerance, left = self.tolerance * tighter, clock.left(reserve)
        # PDLP holds the GIL: only its own limit ends it, which it checks between iterations.
        check_for(_SETUP * self._edit)
        left = max(0.0, left - _SETUP * self._edit)
        parameters = self._parameters(tolerance, None if left == math.inf else left)
        watch = Stopwatch()
        result = pdlp.primal_dual_hybrid_gradient(self._qp, parameters, self._begin)
        seconds = watch()
        report = result.solve_log
        iterations = int(report.iteration_count)
        status = _PDLP_STATUS.get(report.termination_reason, Status.NUMERICAL_ERROR)
        x = np.clip(result.primal_solution, self._compiled.lower, self._compiled.upper)
        dual = result.dual_solution
        self._begin = _start(result.primal_solution, dual)
        word = solve_log_pb2.TerminationReason.Name(report.termination_reason)
        reason = f"PDLP: {word.removeprefix('TERMINATION_REASON_').lower()}"
        if status in (Status.INFEASIBLE, Status.UNBOUNDED):
            x = dual = None  # PDLP returned a ray, not a solution
            self._memory = None
        elif self._program is not None:
            y, layout = np.zeros(self._program.store.rows.size), self._layout
            y[layout.row_slots] = -dual[layout.rows]
            sparse = dense_to_sparse(layout.slots, layout.sizes, x)
            self._memory = LastX.of(self._program, sparse), LastY.of(self._program, y)
        details = {"seconds": seconds, "own_tolerance": tolerance}
        return BaselineAnswer(status, reason, x, dual, iterations, self._warm, details)

    def _recalled(self, program: ContinualProgram, last_x: LastX, last_y: LastY) -> Any:
        """Return the last round's columns and prices as an initial solution, with 0 for new ones.

        The dual of a request's total is its marginal value at these prices.
        """
        layout, compiled, x, y = self._layout, self._compiled, last_x.surviving(), last_y.surviving()
        begin = np.zeros(program.store.requests.size, np.int64)
        begin[layout.slots] = np.cumsum(layout.sizes) - layout.sizes
        values, dual = np.zeros(compiled.c.size), np.zeros(compiled.row_lower.size)
        values[begin[x.slot] + x.column] = x.value
        dual[layout.rows] = -y[layout.row_slots]
        summed = compiled.sum_row >= 0
        marginal = price(program.store, y).marginal[layout.slots[summed]]
        dual[compiled.sum_row[summed]] = marginal
        return _start(values, dual)

    def _parameters(self, tolerance: float, limit: float | None) -> Any:
        parameters = solvers_pb2.PrimalDualHybridGradientParams()
        wanted = parameters.termination_criteria.detailed_optimality_criteria
        wanted.eps_optimal_primal_residual_absolute = tolerance
        wanted.eps_optimal_primal_residual_relative = tolerance
        wanted.eps_optimal_dual_residual_absolute = tolerance
        wanted.eps_optimal_dual_residual_relative = tolerance
        # PDLP's gap is relative to |primal| + |dual|, copter's to |primal| alone.
        wanted.eps_optimal_objective_gap_absolute = tolerance
        wanted.eps_optimal_objective_gap_relative = tolerance / 2
        if limit is not None:
            parameters.termination_criteria.time_sec_limit = limit
            iteration = _SECONDS_A_NONZERO * max(1, self._compiled.A.nnz)
            looks = int(_LOOK_SHARE * limit / iteration)
            parameters.termination_check_frequency = min(
                max(1, looks), parameters.termination_check_frequency
            )
        if self.threads is not None:
            parameters.num_threads = self.threads
        return parameters


def _start(x: NDArray[np.float64], dual: NDArray[np.float64]) -> Any:
    begin = pdlp.PrimalAndDualSolution()
    begin.primal_solution, begin.dual_solution = x, dual
    return begin
