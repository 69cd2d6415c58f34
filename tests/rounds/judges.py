"""What is right: HiGHS from scratch, exact rationals, and the mirror; nothing here imports copter.

An answer is judged as a :class:`Claim`, the plain numbers of it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from typing import Any, NamedTuple

import highspy
import numpy as np
from scipy.sparse import csc_array, vstack

from rounds.mirror import Arrays, Log, Mirror


class Wrong(AssertionError):
    """An answer, or something that a program said, is not right."""


def require(condition: bool, *said: object) -> None:
    """Raise Wrong, with what is to be said, if a condition does not hold."""
    if not condition:
        raise Wrong(" ".join(map(str, said)))


class Claim(NamedTuple):
    """What a solver says of a program."""

    status: str
    objective: float
    bound: float
    size: float
    gap: float
    rounding: float
    relative: float
    absolute: float
    x: dict[Hashable, np.ndarray]
    price: dict[Hashable, float]
    found: bool
    ray: dict[Hashable, Any] | None


class Truth(NamedTuple):
    """What HiGHS says."""

    status: str
    objective: float


# ---- HiGHS -------------------------------------------------------------------------------------------


def _highs(c, upper, matrix: csc_array, low, high, lower=None) -> tuple[str, float, np.ndarray]:
    """Status, objective and values of a linear program, cold and without presolve."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("primal_feasibility_tolerance", 1e-9)
    solver.setOptionValue("dual_feasibility_tolerance", 1e-9)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = c.size, matrix.shape[0]
    program.col_cost_ = c
    program.col_lower_ = np.zeros(c.size) if lower is None else lower
    program.col_upper_ = upper
    program.row_lower_, program.row_upper_ = low, high
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = matrix.indptr
    program.a_matrix_.index_ = matrix.indices
    program.a_matrix_.value_ = matrix.data
    solver.passModel(program)
    solver.run()
    kind = highspy.HighsModelStatus
    names = {
        kind.kOptimal: "optimal",
        kind.kInfeasible: "infeasible",
        kind.kUnbounded: "unbounded",
        kind.kUnboundedOrInfeasible: "either",
    }
    status = names.get(solver.getModelStatus(), "unknown")
    values = np.array(solver.getSolution().col_value) if status == "optimal" else np.empty(0)
    return status, solver.getInfo().objective_function_value, values


def truth(arrays: Arrays) -> Truth:
    """Status and objective of a program, from scratch; convex terms by tangents until they touch."""
    sums, low, high = arrays.sums()
    matrix = csc_array(vstack([arrays.A, sums]))
    low, high = np.concatenate((arrays.low, low)), np.concatenate((arrays.high, high))
    if not arrays.c.size:
        met = bool(((low <= 0) & (high >= 0)).all())
        return Truth("optimal" if met else "infeasible", 0.0)
    if any(arrays.terms):
        return _with_terms(arrays, matrix, low, high)
    status, objective, _ = _highs(arrays.c, arrays.upper, matrix, low, high)
    if status in ("either", "unbounded"):  # an unbounded ray says nothing about feasibility
        feasible = _highs(np.zeros(arrays.c.size), arrays.upper, matrix, low, high)[0] == "optimal"
        return Truth("unbounded" if feasible else "infeasible", -math.inf)
    return Truth(status, objective)


def _with_terms(arrays: Arrays, matrix: csc_array, low: np.ndarray, high: np.ndarray) -> Truth:
    """Kelley's cutting planes, one variable for each term."""
    own = [b for b, term in enumerate(arrays.terms) if term is not None]
    n, k = arrays.c.size, len(own)
    c = np.concatenate((arrays.c, np.ones(k)))
    upper = np.concatenate((arrays.upper, np.full(k, math.inf)))
    lower = np.concatenate((np.zeros(n), np.full(k, -1e9)))
    wide = csc_array(
        (matrix.data, matrix.indices, np.append(matrix.indptr, [matrix.nnz] * k)),
        shape=(matrix.shape[0], n + k),
    )
    cuts, limits = [], []
    points = [[0.0, 1.0] for _ in own]
    for _ in range(60):
        for i, b in enumerate(own):
            for t in points[i]:
                value, slope = _log(arrays.terms[b], t)
                cut = np.zeros(n + k)
                cut[arrays.first[b] : arrays.first[b + 1]] = slope * np.array(arrays.terms[b].image)
                cut[n + i] = -1.0
                cuts.append(cut)
                limits.append(slope * t - value)
        stacked = csc_array(vstack([wide, csc_array(np.array(cuts))]))
        below = np.concatenate((low, np.full(len(cuts), -math.inf)))
        status, objective, x = _highs(c, upper, stacked, below, np.concatenate((high, limits)), lower)
        if status != "optimal":
            return Truth("unknown", math.nan)
        images = [float(np.dot(arrays.terms[b].image, x[arrays.first[b] : arrays.first[b + 1]])) for b in own]
        short = [
            _log(arrays.terms[b], t)[0] - x[n + i] for i, (b, t) in enumerate(zip(own, images, strict=True))
        ]
        if sum(short) <= 1e-9 * (1.0 + abs(objective)):
            return Truth("optimal", objective)
        points = [[t] if s > 0 else [] for s, t in zip(short, images, strict=True)]
    return Truth("unknown", math.nan)


def _log(term: Log, t: float) -> tuple[float, float]:
    """Value and slope of a term."""
    return -term.weight * math.log(term.offset + t), -term.weight / (term.offset + t)


# ---- exact rationals ---------------------------------------------------------------------------------


def lagrangian(arrays: Arrays, y: np.ndarray, costs: bool = True) -> Fraction | float | None:
    """The Lagrangian bound at prices y in exact arithmetic; None for minus infinity."""
    value = Fraction(0)
    prices = []
    for yi, low, high in zip(y.tolist(), arrays.low.tolist(), arrays.high.tolist(), strict=True):
        bound = high if yi > 0 else low
        price = Fraction(yi) if math.isfinite(bound) else Fraction(0)
        prices.append(price)
        if price:
            value -= price * Fraction(bound)
    A = arrays.A
    c = arrays.c.tolist() if costs else [0.0] * arrays.c.size
    pointer, index, data = A.indptr.tolist(), A.indices.tolist(), A.data.tolist()
    reduced = [
        Fraction(c[j]) + sum(prices[index[k]] * Fraction(data[k]) for k in range(pointer[j], pointer[j + 1]))
        for j in range(arrays.c.size)
    ]
    upper = arrays.upper.tolist()
    for b, (total, relation) in enumerate(zip(arrays.totals, arrays.relations, strict=True)):
        block = range(int(arrays.first[b]), int(arrays.first[b + 1]))
        left = None if total is None else Fraction(total)
        for j in sorted(block, key=lambda j: reduced[j]):
            if (reduced[j] >= 0 and relation == "<=") or left == 0:
                break
            if left is None and math.isinf(upper[j]):
                return None
            take = left if math.isinf(upper[j]) else Fraction(upper[j])
            if left is not None:
                take = min(take, left)
                left -= take
            value += take * reduced[j]
        if relation == "==" and left:
            return math.inf
    return value


def excess(arrays: Arrays, x: np.ndarray) -> tuple[float, list[tuple[float, float]]]:
    """Norm of all violations, and each as (violation, size of what it is summed up from), exactly."""
    exact = [Fraction(v) for v in x.tolist()]
    A = arrays.A.tocsr()
    found = []
    for i in range(A.shape[0]):
        entries = range(A.indptr[i], A.indptr[i + 1])
        terms = [Fraction(float(A.data[k])) * exact[A.indices[k]] for k in entries]
        found.append(
            (_over(sum(terms, Fraction(0)), arrays.low[i], arrays.high[i]), float(sum(map(abs, terms))))
        )
    for b, total in enumerate(arrays.totals):
        own = exact[int(arrays.first[b]) : int(arrays.first[b + 1])]
        if total is not None:
            low = total if arrays.relations[b] == "==" else -math.inf
            found.append((_over(sum(own, Fraction(0)), low, total), total))
    for value, bound in zip(exact, arrays.upper.tolist(), strict=True):
        if value < 0 or value > bound:
            found.append((_over(value, 0.0, bound), bound))
    return math.sqrt(sum(over * over for over, _ in found)), [each for each in found if each[0] > 0]


def _over(value: Fraction, low: float, high: float) -> float:
    over = value - Fraction(high) if math.isfinite(high) else Fraction(-1)
    under = Fraction(low) - value if math.isfinite(low) else Fraction(-1)
    return float(max(over, under, Fraction(0)))


# ---- answers -----------------------------------------------------------------------------------------


def judge(mirror: Mirror, claim: Claim, tolerance: float, *, exactly: bool, by_highs: bool) -> set[str]:
    """Raise Wrong if what a solver says is not so; otherwise say what was checked."""
    arrays = mirror.arrays()
    done = {"mirror"}
    if claim.found:
        require(list(claim.x) == list(mirror.requests), "requests of the answer")
        sizes = [value.size for value in claim.x.values()]
        require(sizes == [r.size for r in mirror.requests.values()], "columns of the answer")
        x = np.concatenate([np.empty(0), *claim.x.values()])
        _judge_allocation(arrays, x, claim, tolerance, exactly)
    y = np.array([claim.price[id] for id in mirror.resources])
    if exactly and not any(arrays.terms) and math.isfinite(claim.bound):
        at_y = lagrangian(arrays, y)
        done.add("rationals")
        if at_y is not None:
            require(Fraction(claim.bound) <= at_y, "bound", claim.bound, "at y", float(at_y))
        else:
            done.add("bounded by rows")
    if claim.ray is not None:
        _judge_ray(arrays, claim)
        done.add("ray")
    if by_highs:
        done.add("highs")
        _judge_by_highs(truth(arrays), claim, tolerance, arrays)
    return done


def _judge_allocation(arrays: Arrays, x: np.ndarray, claim: Claim, tolerance: float, exactly: bool) -> None:
    """Objective, violations and gap."""
    cost, terms = float(arrays.c @ x), float(np.abs(arrays.c) @ np.abs(x))
    for b, term in enumerate(arrays.terms):
        if term is not None:
            cost += _log(term, float(np.dot(term.image, x[arrays.first[b] : arrays.first[b + 1]])))[0]
            terms += abs(cost)
    require(abs(cost - claim.objective) <= 1e-9 * terms + 1e-300, "objective", claim.objective, "is", cost)
    if claim.size > 0 and math.isfinite(claim.bound) and claim.objective - claim.bound > claim.rounding:
        gap = (claim.objective - claim.bound) / claim.size
        require(claim.gap >= gap - 1e-9 * (1.0 + terms / claim.size), "gap", claim.gap, "is", gap)
    if exactly:
        norm, each = excess(arrays, x)
        noise = 1e-13 * sum(size for _, size in each)
        require(norm <= claim.absolute * (1 + 1e-6) + noise, "violation", claim.absolute, "is", norm)
    else:
        used = arrays.A @ x
        over = np.maximum(np.maximum(used - arrays.high, arrays.low - used), 0.0)
        size = abs(arrays.A) @ np.abs(x)
        each = [(float(v), float(s)) for v, s in zip(over, size, strict=True) if v > 0]
        sums, low, high = arrays.sums()
        used = sums @ x
        over = np.maximum(np.maximum(used - high, low - used), 0.0)
        each += [(float(v), float(s)) for v, s in zip(over, high, strict=True) if v > 0]
        over = np.maximum(x - arrays.upper, -x)
        each += [(float(over[j]), float(arrays.upper[j])) for j in np.flatnonzero(over > 0)]
        norm = math.sqrt(sum(v * v for v, _ in each))
        noise = 1e-12 * float(size.sum() + np.abs(x).sum())
        require(norm <= claim.absolute * (1 + 1e-6) + noise, "violation", claim.absolute, "is", norm)
    if claim.status == "optimal":
        require(claim.relative <= tolerance and claim.gap <= tolerance, "optimal, by its own figures")
        for over, size in each:
            require(over <= 1.01 * tolerance * size + 1e-12 * size + 1e-300, "row over by", over, "of", size)


def _judge_ray(arrays: Arrays, claim: Claim) -> None:
    """A ray proves that there is no allocation, or leads along ever cheaper ones if there is one."""
    if claim.status == "infeasible":
        at_y = lagrangian(arrays, np.array([claim.ray[id] for id in claim.price]), costs=False)
        require(at_y is not None and at_y > 0, "a ray proves nothing")
        return
    d = np.concatenate([claim.ray[id] for id in claim.ray])
    held = np.isfinite(arrays.upper)
    for b, total in enumerate(arrays.totals):
        held[arrays.first[b] : arrays.first[b + 1]] |= total is not None
    used, noise = arrays.A @ d, 1e-12 * (abs(arrays.A) @ abs(d))
    over = (np.isfinite(arrays.high) & (used > noise)) | (np.isfinite(arrays.low) & (used < -noise))
    require(arrays.c @ d < 0 and (d >= 0).all() and not d[held].any() and not over.any(), "a ray leads out")


def _judge_by_highs(right: Truth, claim: Claim, tolerance: float, arrays: Arrays) -> None:
    """Status, objective and bound."""
    if right.status == "unknown":
        return
    ended = claim.status in ("optimal", "infeasible", "unbounded")
    if ended:
        if claim.status == "unbounded" and right.status == "infeasible":
            return  # its ray was checked: it would be unbounded if there was an allocation
        require(
            claim.status == right.status, claim.status, "is", right.status, right.objective, claim.objective
        )
    else:
        require(
            claim.status in ("deadline", "cancelled", "iteration_limit"),
            "status",
            claim.status,
            "where HiGHS says",
            right.status,
        )
    if right.status != "optimal":
        return
    stake = float(np.abs(arrays.c) @ np.where(np.isfinite(arrays.upper), 0.0, 0.0)) + abs(right.objective)
    noise = 1e-7 * stake + 1e-9 * float(np.abs(arrays.c).max(initial=0.0))
    require(claim.bound <= right.objective + noise, "bound", claim.bound, "above", right.objective)
    if claim.status == "optimal":
        allowed = 3.0 * tolerance * claim.size + noise
        require(
            abs(claim.objective - right.objective) <= allowed,
            "objective",
            claim.objective,
            "is",
            right.objective,
            "size",
            claim.size,
        )
