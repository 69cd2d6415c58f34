"""Newton's sums: the same bits for any number of threads, and those of the matrix."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import ContinualProgram
from copter.solvers.inner.gather import gather
from copter.solvers.inner.newton import SemismoothNewton
from copter.solvers.inner.newton_kernels import add_product, curvature, dense_hessian
from copter.solvers.inner.sums import Sums
from copter.solvers.inner.tuning import NewtonSystems, NewtonTuning
from support.amounts import longer


def working_set(requests, columns, rows, seed):
    """Requests with two entries a column, totals and bounds on some columns."""
    rng = np.random.default_rng(seed)
    program, n = ContinualProgram(), requests * columns
    for row in range(rows):
        program.add_resource(row, 0.3 * requests / rows, lower=0.1 if row % 3 == 0 else 0.0)
    at = np.argsort(rng.random((n, rows)), axis=1)[:, :2].astype(np.int32)
    usage = csc_array(
        (rng.uniform(0.5, 1, 2 * n), np.sort(at).ravel(), np.arange(0, 2 * n + 1, 2)), (rows, n)
    )
    costs, totals = -rng.uniform(0.5, 1, n), rng.uniform(0.5, 1.5, requests)
    program.add_requests(range(requests), costs, [columns] * requests, usage, totals=totals)
    slots = program.request_slots
    working = gather(program.store, np.repeat(slots, columns), np.tile(np.arange(columns), requests))
    upper = np.where(rng.random(n) < 0.5, 0.4 * working.total[working.block], np.inf)
    return replace(working, upper=upper)


def answers(working, tuning, threads, enough):
    """Three steps, as bytes: the third begins where the second did, the second where the first ended."""
    newton = SemismoothNewton(working, bool, threads, tuning)
    y, centre, found = np.zeros(working.lower_row.size), np.zeros(working.column.size), []
    for sigma, go_on in ((1.0, True), (4.0, False), (2.0, True)):
        result = newton.solve(y, centre, sigma, 1e-9, 40, enough)
        figures = result.left, result.residual, result.paid, result.off
        found.append((result.x.tobytes(), result.y.tobytes(), result.converged, result.iterations, figures))
        y, centre = result.y, result.x if go_on else centre
    return found


DENSE = NewtonTuning(hessian_blocks=2_000)
GRADIENTS = NewtonTuning(systems=NewtonSystems(dense_rows=5), hessian_blocks=10)
CASES = {
    "few rows": ((9_000, 8, 7), DENSE),
    "many rows": ((20_000, 4, 60), GRADIENTS),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    (requests, columns, rows), tuning = CASES[request.param]
    working = working_set(requests, columns, rows, 3)
    assert Sums(working).bounds.size > 3
    return working, tuning


@pytest.mark.parametrize("enough", [0.0, longer(1e-3)])
def test_any_number_of_threads_leads_to_the_same_answer(case, enough):
    working, tuning = case
    wanted = answers(working, tuning, 1, enough)
    assert all(answers(working, tuning, threads, enough) == wanted for threads in (2, 3))


def test_sums_are_those_of_the_matrix(case):
    working, _ = case
    rng = np.random.default_rng(1)
    y, centre = rng.normal(size=working.lower_row.size) * 0.1, rng.random(working.column.size)
    sums = Sums(working)
    matrix = csc_array((working.value, working.row, working.pointer), (y.size, working.column.size))
    sums.begin(centre, 0.7)
    at = sums.project(y)
    np.testing.assert_allclose(at.activity, matrix @ at.x, rtol=1e-12)
    np.testing.assert_allclose(at.square, at.x @ at.x, rtol=1e-12)
    np.testing.assert_allclose(sums.moved(at), (at.x - centre) @ (at.x - centre), rtol=1e-12)
    assert at.tight.any() and not at.free[at.x == 0].any()
    every = np.arange(working.slot.size), np.ones(working.slot.size)
    parts = curvature(working, at.free, at.tight, np.arange(y.size), *every)
    owner = np.repeat(np.arange(working.slot.size), np.diff(working.first))
    count = np.bincount(owner, at.free)
    mean = np.where(at.tight & (count > 0), 1.0 / np.sqrt(np.maximum(count, 1.0)), 0.0)
    blocks = csc_array((np.where(at.free, mean[owner], 0.0), (np.arange(owner.size), owner)))
    free, means = matrix[:, at.free], matrix @ blocks
    h = (free @ free.T - means @ means.T).toarray()
    scale = abs(h).max()
    np.testing.assert_allclose(dense_hessian(parts, np.arange(y.size), y.size), h, rtol=0, atol=1e-12 * scale)
    d, product = rng.normal(size=y.size), np.zeros(y.size)
    add_product(parts, d, product)
    np.testing.assert_allclose(product, h @ d, rtol=1e-9, atol=1e-9 * scale)
