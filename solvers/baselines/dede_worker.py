"""Worker process of :mod:`copter.solvers.baselines.dede_lp`, in the environment of the package dede.

The file does not import copter, which is not installed in that environment.  The worker reads one line of
JSON for each request from standard input and answers with one line; arrays are passed in npz files.

- ``{"ready": true}``: answers ``{}``.
- ``{"load": path}``: the program min c'x, lower <= A x <= upper, the sums of the groups <= or == total,
  0 <= x. The caller scales columns, rows and costs.  If only right-hand sides changed since the last load,
  the problem is kept and continues from its last iterate.  Answers the seconds.
- ``{"iterate": n or null, "x": path}``: runs n iterations, or until DeDe stops if null; writes x.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix


class _Worker:
    """A problem of DeDe and the arrays from which it was built."""

    def __init__(self, cpus: int) -> None:
        self.cpus = cpus
        self.data: dict[str, NDArray[Any]] = {}
        self.problem: Any = None
        self.x: Any = None
        self.parameters: dict[str, Any] = {}

    def load(self, path: str) -> dict[str, Any]:
        """Build the problem, or keep it if only right-hand sides changed, and set the right-hand sides."""
        begin = time.perf_counter()
        with np.load(path) as stored:
            data = {name: stored[name] for name in stored.files}
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

    def iterate(self, count: int | None, path: str) -> dict[str, Any]:
        """Run DeDe; x is the demands' copy of the columns, which satisfies the demands' constraints."""
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
        np.savez(path, x=x)
        return {"seconds": seconds}


def _finite(bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(bounds), bounds, 0.0)


def _end_with(parent: int) -> None:
    """End this process, and Ray with it, after the parent process has ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Answer the requests on standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # prints of dede and ray go to stderr, away from the answers
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    worker = _Worker(int(sys.argv[1]))
    for line in sys.stdin:
        wanted = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            if "load" in wanted:
                answer = worker.load(wanted["load"])
            elif "iterate" in wanted:
                answer = worker.iterate(wanted["iterate"], wanted["x"])
        except Exception as error:  # the caller gets the message
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
