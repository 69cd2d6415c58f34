"""The bound of a request with a convex term is the minimum that cvxpy finds, whatever the prices."""

import numpy as np
import pytest

from copter import ContinualProgram, ConvexTerm, LogTerm
from copter.proof.pricing import price
from support.amounts import seeds


class Hyperbola(ConvexTerm):
    """sqrt(k^2 + t^2) - rise t: falls first, then rises; only what a class must have."""

    def __init__(self, k, rise, image):
        super().__init__(image, k=k, rise=rise)

    @staticmethod
    def value(t, k, rise):
        return (k * k + t * t) ** 0.5 - rise * t

    @staticmethod
    def slope(t, k, rise):
        return t / (k * k + t * t) ** 0.5 - rise

    @staticmethod
    def curvature(t, k, rise):
        return k * k / (k * k + t * t) ** 1.5


def minimum(cp, p, image, upper, total, relation, kind, first, second):
    """min p'x + phi(a'x) over the request's own constraints, by cvxpy."""
    x = cp.Variable(p.size, nonneg=True)
    t = image @ x
    if kind is LogTerm:
        phi = -first * cp.log(second + t)
    else:
        phi = cp.norm(cp.hstack([first, t])) - second * t
    bounded = np.isfinite(upper)
    constraints = [x[np.flatnonzero(bounded)] <= upper[bounded]] if bounded.any() else []
    if total is not None:
        constraints.append(cp.sum(x) == total if relation == "==" else cp.sum(x) <= total)
    problem = cp.Problem(cp.Minimize(p @ x + phi), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return float(problem.value)


@pytest.mark.parametrize("form", ["one", "one-total", "<=", "==", "box", "wide"])
@pytest.mark.parametrize("kind", [LogTerm, Hyperbola])
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_the_bound_is_the_minimum(seed, kind, form):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng([seed, len(form)])
    n = 1 if form.startswith("one") else int(rng.integers(2, 7))
    image, usage = rng.uniform(0.2, 2.0, n), rng.uniform(0.2, 2.0, n)
    costs = rng.normal(size=n)
    upper = rng.uniform(0.3, 2.0, n) if form in ("one", "box") else np.full(n, np.inf)
    if form == "wide":
        upper = rng.choice([0.5, 20.0, 1e3], n)
    total = float(rng.uniform(0.5, 3.0)) if form in ("one-total", "<=", "==") else None
    relation = "==" if form == "==" else "<="
    parameters = float(rng.uniform(0.2, 3.0)), float(rng.uniform(0.1, 0.5))
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    term = kind(*parameters, image)
    program.add_request("q", costs, {"r": usage}, total=total, relation=relation, upper=upper, term=term)
    for y in (0.0, 0.3, 5.0):
        found = price(program.store, np.array([y]))
        wanted = minimum(cp, costs + y * usage, image, upper, total, relation, kind, *parameters)
        assert found.request_bound == pytest.approx(wanted, rel=1e-5, abs=1e-5)
