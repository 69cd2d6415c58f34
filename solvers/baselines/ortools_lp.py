"""OR-Tools' LP solvers: GLOP (simplex), rebuilt every round, and PDLP, warm from the last round's answer.

``Glop`` goes through the array interface of OR-Tools' model builder, which is the cheapest way in: 0.06 s for
189,000 columns, against seconds for one Python object a column in MathOpt, whose incremental interface would
keep the basis.  GLOP runs with its own defaults: presolve, primal simplex, one thread.

``Pdlp`` (Applegate et al. 2021, arXiv 2106.04756) takes scipy matrices as they are and an initial solution:
last round's columns and row duals, zero for what is new.  Its own test is relative to the norm of all
right-hand sides, costs and objectives and so at times accepts what is not good enough; if the certificate
misses the tolerance, it goes on from there with a third of it, at most eight times.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, check_for
from copter.extras import extra
from copter.native import run_apart
from copter.solution import ColdStart, Start, Status
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.baseline import BASELINE, COLD, Baseline, BaselineAnswer, Layout
from copter.solvers.features import Feature
from copter.solvers.settings import Setting, switch
from copter.store.compiled import compile_program
from copter.store.store import slice_indices

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
"""Approximate time of an iteration of PDLP, and the share of its time after which it checks its limit."""
_GRACE = 0.02
"""Seconds by which GLOP may miss its limit before it is given up."""


class Glop(Baseline):
    """GLOP from scratch every round; parameters as :class:`copter.solvers.baselines.baseline.Baseline`."""

    _of_one_round = ("_builder", "_upper")

    def stopping(self) -> dict[str, float]:
        """Feasibility tolerance: GLOP's default of 1e-6, or the wanted one if it is smaller."""
        tolerance = min(1e-6, max(self.tolerance, 1e-10))
        return {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}

    def _load(self, program: ContinualProgram) -> Layout:
        watch = Stopwatch()
        compiled = compile_program(program)
        self._upper = compiled.upper
        check_for(1.5 * watch())  # it is filled in one piece
        self._builder: Any = ModelBuilderHelper()  # its stubs get numpy's types wrong
        self._builder.fill_model_from_sparse_data(
            compiled.lower,
            compiled.upper,
            compiled.c,
            compiled.row_lower,
            compiled.row_upper,
            compiled.A.tocsr(),
        )
        return Layout.of(program)

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
            x, dual = np.clip(solver.variable_values(), 0.0, self._upper), np.array(solver.dual_values())
        return BaselineAnswer(status, f"GLOP: {word.name.lower()}", x, dual, details={"seconds": seconds})


class Pdlp(Baseline):
    """PDLP, warm.

    `**common`: ``tolerance``, ``deadline``, ``threads`` of
    :class:`copter.solvers.baselines.baseline.Baseline`.
    """

    features = (BASELINE | Feature.WARM_START | Feature.THREADS) & ~Feature.CANCEL  # it keeps the GIL
    warm_start = Setting(switch)

    def __init__(self, name: str, *, warm_start: bool = True, **common: Any) -> None:
        super().__init__(name, **common)
        self.warm_start = warm_start
        self._memory: _Memory | None = None

    _of_one_round = ("_program", "_layout", "_compiled", "_qp", "_begin", "_warm")

    def reset(self) -> None:
        """Forget everything about earlier rounds."""
        super().reset()
        self._memory = None

    def _load(self, program: ContinualProgram) -> Layout:
        watch = Stopwatch()
        self._program, self._layout = program, Layout.of(program)
        self._compiled = compiled = compile_program(program)
        check_for(watch())
        qp = self._qp = pdlp.QuadraticProgram()
        qp.objective_vector = compiled.c
        qp.constraint_matrix = compiled.A
        qp.constraint_lower_bounds, qp.constraint_upper_bounds = compiled.row_lower, compiled.row_upper
        qp.variable_lower_bounds, qp.variable_upper_bounds = compiled.lower, compiled.upper
        self._begin, self._warm = None, COLD
        if not self.warm_start:
            self._warm = ColdStart.SWITCHED_OFF.start()
        elif self._memory is None or self._memory.program is not program:
            self._warm = (ColdStart.FIRST_ROUND if self._memory is None else ColdStart.OTHER_PROGRAM).start()
        else:
            self._begin = self._memory.recall(self._layout, compiled.sum_row, compiled.row_lower.size)
            self._warm = Start(True, "last round's columns and prices")
        self._edit = watch()
        return self._layout

    def _tightenings(self) -> int:
        return _TIGHTENINGS

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        tolerance, left = self.tolerance * tighter, clock.left(reserve)
        # It keeps the GIL: nothing ends it but its own limit, which it looks at between iterations only.
        check_for(_SETUP * self._edit)
        left = max(0.0, left - _SETUP * self._edit)
        parameters = self._parameters(tolerance, None if left == math.inf else left)
        watch = Stopwatch()
        result = pdlp.primal_dual_hybrid_gradient(self._qp, parameters, self._begin)
        seconds = watch()
        report = result.solve_log
        iterations = int(report.iteration_count)
        status = _PDLP_STATUS.get(report.termination_reason, Status.NUMERICAL_ERROR)
        x, dual = np.clip(result.primal_solution, 0.0, self._compiled.upper), result.dual_solution
        self._begin = _start(result.primal_solution, dual)
        word = solve_log_pb2.TerminationReason.Name(report.termination_reason)
        reason = f"PDLP: {word.removeprefix('TERMINATION_REASON_').lower()}"
        if status in (Status.INFEASIBLE, Status.UNBOUNDED):
            x = dual = None  # rays, not an answer
            self._memory = None
        else:
            self._memory = _Memory(self._program, self._layout, self._compiled.sum_row, x, dual)
        details = {"seconds": seconds, "own_tolerance": tolerance}
        return BaselineAnswer(status, reason, x, dual, iterations, self._warm, details)

    def _parameters(self, tolerance: float, limit: float | None) -> Any:
        parameters = solvers_pb2.PrimalDualHybridGradientParams()
        wanted = parameters.termination_criteria.detailed_optimality_criteria
        wanted.eps_optimal_primal_residual_absolute = tolerance
        wanted.eps_optimal_primal_residual_relative = tolerance
        wanted.eps_optimal_dual_residual_absolute = tolerance
        wanted.eps_optimal_dual_residual_relative = tolerance
        # PDLP's gap is relative to |primal| + |dual|, ours to |primal| alone.
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


class _Memory:
    """Last round's columns and duals, in the order of a layout, to be found again after edits.

    `sum_row` (k,): row of each request's total, -1 for none.
    """

    def __init__(
        self,
        program: ContinualProgram,
        layout: Layout,
        sum_row: NDArray[np.int64],
        x: NDArray[np.float64],
        dual: NDArray[np.float64],
    ) -> None:
        store = program.store
        self.program = program
        self._x, self._dual = x, dual
        table = store.requests
        self._generation = table.generation[: table.size].copy()
        self._row_generation = store.rows.generation[: store.rows.size].copy()
        self._start = np.zeros(table.size, np.int64)
        self._start[layout.slots] = np.cumsum(layout.sizes) - layout.sizes
        self._sum_row = np.full(table.size, -1)
        self._sum_row[layout.slots] = sum_row
        self._row = np.zeros(store.rows.size, np.int64)
        self._row[layout.row_slots] = layout.rows

    def recall(self, layout: Layout, sum_row: NDArray[np.int64], n_rows: int) -> Any:
        """Return an initial solution for a program of this layout: the last values, and 0 for new columns and
        rows.

        `sum_row` (k,): row of each request's total, -1 for none. `n_rows`: all rows, sum rows included.
        """
        store = self.program.store
        known = _unchanged(store.requests.generation, self._generation, layout.slots)
        x = np.zeros(int(layout.sizes.sum()))
        sizes, slots = layout.sizes[known], layout.slots[known]
        begin = (np.cumsum(layout.sizes) - layout.sizes)[known]
        x[slice_indices(begin, sizes)] = self._x[slice_indices(self._start[slots], sizes)]
        dual = np.zeros(n_rows)
        known_rows = _unchanged(store.rows.generation, self._row_generation, layout.row_slots)
        dual[layout.rows[known_rows]] = self._dual[self._row[layout.row_slots[known_rows]]]
        now, before = sum_row[known], self._sum_row[slots]
        both = (now >= 0) & (before >= 0)
        dual[now[both]] = self._dual[before[both]]
        return _start(x, dual)


def _unchanged(
    generation: NDArray[np.int64], before: NDArray[np.int64], slots: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether each slot holds what it held when the generation revisions were ``before``."""
    same = np.zeros(slots.size, np.bool_)
    old = slots < before.size
    same[old] = generation[slots[old]] == before[slots[old]]
    return same


def _start(x: NDArray[np.float64], dual: NDArray[np.float64]) -> Any:
    begin = pdlp.PrimalAndDualSolution()
    begin.primal_solution, begin.dual_solution = x, dual
    return begin
