"""Worker of :mod:`copter.solvers.baselines.dede_lp`, in the environment of the package dede.

The file does not import copter, which is not installed in that environment
(:mod:`copter.solvers.baselines.other_python`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix


class Worker:
    """A problem of DeDe and the arrays from which it was built."""

    def __init__(self, cpus: str) -> None:
        self.cpus = int(cpus)
        self.data: dict[str, NDArray[Any]] = {}
        self.problem: Any = None
        self.x: Any = None
        self.parameters: dict[str, Any] = {}

    def load(self, **data: NDArray[Any]) -> dict[str, Any]:
        """Load min c'x, lower <= A x <= upper, sums of the groups <= or == total, 0 <= x; return the seconds.

        The caller scales columns, rows and costs.  If only right-hand sides changed since the last load, the
        problem is kept and continues from its last iterate.
        """
        begin = time.perf_counter()
        fixed = ("c", "data", "indices", "indptr", "start", "equal")
        kept = bool(self.data) and all(np.array_equal(self.data[name], data[name]) for name in fixed)
        self.data = data
        if not kept:
            self._build()
        for name, parameter in self.parameters.items():
            parameter.value = _finite(data[name])
        # this starts Ray and compiles the subproblem of each resource and demand
        self.problem.solve(num_cpus=self.cpus, num_iter=0)
        return {"seconds": time.perf_counter() - begin, "kept": kept}

    def _build(self) -> None:
        import dede

        data = self.data
        c, start, n, m = data["c"], data["start"], data["c"].size, data["upper"].size
        A = csr_matrix((data["data"], data["indices"], data["indptr"]), shape=(m, n))
        x = self.x = dede.Variable(n, nonneg=True)
        bounds = ("lower", "upper", "total")
        given = self.parameters = {
            name: dede.Parameter(data[name].size, value=_finite(data[name])) for name in bounds
        }
        resources = []
        for row in range(m):
            some = A.indices[A.indptr[row] : A.indptr[row + 1]]
            values = A.data[A.indptr[row] : A.indptr[row + 1]]
            if some.size and np.isfinite(data["upper"][row]):
                resources.append(values @ x[some] <= given["upper"][row])
            if some.size and np.isfinite(data["lower"][row]):
                resources.append(-values @ x[some] <= -given["lower"][row])
        free = np.flatnonzero(np.bincount(A.indices, minlength=n) == 0)
        if free.size:  # DeDe only handles columns that occur in a resource
            resources.append(dede.sum(x[free]) <= float(free.size))
        demands: list[Any] = []
        costs: Any = 0
        for q in range(start.size - 1):
            mine = np.arange(start[q], start[q + 1])
            left, right = dede.sum(x[mine]), given["total"][q]
            demands.append(left == right if data["equal"][q] else left <= right)
            if np.any(c[mine]):
                costs = costs + c[mine] @ x[mine]
        self.problem = dede.Problem(dede.Minimize(costs), resources, demands)

    def iterate(self, count: int | None) -> dict[str, Any]:
        """Run `count` iterations, or until DeDe stops if None; return x and the seconds.

        x is the demands' copy of the columns, which satisfies the demands' constraints.
        """
        begin = time.perf_counter()
        self.problem.solve(num_cpus=self.cpus, num_iter=count)
        seconds = time.perf_counter() - begin
        import ray

        x = np.zeros(self.data["c"].size)
        where = [ray.get(prob.get_solution_idx_d.remote()) for prob in self.problem._subprob_cache.probs]
        flat = [place for each in where for place in each]
        mine = np.array([variable == self.x.id for variable, _ in flat])
        positions = np.array([position for _, position in flat])
        x[positions[mine]] = np.asarray(self.problem.sol_d)[mine]
        return {"x": x, "seconds": seconds}


def _finite(bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(bounds), bounds, 0.0)
