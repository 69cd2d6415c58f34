"""Tiny integral programs with awkward numbers, and their optima by brute force in rational numbers.

A number that is not whole stands for the decimal that it is printed as: 0.1 is a tenth.

    python tests/support exact_programs 10000          # through copter-exact
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from copter import ContinualProgram, Status, make_solver
from support.search import search


def exact(number=0):
    """What a number is meant to be."""
    return Fraction(number if isinstance(number, (int, Fraction)) else repr(float(number)))


FAMILIES = ("scaled", "switch", "big_m", "decimal", "odd", "units")


class Tiny:
    """Requests of whole numbers, and perhaps one more of a single continuous column.

    Attributes
    ----------
    rows : list of (lower, upper)
    unit : what an objective below it is compared with
    requests : list of (costs, coefficients by row, total, relation, upper bounds, integral)
    """

    def __init__(self, seed, family):
        self.rows, self.requests, self.unit = [], [], 1.0
        getattr(self, f"_{family}")(np.random.default_rng(seed))

    def _add(self, costs, usage, total=None, relation="<=", upper=np.inf, integral=True):
        n = len(costs)
        upper = [float(each) for each in np.broadcast_to(upper, n)]
        self.requests.append(([float(c) for c in costs], usage, total, relation, upper, integral))

    def _scaled(self, rng):
        """Choices whose coefficients are large and differ by few units, and capacities that just do."""
        unit = float(10.0 ** rng.integers(5, 13))
        rows = int(rng.integers(1, 3))
        use = [
            rng.integers(0, 3, (rows, int(rng.integers(2, 4)))) * unit for _ in range(int(rng.integers(2, 5)))
        ]
        use = [each + np.where(each > 0, rng.integers(0, 4, each.shape), 0) for each in use]
        for r in range(rows):
            level = sum(float(each[r].max()) for each in use) * rng.choice([0.5, 1.0])
            self.rows.append((-np.inf, float(np.floor(level)) + float(rng.integers(-3, 4))))
        for each in use:
            relation = "==" if rng.random() < 0.5 else "<="
            costs = rng.integers(-6, 3, each.shape[1])
            self._add(costs, each.tolist(), 1.0, relation)

    def _switch(self, rng):
        """Rows of differences of huge numbers, with a unit on top."""
        unit, n = float(10.0 ** rng.integers(5, 13)), int(rng.integers(2, 5))
        rows = int(rng.integers(1, 3))
        use = rng.integers(-1, 2, (rows, n)) * unit + rng.integers(-2, 3, (rows, n))
        for _ in range(rows):
            self.rows.append((-np.inf, float(rng.integers(-1, 3) + unit * rng.integers(0, 2))))
        for j in range(n):
            self._add([rng.integers(-4, 5) / 2.0], use[:, [j]].tolist(), upper=float(rng.integers(1, 3)))

    def _big_m(self, rng):
        """A continuous column that whole numbers switch on."""
        unit, n = float(10.0 ** rng.integers(5, 13)), int(rng.integers(1, 4))
        need = float(rng.integers(1, 5))
        self.rows += [(-np.inf, 0.0), (need, np.inf)]
        for _ in range(n):
            m = unit * float(rng.integers(1, 4))
            self._add([rng.integers(1, 101)], [[-m], [float(rng.integers(0, 2))]], upper=1.0)
        self._add([rng.integers(0, 4)], [[1.0], [1.0]], upper=unit, integral=False)

    def _decimal(self, rng):
        """Tenths, that binary numbers are not."""
        n, rows = int(rng.integers(2, 6)), int(rng.integers(1, 3))
        use = rng.integers(0, 8, (rows, n)) / 10.0
        for r in range(rows):
            self.rows.append((-np.inf, float(rng.integers(1, max(2, int(10 * use[r].sum())))) / 10.0))
        for j in range(n):
            self._add([-rng.integers(1, 9) / 10.0], use[:, [j]].tolist(), upper=1.0)

    def _odd(self, rng):
        """Totals of 0, upper bounds below a unit, boxes, requests of one column, costs of both signs."""
        rows = int(rng.integers(1, 3))
        for _ in range(rows):
            upper = float(rng.integers(0, 8))
            lower = float(rng.integers(0, 3)) if rng.random() < 0.2 else -np.inf
            self.rows.append((min(lower, upper), upper))
        for _ in range(int(rng.integers(1, 5))):
            n = int(rng.integers(1, 4))
            costs, use = rng.integers(-9, 5, n), rng.integers(-1, 4, (rows, n)).astype(float).tolist()
            total = [None, 0.0, 1.0, 2.0][int(rng.integers(4))]
            upper = rng.choice([0.0, 0.5, 1.0, 2.0], n, p=[0.1, 0.2, 0.4, 0.3])
            relation = "==" if total is not None and upper.sum() >= total and rng.random() < 0.5 else "<="
            self._add(costs, use, total, relation, upper)

    def _units(self, rng):
        """Odd ones, with rows and costs in other units, and costs that are no whole numbers."""
        self._odd(rng)
        unit, self.unit = (float(each) for each in 2.0 ** rng.integers(-14, 15, 2))
        self.rows = [(unit * lower, unit * upper) for lower, upper in self.rows]
        self.requests = [
            (
                [self.unit * (c + float(rng.normal())) for c in costs]
                if rng.random() < 0.5
                else [self.unit * c for c in costs],
                [[unit * a for a in row] for row in usage],
                *more,
            )
            for costs, usage, *more in self.requests
        ]

    def program(self):
        program = ContinualProgram()
        for r, (lower, upper) in enumerate(self.rows):
            program.add_resource(r, lower=lower, upper=upper)
        for q, (costs, usage, total, relation, upper, integral) in enumerate(self.requests):
            sums = {} if total is None else {"total": total, "relation": relation}
            program.add_request(q, costs, dict(enumerate(usage)), upper=upper, integral=integral, **sums)
        return program

    def best(self):
        """Least cost as a Fraction; None if nothing keeps the rows."""
        whole = [request for request in self.requests if request[5]]
        loose = [request for request in self.requests if not request[5]]
        bounds = [tuple(exact(b) if np.isfinite(b) else None for b in row) for row in self.rows]
        best = None
        for points in itertools.product(*(_points(request) for request in whole)):
            cost, used = exact(0), [exact(0)] * len(bounds)
            for x, (costs, usage, *_) in zip(points, whole, strict=True):
                cost += sum(exact(c) * v for c, v in zip(costs, x, strict=True))
                for r, row in enumerate(usage):
                    used[r] += sum(exact(a) * v for a, v in zip(row, x, strict=True))
            least = _least(loose, bounds, used)
            if least is not None and (best is None or cost + least < best):
                best = cost + least
        return best


def _points(request):
    """All whole numbers that a request may have."""
    costs, _, total, relation, upper, _ = request
    most = [int(np.floor(min(u, np.inf if total is None else total))) for u in upper]
    for x in itertools.product(*(range(m + 1) for m in most)):
        if total is None or (sum(x) == total if relation == "==" else sum(x) <= total):
            yield x


def _least(loose, bounds, used):
    """What the continuous column costs at least, None if no value of it keeps the rows."""
    low, high, cost = exact(0), None, exact(0)
    column = [[0.0]] * len(bounds)
    if loose:
        ((costs, column, _, _, upper, _),) = loose
        cost, high = exact(costs[0]), exact(upper[0])
    for (a,), (lower, upper), own in zip(column, bounds, used, strict=True):
        a = exact(a)
        for bound, sign in ((upper, 1), (lower, -1)):
            if bound is None:
                continue
            room = sign * (bound - own)
            if a == 0:
                if room < 0:
                    return None
            elif sign * a > 0:
                end = room / (sign * a)
                high = end if high is None else min(high, end)
            else:
                low = max(low, room / (sign * a))
    if high is not None and low > high:
        return None
    return cost * (low if cost >= 0 else high) if loose else exact(0)


def answered(tiny):
    """Faults in the answer of copter-exact."""
    return judge(tiny, make_solver("copter-exact").solve(tiny.program()))


def judge(tiny, solution):
    """What is wrong with an answer to a program; "" for nothing, "no answer" for one that claims nothing."""
    best = tiny.best()
    if solution.status not in (Status.OPTIMAL, Status.INFEASIBLE):
        return "no answer"
    if (best is None) != (solution.status is Status.INFEASIBLE):
        return f"{solution.status} where the least cost is {best}"
    if best is None:
        return ""
    slack = Fraction(1, 10**9) * max(Fraction(tiny.unit), abs(best))
    if abs(Fraction(solution.objective) - best) > slack:
        return f"objective {solution.objective} where {best} is the least"
    if Fraction(solution.integer.bound) > best + slack / 1000:
        return f"bound {solution.integer.bound} above {best}"
    if not solution.integer.proven:
        return "optimal and not proven"
    if solution.bound > solution.integer.bound + 1e-9 * max(tiny.unit, abs(best)):
        return f"bound {solution.bound} above that of whole numbers, {solution.integer.bound}"
    whole = [solution.x[q] for q, request in enumerate(tiny.requests) if request[5]]
    return "" if all((x == np.rint(x)).all() for x in whole) else "a fraction of a whole number"


if __name__ == "__main__":
    search(FAMILIES, lambda family, seed: [answered(Tiny(seed, family))])
