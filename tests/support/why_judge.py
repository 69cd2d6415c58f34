"""Judge of explanations: reads every sentence, and checks its figures by solving the changed program.

The program is read through its public views and solved by HiGHS. A convex term is a column above tangents of
the term, and tangents are added until the optimum is known. So an optimum is an interval [low, high]:

- `low` is HiGHS' optimum minus an error e. HiGHS stops at residuals of at most d = 1e-10 in each row, each
  column and each reduced cost, so its objective is within d (sum |row duals| + sum |reduced costs| + sum |x|)
  of the optimum. Rounding adds 1e-13 of the sum of |c_j x_j|.
- `high` is `low` + 2 e, plus the distance between the terms and their tangents at HiGHS' solution.

A sentence is false if no value in the intervals makes it true. No other tolerance is used, except that a
figure which is no bound must agree with the value in its six printed digits.
"""

import math
import re
from collections import Counter
from typing import NamedTuple

import highspy
import numpy as np

DELTA = 1e-10
"""Tolerance of HiGHS; it accepts no smaller one."""
SHORT_OF = 0.999
"""Share of a least change with which the judge tries: it must not be enough."""
HAS = 1e-6
"""Share of what a request could have alone, below which it has nothing."""

_ROUNDS_OF_TANGENTS = 60


class Interval(NamedTuple):
    low: float
    high: float


NONE = Interval(math.inf, math.inf)
"""Optimum of a program without an allocation."""


class Judge:
    """A program at the time of its solution, in HiGHS, with costs to be minimised."""

    def __init__(self, program, solution, counts=None):
        self.program, self.solution = program, solution
        self.counts = Counter() if counts is None else counts
        self.sign = -1.0 if program.sense == "max" else 1.0
        self.resources = list(program.resource_ids)
        row_of = {id: k for k, id in enumerate(self.resources)}
        lower = [float(program.resources[id].lower) for id in self.resources]
        upper = [float(program.resources[id].upper) for id in self.resources]
        self.first, self.names, cost, most, entries = {}, {}, [], [], []
        self.terms = []  # (columns, image, value, slope, parameters)
        for id in program.request_ids:
            one = program.requests[id]
            self.first[id] = begin = len(cost)
            self.names[id] = list(one.columns) if one.columns is not None else list(range(len(one.costs)))
            n = len(one.costs)
            cost += (self.sign * np.asarray(one.costs)).tolist()
            most += np.broadcast_to(one.upper, n).tolist()
            for resource, (columns, values) in one.usage.items():
                entries += [
                    (row_of[resource], begin + int(j), float(v)) for j, v in zip(columns, values, strict=True)
                ]
            if one.relation is not None and one.total is not None:
                lower.append(float(one.total) if one.relation == "==" else -math.inf)
                upper.append(float(one.total))
                entries += [(len(lower) - 1, begin + j, 1.0) for j in range(n)]
            if one.term is not None:
                image = np.broadcast_to(np.asarray(one.term.image, float), n).copy()
                its = type(one.term), tuple(float(v) for v in one.term.parameters.values())
                self.terms.append((begin, image, *its))
        self.n, self.m = len(cost), len(lower)
        self.cost, self.most = np.array(cost), np.array(most)
        self.row_lower, self.row_upper = np.array(lower), np.array(upper)
        self.A = np.zeros((self.m, self.n))
        for row, column, value in entries:
            self.A[row, column] += value
        self.x = np.zeros(self.n)
        for id, begin in self.first.items():
            value = solution.x[id]
            value = list(value.values()) if isinstance(value, dict) else value
            self.x[begin : begin + len(self.names[id])] = value
        self.price = np.array([solution.price[id] for id in self.resources])
        self.objective = self.sign * solution.objective
        self.highs = self._made()

    def _made(self):
        highspy.Highs.resetGlobalScheduler(True)  # HiGHS may have run here with another number of threads
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("primal_feasibility_tolerance", DELTA)
        highs.setOptionValue("dual_feasibility_tolerance", DELTA)
        none = np.array([], np.int32), np.array([], float)
        for lower, upper in zip(self.row_lower, self.row_upper, strict=True):
            highs.addRow(lower, upper, 0, *none)
        for j in range(self.n):
            at = np.flatnonzero(self.A[:, j]).astype(np.int32)
            highs.addCol(self.cost[j], 0.0, self.most[j], at.size, at, self.A[at, j])
        for k in range(len(self.terms)):
            highs.addCol(1.0, -math.inf, math.inf, 0, *none)
            for t in self._grid(k):
                self._add_tangent(highs, k, t)
        return highs

    def _grid(self, k):
        begin, image, *_ = self.terms[k]
        reach = float(image @ np.minimum(self.most[begin : begin + image.size], 1e3))
        return reach * np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 12)])

    def _add_tangent(self, highs, k, t):
        begin, image, kind, given = self.terms[k]
        value, slope = kind.value(t, *given), kind.slope(t, *given)
        if not (math.isfinite(value) and math.isfinite(slope)):
            return
        at = np.append(begin + np.arange(image.size), self.n + k).astype(np.int32)
        highs.addRow(value - slope * t, math.inf, at.size, at, np.append(-slope * image, 1.0))

    def term_value(self, k, x):
        begin, image, kind, given = self.terms[k]
        return kind.value(float(image @ x[begin : begin + image.size]), *given)

    def optimum(self, *, fixed=None, cheaper=None, more=None):
        """Return the least cost of the program with some changes; the changes are taken back afterwards.

        `fixed`: values by column. `cheaper`: what is subtracted from costs,
        by column. `more`: what is added to upper bounds of resources, by row.
        """
        highs, fixed = self.highs, fixed or {}
        for j, value in fixed.items():
            highs.changeColBounds(j, value, value)
        for j, less in (cheaper or {}).items():
            highs.changeColCost(j, self.cost[j] - less)
        for row, by in (more or {}).items():
            highs.changeRowBounds(row, self.row_lower[row], self.row_upper[row] + by)
        try:
            return self._solved()
        finally:
            for j in fixed:
                highs.changeColBounds(j, 0.0, self.most[j])
            for j in cheaper or {}:
                highs.changeColCost(j, self.cost[j])
            for row in more or {}:
                highs.changeRowBounds(row, self.row_lower[row], self.row_upper[row])

    def _solved(self):
        none = highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible
        for _ in range(_ROUNDS_OF_TANGENTS):
            self.counts["solves"] += 1
            self.highs.run()
            status = self.highs.getModelStatus()
            if status not in (highspy.HighsModelStatus.kOptimal, *none):  # once more, without its basis
                self.highs.clearSolver()
                self.highs.run()
                status = self.highs.getModelStatus()
            if status in none:
                return NONE
            assert status == highspy.HighsModelStatus.kOptimal, status
            found = self.highs.getSolution()
            x = np.array(found.col_value)
            error = DELTA * float(
                np.abs(found.row_dual).sum() + np.abs(found.col_dual).sum() + np.abs(x).sum()
            )
            cost = np.array(self.highs.getLp().col_cost_)
            error += 1e-13 * float(np.abs(cost * x).sum())
            value = self.highs.getInfo().objective_function_value
            above = [self.term_value(k, x) - x[self.n + k] for k in range(len(self.terms))]
            if sum(max(0.0, each) for each in above) <= max(error, 1e-9):
                break
            for k, each in enumerate(above):
                if each > 0.1 * error / len(above):
                    begin, image, *_ = self.terms[k]
                    self._add_tangent(self.highs, k, max(0.0, float(image @ x[begin : begin + image.size])))
        return Interval(value - error, value + error + sum(max(0.0, each) for each in above))

    # ---- the request of an explanation -------------------------------------------------------------

    def own(self, request):
        """Return the columns of a request."""
        return range(self.first[request], self.first[request] + len(self.names[request]))

    def most_alone(self, request, j):
        """Return the most of a column by its bounds and its total; 1 if there is no such limit."""
        one = self.program.requests[request]
        total = float(one.total) if one.relation is not None and one.total is not None else math.inf
        most = min(self.most[j], total)
        return most if math.isfinite(most) else 1.0

    def can_have(self, request):
        """Return whether some allocation gives a request some of one of its columns."""
        size = 1e-3
        for j in self.own(request):
            most = self.most_alone(request, j)
            limits = [self.row_upper[i] / a for i, a in enumerate(self.A[:, j]) if a > 0 < self.row_upper[i]]
            if self.optimum(fixed={j: size * min([most, *limits])}) != NONE:
                return True
        return False


# ---- sentences ---------------------------------------------------------------------------------------

_NUMBER = r"(-?[0-9.]+(?:e[-+]?[0-9]+)?|inf)"
_BESIDES = r"(?:, besides its convex term)?"
_OF = rf"{_NUMBER} of column (.+)"
_PATTERNS = {
    "has": rf"Request (.+) has (.+ of column .+), which contributes {_NUMBER} to the objective{_BESIDES}\.",
    "nothing": r"Request (.+) has nothing\.",
    "too large": rf"A unit of column (.+) needs {_NUMBER} of (.+), whose bound is {_NUMBER}\.",
    "impossible": rf"No allocation has {_OF}, because the request's total must be met by other columns too\.",
    "never": rf"No allocation has {_OF}, because it needs {_NUMBER} of (.+), "
    rf"and no allocation leaves more than {_NUMBER}\.",
    "worse": rf"Every allocation with {_OF} is worse by at least {_NUMBER}; "
    rf"the column's cost must improve by at least {_NUMBER} a unit before one is optimal\.",
    "may": rf"The certificate does not exclude that an allocation with {_OF} is as good as this one\.",
    "lacking": rf"For {_OF}, {_NUMBER} more of (.+) is needed than the other requests leave\.",
    "prices": rf"A unit of column (.+) adds {_NUMBER} to the objective{_BESIDES}; "
    r"at the dual prices, the resources that it uses are worth (.+)\.",
    "increase": rf"If only (.+) is increased, no optimal allocation has {_OF} before the "
    rf"increase is {_NUMBER}\.",
}
KINDS = tuple(_PATTERNS)


def read(sentence):
    """Return the kind of a sentence and its groups; fail if it is of no kind that is judged."""
    found = [(kind, match.groups()) for kind, p in _PATTERNS.items() if (match := re.fullmatch(p, sentence))]
    assert len(found) == 1, (sentence, found)
    return found[0]


def digits(printed, value):
    """Return whether a printed number is a value in six digits."""
    return abs(float(printed) - value) <= 0.51e-5 * max(abs(value), abs(float(printed))) + 1e-300


class Sentences:
    """Judged sentences of one explanation; `counts` counts them by kind."""

    def __init__(self, judge, request, counts=None):
        self.judge, self.request = judge, request
        self.counts = Counter() if counts is None else counts
        begin = judge.first[request]
        self.column_of = {repr(name): begin + k for k, name in enumerate(judge.names[request])}
        self.row_of = {repr(id): k for k, id in enumerate(judge.resources)}

    def check(self, sentences):
        """Check all sentences, and that none is missing."""
        read_all = [read(each) for each in sentences]
        for sentence, (kind, groups) in zip(sentences, read_all, strict=True):
            try:
                getattr(self, "_" + kind.replace(" ", "_"))(*groups)
            except AssertionError as false:
                raise AssertionError(f"false: {sentence}\n{false}") from false
            self.counts[kind] += 1
        self._check_complete(read_all)

    # ---- what the request has ----------------------------------------------------------------------

    def _alone(self, j):
        judge = self.judge
        limits = [judge.row_upper[i] / a for i, a in enumerate(judge.A[:, j]) if a > 0 < judge.row_upper[i]]
        rows = [limit for limit in limits if math.isfinite(limit)]
        return min([judge.most_alone(self.request, j), *rows])

    def _has(self, request, what, cost):
        assert request == repr(self.request)
        judge, has = self.judge, set()
        for each in what.split(", "):
            value, column = re.fullmatch(rf"{_NUMBER} of column (.+)", each).groups()
            j = self.column_of[column]
            assert digits(value, judge.x[j]), (each, judge.x[j])
            has.add(j)
        for j in judge.own(self.request):  # what is left out is negligible
            assert j in has or judge.x[j] <= HAS * self._alone(j), (j, judge.x[j])
        own = list(judge.own(self.request))
        terms = judge.cost[own] * judge.x[own]
        assert (
            abs(float(cost) - judge.sign * terms.sum())
            <= 0.51e-5 * abs(float(cost)) + 1e-15 * abs(terms).sum()
        )
        full = any(judge.x[j] >= (1.0 - HAS) * judge.most_alone(self.request, j) for j in has)
        self.counts["given"] += full
        self.counts["partly given"] += not full

    def _nothing(self, request):
        assert request == repr(self.request)
        for j in self.judge.own(self.request):
            assert self.judge.x[j] <= HAS * self._alone(j), (j, self.judge.x[j])
        self.counts["ungiven"] += 1
        self.counts["never anything"] += not self.judge.can_have(self.request)

    # ---- why it has no more of a column ------------------------------------------------------------

    def _too_large(self, column, use, resource, upper):
        judge, j, row = self.judge, self.column_of[column], self.row_of[resource]
        assert digits(use, judge.A[row, j]) and digits(upper, judge.row_upper[row])
        assert judge.A[row, j] > judge.row_upper[row]
        assert (judge.A[row] < 0).any() or judge.optimum(fixed={j: 1.0}) == NONE

    def _fixed(self, amount, column):
        """Return the column, its most, and the optimum with as much of it."""
        j = self.column_of[column]
        most = self.judge.most_alone(self.request, j)
        assert digits(amount, most), (amount, most)
        return j, most, self.judge.optimum(fixed={j: most})

    def _impossible(self, amount, column):
        assert self._fixed(amount, column)[2] == NONE

    def _never(self, amount, column, need, resource, left):
        j, most, forced = self._fixed(amount, column)
        row = self.row_of[resource]
        assert digits(need, self.judge.A[row, j] * most)
        assert forced == NONE, forced

    def _worse(self, amount, column, loss, fall):
        j, most, forced = self._fixed(amount, column)
        assert forced.high - self.judge.objective >= float(loss), (forced, self.judge.objective)
        self.counts["tight"] += forced.low - self.judge.objective <= 1.01 * float(loss)
        self.counts["without any allocation"] += forced == NONE
        self._not_optimal(j, most, cheaper={j: SHORT_OF * float(fall)})

    def _not_optimal(self, j, most, **changes):
        """Check that in the changed program no optimal allocation has the most of a column."""
        with_it = self.judge.optimum(fixed={j: most}, **changes)
        if with_it == NONE:
            return
        free = self.judge.optimum(**changes)
        assert with_it.high > free.low, (with_it, free)
        self.counts["resolved" if with_it.low > free.high else "within the judge's error"] += 1

    def _may(self, amount, column):
        _, _, forced = self._fixed(amount, column)
        size = max(1.0, abs(self.judge.objective))
        self.counts["may, and is"] += forced.low - self.judge.objective <= 1e-6 * size
        self.counts["may, and no allocation has it"] += forced == NONE

    def _lacking(self, amount, column, missing, resource):
        j, row = self.column_of[column], self.row_of[resource]
        need, left, error = self._room(j, row)
        assert digits(amount, self.judge.most_alone(self.request, j))
        assert abs(float(missing) - (need - left)) <= 0.51e-5 * abs(float(missing)) + error, (need, left)

    def _room(self, j, row):
        """Return what the most of a column needs of a resource, what the others leave, and an error.

        The error is the solution's residual: it is relative to the sum of the amounts in the row.
        """
        judge, own = self.judge, list(self.judge.own(self.request))
        others = judge.x.copy()
        others[own] = 0.0
        need = judge.A[row, j] * judge.most_alone(self.request, j)
        size = float(np.abs(judge.A[row]) @ np.abs(judge.x)) + abs(judge.row_upper[row]) + abs(need)
        size = size if math.isfinite(size) else 0.0
        error = 2.0 * max(1e-9, judge.solution.primal_residual) * size
        return need, judge.row_upper[row] - float(judge.A[row] @ others), error

    def _prices(self, column, cost, paid):
        judge, j = self.judge, self.column_of[column]
        assert digits(cost, judge.sign * judge.cost[j])
        told = dict(
            reversed(re.fullmatch(rf"{_NUMBER} for (.+)", each).groups()) for each in paid.split(" and ")
        )
        for i, id in enumerate(judge.resources):
            worth = judge.A[i, j] * judge.price[i]
            assert (repr(id) in told) == bool(worth) or repr(id) not in told and abs(worth) < 1e-300
            if worth:
                assert digits(told[repr(id)], worth), (id, worth)

    def _increase(self, resource, amount, column, more):
        j, most, _ = self._fixed(amount, column)
        row, by = self.row_of[resource], SHORT_OF * float(more)
        if by > 1e9:  # HiGHS takes no such bounds for numbers
            self.counts["increase beyond HiGHS"] += 1
            by = 1e9
        self._not_optimal(j, most, more={row: by})

    # ---- what must be said -------------------------------------------------------------------------

    def _check_complete(self, found):
        judge = self.judge
        assert [kind for kind, _ in found][0] in ("has", "nothing")
        assert sum(kind in ("has", "nothing") for kind, _ in found) == 1
        about = {}
        for kind, groups in found:
            at = {"too large": None, "prices": 0, "increase": 2, "worse": 1, "may": 1, "lacking": 1}.get(kind)
            at = 1 if kind in ("impossible", "never") else at
            if at is not None:
                about.setdefault(self.column_of[groups[at]], set()).add((kind, groups))
        for j in judge.own(self.request):
            kinds = {kind for kind, _ in about.get(j, ())}
            full = judge.x[j] >= (1.0 - HAS) * judge.most_alone(self.request, j)
            assert full == (not kinds & {"worse", "may", "impossible", "never"}), (j, kinds)
            if full or kinds & {"impossible", "never"}:
                continue
            said = {groups[3] for kind, groups in about[j] if kind == "lacking"}
            for row, id in enumerate(judge.resources):
                need, left, error = self._room(j, row)
                if judge.A[row, j] > 0.0 and need > left + error:
                    assert repr(id) in said, (id, need, left)


def check_prices(judge, rng, counts):
    """Check dual prices: no change of one resource gains more than its price says, plus the gap."""
    slack = judge.objective - judge.sign * judge.solution.bound
    for row in rng.permutation(len(judge.resources))[:2].tolist():
        if not math.isfinite(judge.row_upper[row]) or judge.price[row] < 0.0:
            continue
        for by in 0.1 * max(1.0, abs(judge.row_upper[row])) * np.array([-1.0, 1.0]):
            if judge.row_upper[row] + by < judge.row_lower[row]:
                continue
            there = judge.optimum(more={row: by})
            assert there.high >= judge.objective - slack - judge.price[row] * by - 1e-12 * abs(
                judge.objective
            ), (judge.resources[row], by, there, judge.objective, judge.price[row])
            counts["price"] += 1
