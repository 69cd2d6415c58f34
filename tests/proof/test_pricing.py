"""Kernels against their plain numpy twins: pricing, projection, Newton's derivatives, coordinate descent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from copter import ContinualProgram
from copter.parallel import chunk_bounds, run_chunks
from copter.proof.pricing import price
from copter.proof.pricing_kernels import KEEP_ALL
from copter.solvers.inner.descent import descend, make_feasible, usage_of_rows
from copter.solvers.inner.gather import gather
from copter.solvers.inner.newton import SemismoothNewton
from copter.solvers.inner.newton_kernels import (
    add_product,
    begin_gradients,
    curvature,
    dense_hessian,
    gradient_steps,
)
from copter.solvers.inner.sampling import Sampler
from copter.solvers.inner.working_set import WorkingSet
from support.amounts import longer
from support.numpy_twins import INF, block_minimum, project
from support.strategies import KINDS, PlainProgram, random_plain


def random_prices(rng: np.random.Generator, plain: PlainProgram, program: ContinualProgram) -> np.ndarray:
    """Prices by row slot: signs as the bounds allow, some of them 0."""
    y = np.zeros(program.store.rows.size)
    for slot, (lower, upper) in zip(program.resource_slots, plain.resources.values(), strict=True):
        value = rng.normal() * (rng.random() < 0.7)
        y[slot] = np.clip(value, -INF if lower > -INF else 0.0, INF if upper < INF else 0.0)
    return y


# ---- pricing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_pricing(kind, seed):
    rng = np.random.default_rng([seed, 1])
    plain = random_plain(rng, kind)
    program, model = plain.build(), plain.model()
    y = random_prices(rng, plain, program)
    for factor, slack in ((1.0, float(rng.random())), (0.0, float(rng.random())), (1.0, 0.0)):
        found = price(program.store, y, slack=slack, cost_factor=factor)
        p = factor * model.c + model.A.T @ y[program.resource_slots]
        bound, wanted, possible = 0.0, [], []
        for slot, (block, relation, total) in zip(program.request_slots, model.blocks(), strict=True):
            bound += block_minimum(p[block], model.upper[block], relation, total)
            n = p[block].size
            everything = not relation or n <= KEEP_ALL
            limit = (
                INF if everything else marginal_price(p[block], model.upper[block], relation, total) + slack
            )
            wanted += [(slot, j) for j in range(n) if p[block][j] <= limit - 1e-12]
            possible += [(slot, j) for j in range(n) if p[block][j] <= limit + 1e-12]
        assert found.request_bound == pytest.approx(bound, rel=1e-12, abs=1e-12)
        collected = list(zip(found.slot.tolist(), found.column.tolist(), strict=True))
        assert collected == sorted(collected) and set(wanted) <= set(collected) <= set(possible)


def marginal_price(p, upper, relation, total):
    """Price of the last column that the sum row has room for; of the cheapest one if there is no room."""
    if total == 0:
        return p.min() if relation == "==" else min(0.0, p.min())
    left, last = total, -INF
    for j in np.argsort(p, kind="stable"):
        if left <= 0 or (relation == "<=" and p[j] >= 0):
            break
        if upper[j] > 0:
            left, last = left - min(left, upper[j]), p[j]
    return last if left <= 0 and last > -INF else (-1e300 if relation == "==" else 0.0)


def test_a_sum_row_that_its_columns_cannot_meet_has_no_bound():
    program = ContinualProgram()
    program.add_request("q", [1.0, 2.0], {}, total=3.0, relation="==", upper=1.0)
    assert price(program.store, np.zeros(0)).request_bound == INF
    program.update_request("q", upper=1.5)
    assert price(program.store, np.zeros(0)).request_bound == pytest.approx(4.5)


@pytest.mark.parametrize(
    "weights", [[], [0, 0], [1], [10**6], [30_000] * 50, [1] * 10**5, [0, 2 * 10**6, 0, 5]]
)
def test_chunks_cover_everything_once_whatever_the_threads(weights):
    weights = np.array(weights, np.int64)
    bounds = chunk_bounds(weights)
    assert (bounds[0], bounds[-1]) == (0, weights.size)
    assert (np.diff(bounds) >= 0).all()
    tasks = bounds.size - 1
    assert [run_chunks(lambda k: k * k, tasks, threads) for threads in (1, 2, 5)] == [
        [k * k for k in range(tasks)]
    ] * 3


# ---- working sets ------------------------------------------------------------------------------------


def whole(program: ContinualProgram) -> WorkingSet:
    """Working set of all columns."""
    slots = np.sort(program.request_slots)
    sizes = program.store.requests.n_columns[slots]
    return gather(program.store, np.repeat(slots, sizes), np.concatenate([np.arange(n) for n in sizes]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_working_set_is_the_program_in_other_units(kind):
    rng = np.random.default_rng(6)
    plain = random_plain(rng, kind)
    model, w = plain.model(), whole(plain.build())
    x = rng.random(model.c.size)
    inside = x / w.column_scale
    m = model.row_lower.size
    other = x.copy()  # what a request pays in any case is taken off: only differences are the same
    for block, relation, _ in model.blocks():
        other[block] = x[block][::-1] if relation == "==" else 0.0
    np.testing.assert_allclose(
        w.cost_scale * (w.cost @ (inside - other / w.column_scale)), model.c @ (x - other), atol=1e-12
    )
    np.testing.assert_allclose(usage_of_rows(w, inside)[:m], w.row_scale[:m] * (model.A @ x))
    np.testing.assert_allclose(w.upper * w.column_scale, model.upper)
    np.testing.assert_allclose(w.lower_row[:m], model.row_lower * w.row_scale[:m])
    norms = np.sqrt(np.bincount(w.row, w.value**2, m))
    np.testing.assert_allclose(norms[norms > 0], 1.0)
    np.testing.assert_allclose(w.sparse(inside).value, x)
    np.testing.assert_allclose(w.values_at(w.sparse(inside)), inside)


# ---- projection --------------------------------------------------------------------------------------


@pytest.mark.parametrize("magnitude", [-3, 0, 3, 6, 9])
@pytest.mark.parametrize("count", [40, longer(150)])
def test_projection_onto_capped_simplices(magnitude, count):
    sigma = 10.0**magnitude
    for seed in range(count):
        rng = np.random.default_rng([seed, magnitude + 10])
        n, relation = int(rng.integers(1, 9)), str(rng.choice(["", "<=", "=="]))
        far = INF if relation else 9.0
        upper = rng.choice([0.0, 0.5, 1.0, 2.0, far], n) if rng.random() < 0.7 else np.full(n, far)
        total = float(min(rng.choice([0.0, 0.5, 1.0, 2.0, 3.0]), upper.sum()))
        costs = rng.integers(-2, 3, n) * 1.0 if rng.random() < 0.5 else rng.normal(size=n)
        centre = project(2 * rng.random(n), upper, relation, total) if rng.random() < 0.7 else rng.random(n)
        program = ContinualProgram()
        program.add_request(
            "q", costs, {}, total=total if relation else None, relation=relation or "<=", upper=upper
        )
        w = whole(program)
        unit = w.column_scale
        step = sigma * w.cost_scale / unit[0] ** 2
        lengths = step * unit**2 / w.cost_scale  # of columns of one sum row: all the same
        assert not relation or (unit == unit[0]).all()
        newton = SemismoothNewton(w, bool)
        found = unit * newton.evaluate(np.zeros(0), centre / unit, step).at.x
        wanted = project(centre - lengths * costs, upper, relation, total)
        # digits of x that are lost to the size of sigma * c
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 + 1e-13 * sigma, err_msg=str(seed))


# ---- Newton ------------------------------------------------------------------------------------------


def evaluation(kind: str, seed: int):
    """A working set, Newton's method on it, and a random place where psi is smooth."""
    rng = np.random.default_rng([seed, 2])
    plain = random_plain(rng, kind)
    program = plain.build()
    w = whole(program)
    y = random_prices(rng, plain, program)
    y = np.where(y == 0, 0.0, y + 0.1 * np.sign(y))
    return rng, w, SemismoothNewton(w, bool), y, rng.random(w.column.size), 0.7


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_the_derivative_of_psi(kind, seed):
    _, w, newton, y, centre, sigma = evaluation(kind, seed)
    point = newton.evaluate(y, centre, sigma)
    for i in np.flatnonzero(y):  # at y = 0 psi may have a kink
        step = np.zeros(y.size)
        step[i] = 1e-6
        high, low = newton.evaluate(y + step, centre, sigma), newton.evaluate(y - step, centre, sigma)
        assert point.gradient[i] == pytest.approx(
            (high.value - low.value) / 2e-6, abs=2e-7 * (1 + abs(point.value))
        )
    for i in np.flatnonzero((y == 0) & (w.lower_row < w.upper_row)):
        activity = usage_of_rows(w, point.at.x)[i]
        assert point.gradient[i] == pytest.approx(
            activity - np.clip(activity, w.lower_row[i], w.upper_row[i])
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_hessian_is_the_derivative_of_the_gradient(kind, seed):
    rng, w, newton, y, centre, sigma = evaluation(kind, seed)
    point = newton.evaluate(y, centre, sigma)
    m = y.size
    every = np.arange(w.slot.size), np.ones(w.slot.size)
    free, tight = point.at.free, point.at.tight
    every_row = np.arange(m)
    parts = curvature(w, free, tight, every_row, *every)
    hessian = sigma * dense_hessian(parts, every_row, m)
    for i in np.flatnonzero(y):
        step = np.zeros(m)
        step[i] = 1e-7
        high, low = newton.evaluate(y + step, centre, sigma), newton.evaluate(y - step, centre, sigma)
        if (high.at.free != low.at.free).any() or (high.at.tight != low.at.tight).any():
            continue  # a kink of the gradient
        rows = np.flatnonzero(y)  # where y = 0 the gradient is measured from the nearest point of [l, u]
        difference = (low.gradient - high.gradient) / 2e-7
        np.testing.assert_allclose(hessian[rows, i], difference[rows], atol=1e-6)
    assert np.linalg.eigvalsh(hessian).min(initial=0.0) >= -1e-12
    d, product = rng.normal(size=m), np.zeros(m)
    add_product(parts, d, product)
    np.testing.assert_allclose(sigma * product, hessian @ d, atol=1e-12)
    part = np.flatnonzero(rng.random(m) < 0.6)
    index = np.full(m, -1)
    index[part] = np.arange(part.size)
    smaller = sigma * dense_hessian(curvature(w, free, tight, index, *every), index, part.size)
    np.testing.assert_allclose(smaller, hessian[np.ix_(part, part)], atol=1e-12)
    state, along = begin_gradients(w, y, d, parts, sigma, 1e-3, 1e-12)
    assert (state.diagonal >= hessian.diagonal() + 1e-3 - 1e-12).all()
    _, ends = gradient_steps(parts, sigma, 1e-3, state, along, 50 * m)
    left = d - hessian @ state.step - 1e-3 * state.step
    assert ends and abs(left[state.rest]).max(initial=0.0) <= 1e-6 * abs(d).max()
    sampler, offsets = Sampler(w.total**2, w.slot.size // 2), (np.arange(64) + 0.5) / 64
    draws = [sampler.draw(offset) for offset in offsets]
    samples = [dense_hessian(curvature(w, free, tight, every_row, *draw), every_row, m) for draw in draws]
    np.testing.assert_allclose(sigma * sum(samples) / 64, hessian, atol=0.1 * abs(hessian).max(initial=0.0))


# ---- coordinate descent ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_descent_reaches_the_minimum_of_the_augmented_lagrangian(kind, seed):
    rng, w, _, y, centre, sigma = evaluation(kind, seed)
    eta = 1.5

    def distance(shifted):
        return shifted - np.clip(shifted, w.lower_row, w.upper_row)

    def value(x):
        far = distance(usage_of_rows(w, x) + y / eta)
        return w.cost @ x + (x - centre) @ (x - centre) / (2 * sigma) + 0.5 * eta * far @ far

    def gradient(x):
        far = distance(usage_of_rows(w, x) + y / eta)
        slopes = np.bincount(np.repeat(np.arange(x.size), np.diff(w.pointer)), w.value * far[w.row], x.size)
        return w.cost + (x - centre) / sigma + eta * slopes

    x = centre.copy()
    make_feasible(w, x)
    shifted = usage_of_rows(w, x) + y / eta
    assert descend(w, x, shifted, centre, sigma, eta, 1e-9, 10_000)
    np.testing.assert_allclose(shifted, usage_of_rows(w, x) + y / eta, atol=1e-9)
    sums = []
    for b in range(w.slot.size):
        inside = np.zeros(x.size)
        inside[w.first[b] : w.first[b + 1]] = 1.0
        if w.total[b] < INF:
            assert not w.exact[b] or w.total[b] - 1e-9 <= inside @ x
            assert inside @ x <= w.total[b] + 1e-9
            side = "eq" if w.exact[b] else "ineq"
            sums.append(
                {
                    "type": side,
                    "fun": lambda v, a=inside, t=w.total[b]: t - a @ v,
                    "jac": lambda v, a=inside: -a,
                }
            )
    assert (x >= 0).all() and (x <= w.upper).all()
    box = [(0.0, u if u < INF else None) for u in w.upper]
    best = minimize(
        value, x, jac=gradient, bounds=box, constraints=sums, method="SLSQP", options={"ftol": 1e-12}
    )
    assert value(x) <= best.fun + 1e-7 * (1 + abs(best.fun))
    # stationary: a projected gradient step of any length leads back to x
    wanted = project_all(w, x - 0.1 * gradient(x))
    np.testing.assert_allclose(x, wanted, atol=1e-6)


def project_all(w: WorkingSet, v: np.ndarray) -> np.ndarray:
    x = np.empty(v.size)
    for b in range(w.slot.size):
        part = slice(w.first[b], w.first[b + 1])
        relation = "==" if w.exact[b] else "<=" if w.total[b] < INF else ""
        x[part] = project(v[part], w.upper[part], relation, w.total[b])
    return x


def test_make_feasible_touches_only_what_is_wrong():
    program = ContinualProgram()
    program.add_request("fine", [0.0] * 3, {}, total=2.0)
    program.add_request("over", [0.0] * 3, {}, total=1.0)
    program.add_request("under", [0.0] * 3, {}, total=2.0, relation="==", upper=[0.5, 1.0, INF])
    program.add_request("box", [0.0] * 3, {}, upper=1.0)
    x = np.array([0.5, 0.0, 1.0, 0.5, 0.75, 0.25, 0.25, 0.0, 0.0, -1.0, 0.5, 3.0])
    w = whole(program)
    x /= w.column_scale
    make_feasible(w, x)
    assert x * w.column_scale == pytest.approx([0.5, 0.0, 1.0, 0.0, 0.75, 0.25, 0.5, 1.0, 0.5, 0.0, 0.5, 1.0])
