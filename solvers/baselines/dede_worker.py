"""The other side of :mod:`copter.solvers.baselines.dede_lp`: runs in the environment of the package dede.

It stands alone, since copter is not there: it needs dede and what that brings.  It reads one line of JSON a
request from standard input and answers with one line; arrays go through npz files.

- ``{"ready": true}``: answers ``{}``.
- ``{"load": path}``: the program min c'x, lower <= A x <= upper, the sums of the groups <= or == total,
  0 <= x; columns, rows and costs are scaled by whoever asks.  If only numbers on the right-hand side changed
  since the last one, the problem is kept and goes on from where it was.  Answers its seconds.
- ``{"iterate": n or null, "x": path}``: so many iterations, or until DeDe itself stops; writes x.
"""

import json
import os
import sys
import time

import dede
import numpy as np
from scipy.sparse import csr_matrix


class Worker:
    """A problem of DeDe and what it was made from."""

    def __init__(self, cpus):
        self.cpus, self.data, self.problem = cpus, None, None

    def load(self, path):
        """Build the problem, or keep it and change its right-hand sides."""
        begin = time.perf_counter()
        with np.load(path) as stored:
            data = {name: stored[name] for name in stored.files}
        fixed = ("c", "data", "indices", "indptr", "start", "equal")
        same = self.data is not None and all(np.array_equal(self.data[k], data[k]) for k in fixed)
        self.data = data
        if not same:
            self._build()
        self.lower.value, self.upper.value = _finite(data["lower"]), _finite(data["upper"])
        self.total.value = data["total"]
        # starts Ray, and compiles every resource's and demand's own problem
        self.problem.solve(num_cpus=self.cpus, num_iter=0)
        return {"seconds": time.perf_counter() - begin, "kept": bool(same)}

    def _build(self):
        data = self.data
        c, start, n = data["c"], data["start"], data["c"].size
        m = data["upper"].size
        A = csr_matrix((data["data"], data["indices"], data["indptr"]), shape=(m, n))
        self.x = dede.Variable(n, nonneg=True)
        self.upper = dede.Parameter(m, value=_finite(data["upper"]))
        self.lower = dede.Parameter(m, value=_finite(data["lower"]))
        self.total = dede.Parameter(start.size - 1, value=data["total"])
        resources = []
        for row in range(A.shape[0]):
            some = A.indices[A.indptr[row] : A.indptr[row + 1]]
            if some.size:
                values = A.data[A.indptr[row] : A.indptr[row + 1]]
                if np.isfinite(data["upper"][row]):
                    resources.append(values @ self.x[some] <= self.upper[row])
                if np.isfinite(data["lower"][row]):
                    resources.append(-values @ self.x[some] <= -self.lower[row])
        free = np.flatnonzero(np.bincount(A.indices, minlength=n) == 0)
        if free.size:  # DeDe hands out columns that a resource has
            resources.append(dede.sum(self.x[free]) <= float(free.size))
        demands, costs = [], 0
        for q in range(start.size - 1):
            mine = np.arange(start[q], start[q + 1])
            left = dede.sum(self.x[mine])
            demands.append(left == self.total[q] if data["equal"][q] else left <= self.total[q])
            if np.any(c[mine]):
                costs = costs + c[mine] @ self.x[mine]
        self.problem = dede.Problem(dede.Minimize(costs), resources, demands)

    def iterate(self, count, path):
        """Run DeDe; x is that of its demands, which keep their own constraints."""
        begin = time.perf_counter()
        self.problem.solve(num_cpus=self.cpus, num_iter=count)
        seconds = time.perf_counter() - begin
        import ray

        x = np.zeros(self.data["c"].size)
        probs = self.problem._subprob_cache.probs
        where = [ray.get(prob.get_solution_idx_d.remote()) for prob in probs]
        positions = [position for each in where for variable, position in each if variable == self.x.id]
        kept = [variable == self.x.id for each in where for variable, position in each]
        x[positions] = np.asarray(self.problem.sol_d)[kept]
        np.savez(path, x=x)
        return {"seconds": seconds}


def _finite(bounds):
    return np.where(np.isfinite(bounds), bounds, 0.0)


def main():
    """Answer requests until there are none."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what dede and ray print is no answer
    worker = Worker(int(sys.argv[1]))
    for line in sys.stdin:
        wanted = json.loads(line)
        try:
            if "ready" in wanted:
                answer = {}
            elif "load" in wanted:
                answer = worker.load(wanted["load"])
            else:
                answer = worker.iterate(wanted["iterate"], wanted["x"])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
