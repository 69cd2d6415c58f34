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

from rounds.mirror import Log, Mirror
from support.numpy_twins import Model, lagrangian


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
    gap_denominator: float
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
        kind.kUnboundedOrInfeasible: "infeasible",
    }
    status = names.get(solver.getModelStatus(), "unknown")
    values = np.array(solver.getSolution().col_value) if status == "optimal" else np.empty(0)
    return status, solver.getInfo().objective_function_value, values


def truth(model: Model) -> Truth:
    """Status and objective of a program, from scratch; convex terms by tangents until they touch."""
    sums, low, high = model.sum_rows()
    matrix = csc_array(vstack([model.A, sums]))
    low, high = np.concatenate((model.row_lower, low)), np.concatenate((model.row_upper, high))
    if not model.c.size:
        met = bool(((low <= 0) & (high >= 0)).all())
        return Truth("optimal" if met else "infeasible", 0.0)
    if any(model.terms):
        return _with_terms(model, matrix, low, high)
    status, objective, _ = _highs(model.c, model.upper, matrix, low, high)
    return Truth(status, objective)


def _with_terms(model: Model, matrix: csc_array, low: np.ndarray, high: np.ndarray) -> Truth:
    """Kelley's cutting planes, one variable for each term."""
    own = [b for b, term in enumerate(model.terms) if term is not None]
    n, k = model.c.size, len(own)
    c = np.concatenate((model.c, np.ones(k)))
    upper = np.concatenate((model.upper, np.full(k, math.inf)))
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
                value, slope = _log(model.terms[b], t)
                cut = np.zeros(n + k)
                cut[model.first[b] : model.first[b + 1]] = slope * np.array(model.terms[b].image)
                cut[n + i] = -1.0
                cuts.append(cut)
                limits.append(slope * t - value)
        stacked = csc_array(vstack([wide, csc_array(np.array(cuts))]))
        below = np.concatenate((low, np.full(len(cuts), -math.inf)))
        status, objective, x = _highs(c, upper, stacked, below, np.concatenate((high, limits)), lower)
        if status != "optimal":
            return Truth("unknown", math.nan)
        images = [float(np.dot(model.terms[b].image, x[model.first[b] : model.first[b + 1]])) for b in own]
        short = [
            _log(model.terms[b], t)[0] - x[n + i] for i, (b, t) in enumerate(zip(own, images, strict=True))
        ]
        if sum(short) <= 1e-9 * (1.0 + abs(objective)):
            return Truth("optimal", objective)
        points = [[t] if s > 0 else [] for s, t in zip(short, images, strict=True)]
    return Truth("unknown", math.nan)


def _log(term: Log, t: float) -> tuple[float, float]:
    """Value and slope of a term."""
    return -term.weight * math.log(term.offset + t), -term.weight / (term.offset + t)


# ---- exact rationals ---------------------------------------------------------------------------------


def excess(model: Model, x: np.ndarray) -> tuple[float, list[tuple[float, float]]]:
    """Norm of all violations, and each as (violation, size of what it is summed up from), exactly."""
    exact = [Fraction(v) for v in x.tolist()]
    A = model.A.tocsr()
    found = []
    for i in range(A.shape[0]):
        entries = range(A.indptr[i], A.indptr[i + 1])
        terms = [Fraction(float(A.data[k])) * exact[A.indices[k]] for k in entries]
        found.append(
            (
                _over(sum(terms, Fraction(0)), model.row_lower[i], model.row_upper[i]),
                float(sum(map(abs, terms))),
            )
        )
    for block, relation, total in model.blocks():
        if relation:
            low = total if relation == "==" else -math.inf
            found.append((_over(sum(exact[block], Fraction(0)), low, total), total))
    for value, bound in zip(exact, model.upper.tolist(), strict=True):
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
    model = mirror.model()
    done = {"mirror"}
    if claim.found:
        require(list(claim.x) == list(mirror.requests), "requests of the answer")
        sizes = [value.size for value in claim.x.values()]
        require(sizes == [r.size for r in mirror.requests.values()], "columns of the answer")
        x = np.concatenate([np.empty(0), *claim.x.values()])
        _judge_allocation(model, x, claim, tolerance, exactly)
    y = np.array([claim.price[id] for id in mirror.resources])
    if exactly and not any(model.terms) and math.isfinite(claim.bound):
        at_y = lagrangian(model, y)
        done.add("rationals")
        if at_y != -math.inf:
            require(Fraction(claim.bound) <= at_y, "bound", claim.bound, "at y", float(at_y))
        else:
            done.add("bounded by rows")
    if claim.ray is not None:
        _judge_ray(model, claim)
        done.add("ray")
    if by_highs:
        done.add("highs")
        _judge_by_highs(truth(model), claim, tolerance, model)
    return done


def _judge_allocation(model: Model, x: np.ndarray, claim: Claim, tolerance: float, exactly: bool) -> None:
    """Objective, violations and gap."""
    cost, terms = float(model.c @ x), float(np.abs(model.c) @ np.abs(x))
    for b, term in enumerate(model.terms):
        if term is not None:
            cost += _log(term, float(np.dot(term.image, x[model.first[b] : model.first[b + 1]])))[0]
            terms += abs(cost)
    require(abs(cost - claim.objective) <= 1e-9 * terms + 1e-300, "objective", claim.objective, "is", cost)
    size, apart = claim.gap_denominator, claim.objective - claim.bound
    if size > 0 and math.isfinite(claim.bound) and apart > claim.rounding:
        gap = apart / size
        require(claim.gap >= gap - 1e-9 * (1.0 + terms / size), "gap", claim.gap, "is", gap)
    if exactly:
        norm, each = excess(model, x)
        noise = 1e-13 * sum(size for _, size in each)
        require(norm <= claim.absolute * (1 + 1e-6) + noise, "violation", claim.absolute, "is", norm)
    else:
        used = model.A @ x
        over = np.maximum(np.maximum(used - model.row_upper, model.row_lower - used), 0.0)
        size = abs(model.A) @ np.abs(x)
        each = [(float(v), float(s)) for v, s in zip(over, size, strict=True) if v > 0]
        sums, low, high = model.sum_rows()
        used = sums @ x
        over = np.maximum(np.maximum(used - high, low - used), 0.0)
        each += [(float(v), float(s)) for v, s in zip(over, high, strict=True) if v > 0]
        over = np.maximum(x - model.upper, -x)
        each += [(float(over[j]), float(model.upper[j])) for j in np.flatnonzero(over > 0)]
        norm = math.sqrt(sum(v * v for v, _ in each))
        noise = 1e-12 * float(size.sum() + np.abs(x).sum())
        require(norm <= claim.absolute * (1 + 1e-6) + noise, "violation", claim.absolute, "is", norm)
    if claim.status == "optimal":
        require(claim.relative <= tolerance and claim.gap <= tolerance, "optimal, by its own figures")
        for over, size in each:
            require(over <= 1.01 * tolerance * size + 1e-12 * size + 1e-300, "row over by", over, "of", size)


def _judge_ray(model: Model, claim: Claim) -> None:
    """A ray proves that there is no allocation."""
    at_y = lagrangian(model, np.array([claim.ray[id] for id in claim.price]), costs=False)
    require(at_y > 0, "a ray proves nothing")


def _judge_by_highs(right: Truth, claim: Claim, tolerance: float, model: Model) -> None:
    """Status, objective and bound."""
    if right.status == "unknown":
        return
    ended = claim.status in ("optimal", "infeasible")
    if ended:
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
    cost_range = float(np.abs(model.c) @ np.where(np.isfinite(model.upper), 0.0, 0.0)) + abs(right.objective)
    noise = 1e-7 * cost_range + 1e-9 * float(np.abs(model.c).max(initial=0.0))
    require(claim.bound <= right.objective + noise, "bound", claim.bound, "above", right.objective)
    if claim.status == "optimal":
        allowed = 3.0 * tolerance * claim.gap_denominator + noise
        require(
            abs(claim.objective - right.objective) <= allowed,
            "objective",
            claim.objective,
            "is",
            right.objective,
            "size",
            claim.gap_denominator,
        )
