"""HiGHS with its solver HiPO in another Python environment, for :mod:`copter.solvers.baselines.hipo_lp`.

The file does not import copter, which is not installed in that environment.
"""

from __future__ import annotations

import time
from typing import Any

import highspy
import numpy as np


class Worker:
    """One model of HiGHS at a time.

    `threads`: number of threads.
    """

    def __init__(self, threads: str) -> None:
        self._highs = highspy.Highs()
        self._set("output_flag", False)
        self._set("threads", int(threads))
        self._set("solver", "hipo")
        self._set("run_crossover", "off")

    def load(self, **lp: Any) -> dict[str, Any]:
        """Pass a model; `seconds` of the answer is the time of the call of HiGHS."""
        n, m = lp["c"].size, lp["row_lower"].size
        begin = time.perf_counter()
        status = self._highs.passModel(
            n,
            m,
            lp["data"].size,
            int(highspy.MatrixFormat.kColwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            lp["c"],
            lp["lower"],
            lp["upper"],
            lp["row_lower"],
            lp["row_upper"],
            lp["indptr"],
            lp["indices"],
            lp["data"],
            np.zeros(n, np.int32),
        )
        if status == highspy.HighsStatus.kError:
            raise ValueError("HiGHS rejected the model")
        return {"seconds": time.perf_counter() - begin}

    def run(self, tolerance: float, limit: float | None) -> dict[str, Any]:
        """Run HiPO from nothing, and return columns, row duals, status and seconds."""
        highs = self._highs
        highs.clearSolver()
        self._set("ipm_optimality_tolerance", tolerance)
        self._set("time_limit", highspy.kHighsInf if limit is None else highs.getRunTime() + limit)
        begin = time.perf_counter()
        highs.run()
        seconds = time.perf_counter() - begin
        solution, found = highs.getSolution(), {"seconds": seconds, "status": highs.getModelStatus().name}
        found["iterations"] = int(highs.getInfo().ipm_iteration_count)
        if solution.value_valid and solution.dual_valid:
            found |= {"x": np.array(solution.col_value), "dual": np.array(solution.row_dual)}
        return found

    def _set(self, name: str, value: Any) -> None:
        if self._highs.setOptionValue(name, value) == highspy.HighsStatus.kError:
            raise ValueError(f"HiGHS {self._highs.version()} rejected the option {name} = {value}")
