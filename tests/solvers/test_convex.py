"""Convex terms: against cvxpy with Clarabel, closed forms, optimality conditions, edits and errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from copter import ContinualProgram, ConvexTerm, LogTerm, Status, make_solver
from copter.errors import EditError
from copter.proof.certificate import certify
from copter.proof.pricing import price
from copter.solution import Solution
from copter.store.allocation import NOTHING
from copter.terms.batch import TermBatch
from copter.terms.phi import proximal, touching
from support.amounts import seeds, some

INF = np.inf
INNERS = ["copter", "copter-newton", "copter-cd"]


class Quadratic(ConvexTerm):
    """phi(t) = stiffness (t - wanted)^2 / 2, by the interface's three functions and nothing else."""

    def __init__(self, stiffness, wanted, image):
        super().__init__(image, stiffness=stiffness, wanted=wanted)

    @staticmethod
    def value(t, stiffness, wanted):
        return 0.5 * stiffness * (t - wanted) ** 2

    @staticmethod
    def slope(t, stiffness, wanted):
        return stiffness * (t - wanted)

    @staticmethod
    def curvature(t, stiffness, wanted):
        return stiffness


class PlainLog(ConvexTerm):
    """-weight log(offset + t) without any of LogTerm's closed forms."""

    def __init__(self, weight, offset, image):
        super().__init__(image, weight=weight, offset=offset)

    value, slope, curvature, lowest = LogTerm.value, LogTerm.slope, LogTerm.curvature, LogTerm.lowest


@dataclass
class Request:
    costs: np.ndarray
    usage: np.ndarray
    image: np.ndarray
    kind: str
    parameters: tuple[float, float]
    total: float | None
    relation: str
    upper: np.ndarray

    def term(self):
        first, second = self.parameters
        kinds = {"log": LogTerm, "plain": PlainLog, "quadratic": Quadratic}
        return None if self.kind == "" else kinds[self.kind](first, second, self.image)


@dataclass
class Plain:
    """A random program with its twin in cvxpy."""

    requests: list[Request]
    lower: np.ndarray
    upper: np.ndarray

    def build(self) -> ContinualProgram:
        program = ContinualProgram()
        program.add_resources(range(self.upper.size), lower=self.lower, upper=self.upper)
        for k, r in enumerate(self.requests):
            rows = dict(enumerate(r.usage))
            program.add_request(
                k,
                r.costs,
                rows,
                total=r.total,
                relation=r.relation if r.total is not None else "<=",
                upper=r.upper,
                term=r.term(),
            )
        return program

    def optimum(self) -> float:
        cp = pytest.importorskip("cvxpy")
        activity, objective, constraints = 0, 0, []
        for r in self.requests:
            x = cp.Variable(r.costs.size, nonneg=True)
            activity = activity + r.usage @ x
            objective = objective + r.costs @ x
            first, second = r.parameters
            if r.kind == "quadratic":
                objective = objective + 0.5 * first * cp.square(r.image @ x - second)
            elif r.kind and first > 0:
                objective = objective - first * cp.log(second + r.image @ x)
            for j in np.flatnonzero(np.isfinite(r.upper)):
                constraints.append(x[j] <= r.upper[j])
            if r.total is not None:
                constraints.append(cp.sum(x) <= r.total if r.relation == "<=" else cp.sum(x) == r.total)
        for i in range(self.upper.size):
            if np.isfinite(self.upper[i]):
                constraints.append(activity[i] <= self.upper[i])
            if np.isfinite(self.lower[i]):
                constraints.append(activity[i] >= self.lower[i])
        problem = cp.Problem(cp.Minimize(objective), constraints)
        tight = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
        problem.solve(solver=cp.CLARABEL, **tight)
        assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
        return float(problem.value)


def random_plain(seed: int | list[int], kinds: tuple[str, ...] = ("log", "plain", "quadratic", "")) -> Plain:
    """A feasible, bounded program: each row has room for a random allocation."""
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(1, 5)), int(rng.integers(1, 9))
    requests, activity = [], np.zeros(m)
    for _ in range(k):
        n = int(rng.integers(1, 7))
        kind = str(rng.choice(kinds))
        usage = np.where(rng.random((m, n)) < 0.7, rng.uniform(0.2, 2.0, (m, n)), 0.0)
        usage[rng.integers(m), :] += 0.3  # every column uses something: no free lunch
        image = np.where(rng.random(n) < 0.8, rng.uniform(0.1, 3.0, n), 0.0)
        image[rng.integers(n)] += 0.5
        costs = rng.normal(size=n) * (rng.random() < 0.7)
        form = rng.choice(["<=", "==", "box", "wide"])
        total = float(rng.uniform(0.5, 3.0)) if form in ("<=", "==") else None
        upper = rng.uniform(0.3, 2.0, n) if form == "box" or rng.random() < 0.4 else np.full(n, INF)
        if form == "==":
            upper = upper + total
        if form == "wide":
            upper, costs = np.full(n, 100.0), abs(costs)
        parameters = (float(rng.uniform(0.1, 3.0)), float(rng.choice([0.0, 0.1, 2.0])))
        share = rng.dirichlet(np.ones(n)) * (total if total is not None else 1.0)
        activity += usage @ np.minimum(share, upper)
        relation = form if form == "==" else "<="
        requests.append(Request(costs, usage, image, kind, parameters, total, relation, upper))
    lower = np.where(rng.random(m) < 0.3, 0.5 * activity, -INF)
    return Plain(requests, lower, activity * rng.choice([1.0, 1.3, 3.0], m))


def check(solution: Solution, optimum: float, tolerance: float = 1e-5) -> None:
    scale = max(1.0, abs(optimum))
    assert solution.status is Status.OPTIMAL, (solution.status, solution.reason)
    assert solution.objective == pytest.approx(optimum, abs=tolerance * scale)
    assert solution.bound <= optimum + 1e-7 * scale
    assert solution.bound == pytest.approx(optimum, abs=tolerance * scale)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("name", INNERS)
@pytest.mark.parametrize("seed", seeds(8, 25))
def test_against_clarabel(seed, name):
    plain = random_plain(seed)
    check(make_solver(name).solve(plain.build()), plain.optimum())


@pytest.mark.parametrize("name", ["copter", "copter-newton"])
@pytest.mark.parametrize("seed", some(6, range(30, 50)))
def test_logarithms_alone_against_clarabel(seed, name):
    """Their Newton method is compiled as a whole."""
    plain = random_plain(seed, ("log", "log", ""))
    check(make_solver(name).solve(plain.build()), plain.optimum())


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_of_logarithms_is_that_of_the_general_search(seed):
    """Closed forms against the search for the argument of a slope, at prices of any kind."""
    plain, twin = random_plain([seed, 7], ("log",)), random_plain([seed, 7], ("log",))
    for request in twin.requests:
        request.kind = "plain"
    rng, logs, others = np.random.default_rng(seed), plain.build(), twin.build()
    for _ in range(10):
        y = rng.exponential(2.0, logs.store.rows.size) * (rng.random(logs.store.rows.size) < 0.8)
        first, second = price(logs.store, y), price(others.store, y)
        assert first.request_bound == pytest.approx(second.request_bound, rel=1e-9, abs=1e-9)


def fair_program(weights, capacity: float) -> ContinualProgram:
    program = ContinualProgram()
    program.add_resource("r", capacity)
    for k, weight in enumerate(weights):
        program.add_request(k, [0.0], {"r": 1.0}, term=LogTerm(weight), upper=1e3)
    return program


@pytest.mark.parametrize("name", INNERS)
def test_proportional_fairness_in_closed_form(name):
    weights, solver = np.array([1.0, 2.0, 0.5, 4.0]), make_solver(name)
    program = fair_program(weights, 6.0)
    solution = solver.solve(program)
    shares = weights / weights.sum() * 6.0
    check(solution, float(-weights @ np.log(shares)))
    np.testing.assert_allclose([solution.x[k][0] for k in range(4)], shares, rtol=1e-3)
    assert solution.price["r"] == pytest.approx(weights.sum() / 6.0, rel=1e-3)
    program.update_request(0, term=LogTerm(3.0))
    program.update_resources("r", upper=3.0)
    program.remove_request(3)
    weights, again = np.array([3.0, 2.0, 0.5]), solver.solve(program)
    shares = weights / weights.sum() * 3.0
    assert again.warm_started
    check(again, float(-weights @ np.log(shares)))
    np.testing.assert_allclose([again.x[k][0] for k in range(3)], shares, rtol=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_optimality_conditions_of_a_market(seed):
    """Linear Fisher market: buyers spend their budgets, on goods of the most utility for their price."""
    rng = np.random.default_rng(seed)
    budgets, utility = rng.uniform(0.5, 2.0, 6), rng.uniform(0.1, 1.0, (6, 4))
    program = ContinualProgram()
    for j in range(4):
        program.add_resource(j, 1.0)
    for i in range(6):
        usage = {j: ([j], [1.0]) for j in range(4)}
        program.add_request(i, np.zeros(4), usage, term=LogTerm(budgets[i], image=utility[i]), upper=1e3)
    solution = make_solver("copter", tolerance=1e-9).solve(program)
    assert solution.status is Status.OPTIMAL
    prices = np.array([solution.price[j] for j in range(4)])
    x = np.array([solution.x[i] for i in range(6)])
    np.testing.assert_allclose(x.sum(0), 1.0, atol=1e-6)
    np.testing.assert_allclose(x @ prices, budgets, atol=1e-4)
    assert prices.sum() == pytest.approx(budgets.sum(), rel=1e-5)
    bang = utility / prices
    for i in range(6):
        bought = x[i] > 1e-3
        np.testing.assert_allclose(bang[i][bought], bang[i].max(), rtol=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_any_prices_give_a_bound(seed):
    plain = random_plain(seed)
    program, rng = plain.build(), np.random.default_rng([seed, 1])
    optimum, store = plain.optimum(), program.store
    for _ in range(5):
        y = np.zeros(store.rows.size)
        for i, slot in enumerate(program.resource_slots):
            low = -rng.exponential() if np.isfinite(plain.lower[i]) else 0.0
            y[slot] = low + rng.exponential(3.0)
        assert certify(store, NOTHING, y).bound <= optimum + 1e-6 * max(1.0, abs(optimum))


@pytest.mark.parametrize("cls", [LogTerm, PlainLog, Quadratic])
def test_proximal_and_touching_points(cls):
    rng = np.random.default_rng(1)
    for _ in range(50):
        parameters = float(rng.uniform(0.1, 3.0)), float(rng.choice([0.0, 0.5, 2.0]))
        phi, _table = one_term(cls(*parameters, 1.0))
        centre, step = float(3.0 * rng.normal()), float(10.0 ** rng.uniform(-3, 3))
        t = proximal(phi, 0, centre, step)
        assert step * cls.slope(t, *parameters) + t - centre == pytest.approx(0.0, abs=1e-8)
        slope = -float(rng.uniform(0.05, 5.0))
        wanted = max(touching_of(cls, slope, parameters), 0.0)
        assert touching(phi, 0, slope) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def one_term(term):
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.add_request(0, [0.0], {"r": 1.0}, term=term, upper=1e3)
    batch = TermBatch.of(program.store)
    return batch.phi, batch.table


def touching_of(cls, slope, parameters):
    """The argument of a slope, on paper."""
    first, second = parameters
    return slope / first + second if cls is Quadratic else -first / slope - second


def test_the_program_says_what_it_solves_whatever_the_user_does_to_a_term():
    """The one that was given, of several requests at once, and those that were handed out are the user's."""
    program = ContinualProgram()
    term = LogTerm(1.0, 1.0, image=[1.0, 2.0])
    program.add_requests([0, 1], np.zeros(4), [2, 2], [{}, {}], upper=1.0, terms=term)
    for mine in (term, program.requests[0].term, program.requests[:].terms[1]):
        mine.parameters["weight"], mine.parameters["more"] = 5.0, 1.0
        mine.image[0] = 7.0
    program.update_requests([1], terms={"weight": [2.0]})
    terms = [program.requests[0].term, *program.requests[:].terms]
    assert [term.parameters for term in terms] == [{"weight": w, "offset": 1.0} for w in (1.0, 1.0, 2.0)]
    assert [term.image.tolist() for term in terms] == [[1.0, 2.0]] * 3


def test_parameters_and_bounds_of_many_at_once():
    program, ids, solver = fair_program([1.0, 2.0, 3.0], 6.0), [2, 0, 1], make_solver("copter")
    solver.solve(program)
    program.update_requests(ids, terms={"weight": [1.0, 4.0, 1.0]}, upper=[9.0, 3.0, 9.0])
    assert program.requests[0].term.parameters == {"weight": 4.0, "offset": 0.0}
    solution = solver.solve(program)  # 0 has its bound, the others share the rest
    check(solution, -4.0 * math.log(3.0) - 2.0 * math.log(1.5))
    program.update_requests([0], terms={"offset": [1.0]})
    assert program.requests[0].term.parameters == {"weight": 4.0, "offset": 1.0}
    check(solver.solve(program), -4.0 * math.log(4.0) - 2.0 * math.log(1.5))
    program.update_requests([], terms={"weight": []})
    program.update_requests(ids, upper=1.0)
    check(solver.solve(program), -4.0 * math.log(2.0))


@pytest.mark.parametrize(
    ("terms", "subject", "field"),
    [
        ({"weight": [1.0, -1.0]}, 1, "term.weight"),
        ({"weight": [1.0, math.nan]}, 1, "term.weight"),
        ({"weight": [1.0]}, "update_requests", "term.weight"),
        ({"offset": [-1.0, 1.0]}, 0, "term.offset"),
        ({"slope": [1.0, 1.0]}, "update_requests", "terms"),
    ],
)
def test_wrong_parameters_of_many_are_rejected(terms, subject, field):
    program = fair_program([1.0, 2.0], 1.0)
    with pytest.raises(EditError) as caught:
        program.update_requests([0, 1], upper=5.0, terms=terms)
    assert (caught.value.subject, caught.value.field) == (subject, field)
    assert [program.requests[k].term.parameters["weight"] for k in (0, 1)] == [1.0, 2.0]


def test_parameters_are_for_terms_of_one_class():
    program = fair_program([1.0, 2.0], 1.0)
    program.add_request("none", [0.0], {"r": 1.0}, upper=1e3)
    program.add_request("other", [0.0], {"r": 1.0}, term=Quadratic(1.0, 1.0, 1.0), upper=1e3)
    for id, why in (("none", "no convex term"), ("other", "another class")):
        with pytest.raises(EditError, match=why) as caught:
            program.update_requests([0, id, 1], terms={"weight": [1.0, 1.0, 1.0]})
        assert caught.value.subject == id


@pytest.mark.parametrize("name", INNERS)
@pytest.mark.parametrize("term", [LogTerm(2.0, 3.0), Quadratic(1.0, 2.0, 1.0)])
@pytest.mark.parametrize("closed", [{"upper": 0.0}, {"total": 0.0}, {"total": 0.0, "relation": "=="}])
def test_a_round_in_which_all_columns_are_closed(name, term, closed):
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    program.add_request("a", [-1.0, 0.0], {"r": 1.0}, term=term, **closed)
    at_0 = -2.0 * math.log(3.0) if isinstance(term, LogTerm) else 2.0
    check(make_solver(name).solve(program), at_0)
