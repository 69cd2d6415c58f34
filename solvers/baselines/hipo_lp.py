"""HiPO, the interior-point solver of HiGHS with a factorization of its own, in a separate environment.

HiPO needs the package ``highspy-extras``, which exists for HiGHS 1.15.1 but not for the later version that
copter requires.  So it runs in another interpreter (:mod:`copter.solvers.baselines.other_python`), in which
:mod:`copter.solvers.baselines.hipo_worker` answers the requests.  HiPO runs without crossover, as columns
and prices at the wanted tolerance suffice, and from nothing in every round, because it has no warm start.
Presolve is on.

The seconds of a round are those that the worker measures around the calls of HiGHS.  The transfer of the
model to the other process is not timed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.clock import Clock, Interrupted
from copter.solution import Solution, Status
from copter.solvers.baselines.baseline import BASELINE, Baseline, BaselineAnswer, Layout
from copter.solvers.baselines.other_python import OtherPython
from copter.solvers.features import Feature
from copter.solvers.settings import Setting
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_TIGHTENINGS = 8
_GRACE, _TRANSFER = 1.5, 60.0
"""Time to wait for a worker's answer: a multiple of its time limit, and seconds for the transfer."""
_STATUS = {
    "kOptimal": Status.OPTIMAL,
    "kModelEmpty": Status.OPTIMAL,
    "kInfeasible": Status.INFEASIBLE,
    "kUnbounded": Status.UNBOUNDED,
    "kUnboundedOrInfeasible": Status.INFEASIBLE,
    "kTimeLimit": Status.DEADLINE,
    "kIterationLimit": Status.ITERATION_LIMIT,
}


class Hipo(Baseline):
    """HiPO, with a new model in every round.

    If the optimum is not within the wanted tolerance, HiPO runs again at a third of its tolerance, at most
    eight times and while time is left.

    Parameters
    ----------
    python : Path
        Interpreter of an environment with highspy and highspy-extras.
    **common
        ``tolerance``, ``deadline``, ``threads`` of :class:`copter.solvers.baselines.baseline.Baseline`; the
        deadline applies to edit and solve separately.
    """

    features = BASELINE & ~Feature.CANCEL | Feature.THREADS
    python = Setting(Path)
    _of_one_round = ("_worker", "_upper", "_edit_seconds", "_spent")

    def __init__(self, name: str, *, python: Path = Path("python"), **common: Any) -> None:
        super().__init__(name, **common)
        self.python = python
        self._worker: OtherPython | None = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_worker": None}

    def stopping(self) -> dict[str, float]:
        """Return the tolerance that HiPO gets."""
        return {"ipm_optimality_tolerance": self._tolerance(1.0)}

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Return the seconds that the worker reports, without the transfer of the model."""
        return self._edit_seconds, solution.timings.solve

    def _tolerance(self, tighter: float) -> float:
        return float(np.clip(self.tolerance * tighter, 1e-12, 1e-4))

    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        self._edit_seconds, self._spent = 0.0, 0.0
        return super()._solve(program, Clock())  # without a limit: edit and solve have a deadline each

    @property
    def _limit(self) -> float:
        return math.inf if self.deadline is None else self.deadline

    def _ask(self, request: str, values: dict[str, Any], limit: float) -> dict[str, Any]:
        assert self._worker is not None
        return self._worker.ask(request, values, None if math.isinf(limit) else _GRACE * limit + _TRANSFER)

    def _load(self, program: ContinualProgram) -> Layout:
        if self._worker is None or self._worker.ended:
            script = Path(__file__).with_name("hipo_worker.py")
            self._worker = OtherPython(self.python, script, "HiPO", arguments=(str(self.threads or 1),))
        compiled = compile_program(program)
        A, self._upper = compiled.A, compiled.upper
        arrays = {name: getattr(compiled, name) for name in ("c", "lower", "upper", "row_lower", "row_upper")}
        arrays |= {"indptr": A.indptr, "indices": A.indices, "data": A.data}
        self._edit_seconds = float(self._ask("load", arrays, self._limit)["seconds"])
        return Layout.of(program)

    def _tightenings(self) -> int:
        return _TIGHTENINGS

    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        left = max(0.0, self._limit - self._spent)
        values = {"tolerance": self._tolerance(tighter), "limit": None if math.isinf(left) else left}
        try:
            found = self._ask("run", values, left)
        except Interrupted:
            return BaselineAnswer(Status.DEADLINE, "HiPO: deadline", details={"seconds": left})
        self._spent += found["seconds"]
        status = _STATUS.get(found["status"], Status.NUMERICAL_ERROR)
        x, dual = found.get("x"), found.get("dual")
        return BaselineAnswer(
            status,
            f"HiPO: {found['status'].removeprefix('k').lower()}",
            None if x is None else np.clip(x, 0.0, self._upper),
            dual,
            found["iterations"],
            details={"seconds": found["seconds"]},
        )
