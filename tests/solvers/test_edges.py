"""Programs on which a word was once wrong: terms that cancel, columns that only rows hold, sizes of 0.

The oracle is a simplex on fractions (``exact_lp.py``): it shares nothing with a solver, and has no tolerance.
"""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

from copter import ProximalPoint, linprog, make_solver
from copter.errors import CopterError
from copter.shims.choose_one import ChooseOneShim
from support.amounts import longer, seeds
from support.exact_lp import solve_exactly as solve_in_fractions
from support.families import FAMILIES, judge, trial
from support.strategies import PlainProgram, PlainRequest

INF = np.inf
SOLVERS = {
    "copter": lambda: make_solver("copter"),
    "alone": lambda: ProximalPoint(fall_back=False),
    "exact": lambda: make_solver("copter-exact"),
}


def program(resources: dict, **requests) -> PlainProgram:
    """Resources id -> (lower, upper); requests id=(costs, {resource: coefficients}, fields)."""
    plain = PlainProgram(dict(resources))
    for id, (costs, usage, fields) in requests.items():
        entries = {r: {j: float(a) for j, a in enumerate(row) if a} for r, row in usage.items()}
        plain.requests[id] = PlainRequest([float(c) for c in costs], entries, **fields)
    return plain


def one_choice(total=1.0, **fields) -> dict:
    return {"total": total, "relation": "==", **fields}


def cancelling(e: float) -> PlainProgram:
    """x - y <= -1 and -x + (1 - e) y <= -1: feasible only far away, or, with e = 0, not at all."""
    return program({"a": (-INF, -1.0), "b": (-INF, -1.0)}, q=([0, 0], {"a": [1, -1], "b": [-1, 1 - e]}, {}))


def far_optimum(e: float) -> PlainProgram:
    """The only rows that hold x let it go to 2 / e."""
    return program({"a": (-INF, 1.0), "b": (-INF, 1.0)}, q=([-1, 0], {"a": [1, -1], "b": [-1, 1 + e]}, {}))


def two_and_one(unit: float) -> PlainProgram:
    """Two requests that want unit + 1 of 2 unit + 1 each."""
    usage = {"bytes": [unit, unit + 1]}
    choices = {q: ([-1, -2], usage, one_choice()) for q in "ab"}
    return program({"bytes": (-INF, 2 * unit + 1)}, **choices)


def cancelling_costs() -> PlainProgram:
    """Costs of 100 and -100 that a balance pairs: what remains is a ten-thousandth of the terms."""
    rng = np.random.default_rng(0)
    n = 20
    costs = np.r_[100 + 1e-4 * rng.random(n), -100 - 1e-4 * rng.random(n)]
    upper = 1e6 * rng.random(2 * n)
    requests = {
        f"q{j}": ([c], {"bal": [1 if j < n else -1]}, {"upper": float(u)})
        for j, (c, u) in enumerate(zip(costs, upper, strict=True))
    }
    return program({"bal": (0.0, 0.0)}, **requests)


def equal_costs() -> PlainProgram:
    """A degenerate transport whose every allocation costs the same."""
    wants = [([0, 0, 3], 3), ([2, 0, 0], 1), ([1, 2, 1], 1), ([0, 2, 2], 1), ([0, 1, 1], 3)]
    choices = {f"q{k}": ([-3] * 3, {"r": a}, one_choice(float(t))) for k, (a, t) in enumerate(wants)}
    return program({"r": (-INF, 4.0)}, **choices)


def small_transport() -> PlainProgram:
    """Two by two, of which every allocation is optimal."""
    rows = {"s0": (-INF, 1.0), "s1": (-INF, 1.0)}
    choices = {d: ([-1, -1], {"s0": [1, 0], "s1": [0, 1]}, one_choice()) for d in "ab"}
    return program(rows, **choices)


def meeting(e: float) -> PlainProgram:
    """At least 2 by one row, at most 2 by another that counts two of three columns a little more."""
    return program(
        {"low": (2.0, INF), "high": (-INF, 2.0)},
        q=([3, 2, 3], {"low": [4, 1, 1], "high": [4 + 2 * e, 1 + e, 1]}, {"upper": 10.0}),
    )


EDGES = {
    **{f"far feasible {e:g}": cancelling(e) for e in (0.0, 1e-10, 1e-8, 1e-7, 2e-7, 1e-3)},
    **{f"far optimum {e:g}": far_optimum(e) for e in (0.0, 1e-10, 1e-8, 1e-7, 2e-7, 1e-3)},
    "a cost that no row holds": program({"bal": (0.0, 0.0)}, q=([100, -100.0001], {"bal": [1, -1]}, {})),
    "a cost that a far row holds": program(
        {"d": (-INF, 1.0), "far": (-INF, 1e9)},
        q=([-(1 + 1e-7), 1, 0], {"d": [1, -1, 0], "far": [1, 0, 1]}, {}),
    ),
    **{f"two and one {unit:g}": two_and_one(unit) for unit in (1.0, 1e5, 1e8, 1e9, 1e10, 1e12)},
    "cancelling costs": cancelling_costs(),
    "a ray without a point": program(
        {"e": (100.0, 100.0), "a": (100.5, INF)}, x=([0, -3], {"e": [1, -1], "a": [1, -1]}, {})
    ),
    "equal costs": equal_costs(),
    "a small transport": small_transport(),
    **{f"rows that meet in one point {e:g}": meeting(e) for e in (1e-3, 1e-6)},
    "one row, three columns": program({"r": (4.0, 4.0)}, q=([0, 0, 1], {"r": [-2, 2, 2]}, {})),
}


def solve_exactly(plain: PlainProgram) -> tuple:
    """Status and optimum in fractions, found once for each program with the same figures."""
    model = plain.model()
    key = pickle.dumps(model)
    if key not in SOLVED:
        SOLVED[key] = solve_in_fractions(model)
    return SOLVED[key]


SOLVED: dict[bytes, tuple] = {}


def check(plain: PlainProgram, solution, tolerance: float = 1e-6) -> None:
    """Status, bound and objective against exact arithmetic; a ray, where there is one, in fractions."""
    status, optimum = solve_exactly(plain)
    assert solution.status == status, solution.reason
    assert not judge(plain.model(), plain.build(), solution)
    if status == "optimal":
        assert solution.bound <= optimum
        assert solution.gap <= tolerance
        assert (
            abs(solution.objective - float(optimum))
            <= 2 * tolerance * max(solution.gap_denominator, abs(float(optimum) - solution.constant_cost))
            + 4 * solution.rounding
        )


SLOW = {("alone", f"far optimum {e:g}") for e in (1e-10, 1e-7, 2e-7)} | {("alone", "far feasible 1e-10")}
"""Where the method alone takes seconds; it ends the same way at the other distances."""


@pytest.mark.parametrize(
    ("solver", "name"),
    [longer(*each) if each in SLOW else each for each in product(("copter", "alone"), EDGES)],
)
def test_the_word_at_an_edge(solver, name):
    check(EDGES[name], SOLVERS[solver]().solve(EDGES[name].build()))


def test_rows_of_a_small_program_are_met_closely_where_that_decides():
    """What meets them to the tolerance costs a quarter of what meets them: nothing less is an optimum."""
    solution = ProximalPoint().solve(meeting(1e-8).build())
    if solution.status != "unproved":
        check(meeting(1e-8), solution)
    assert solution.bound <= solve_exactly(meeting(1e-8))[1]


def test_a_violation_is_not_hidden_by_what_another_column_could_use():
    rows = {"node": (-INF, 2e12), "o0": (-INF, 100.0), "o1": (-INF, 100.0)}
    plain = program(
        rows,
        bytes=([0.5, 0], {"node": [1, 0]}, one_choice(2e12)),
        job=([-1, 0], {"node": [1, 0], "o0": [1, 1], "o1": [1, 1]}, {"total": 1.0}),
    )
    built, solver = plain.build(), ProximalPoint()
    check(plain, solver.solve(built))
    plain.resources["node"] = (-INF, 0.0)
    built.update_resources("node", upper=0.0)
    solution = solver.solve(built)
    check(plain, solution)
    assert solution.x["job"][0] <= 1e-6  # no unit of the node is left for it


def test_after_an_edit_an_objective_is_not_below_its_own_bound():
    plain = program(
        {"net": (-INF, 1.0), "floor": (1e8, INF)}, q=([-1, 1], {"net": [1, -1], "floor": [1, 0]}, {})
    )
    built, solver = plain.build(), ProximalPoint()
    check(plain, solver.solve(built))
    plain.resources |= {"net": (-INF, -5.0), "floor": (0.0, INF)}
    built.update_resources("floor", lower=0.0)
    built.update_resources("net", upper=-5.0)
    check(plain, solver.solve(built))


@pytest.mark.parametrize("far", [1.0, 1e8, 1e12])
def test_a_far_start_makes_no_program_feasible(far):
    plain = cancelling(0.0)
    built = plain.build()
    built.update_request("q", start={0: far, 1: far})
    check(plain, ProximalPoint().solve(built))


def test_small_coefficients_are_not_dropped():
    held = linprog([1], [[-1e-10]], [-1])
    assert held.status == 0 and held.fun == pytest.approx(1e10, rel=1e-6)
    far = linprog([-1], [[1e-10]], [1])
    assert far.status == 0 and far.fun == pytest.approx(-1e10, rel=1e-6)


def test_a_request_whose_columns_are_all_closed_keeps_its_sum():
    plain = program(
        {"c": (-INF, 5.0)},
        a=([1, -9], {"c": [0, 3]}, one_choice(integral=True)),
        b=([-4, -7], {"c": [1, 3]}, {"total": 1.0, "upper": 0.5, "integral": True}),
    )
    solution = SOLVERS["exact"]().solve(plain.build())
    assert solution.status == "optimal" and solution.integer.proven
    assert solution.objective == solution.integer.bound == -9.0


def test_a_shim_refuses_the_solution_of_another_program():
    one, other = two_and_one(1.0), equal_costs().build()
    solution = ProximalPoint().solve(one.build())
    with pytest.raises(CopterError, match="another program"):
        ChooseOneShim().round(other, solution)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_families(family, seed):
    """Cold, after edits and anew; ``python tests/support families N`` draws any number of them."""
    assert [wrong for wrong in trial(family, 1_000_000 + seed) if wrong] == []
