"""scipy's own tests of `linprog` and `milp`, with copter's functions in place of scipy's.

What is left out is listed with its reason, and is about the inside of methods that scipy deprecates.
"""

from __future__ import annotations

import inspect

import highspy
import pytest

import copter

linprog_suite = pytest.importorskip(
    "scipy.optimize.tests.test_linprog", reason="scipy came without its tests"
)
milp_suite = pytest.importorskip("scipy.optimize.tests.test_milp", reason="scipy came without its tests")

pytestmark = pytest.mark.filterwarnings(
    "ignore::scipy.optimize.OptimizeWarning", "ignore::DeprecationWarning"
)

DEPRECATED = ("simplex", "revised simplex", "interior-point")
SIMPLEX = ["TestLinprogSimplexDefault", "TestLinprogSimplexBland", "TestLinprogSimplexNoPresolve"]
INTERIOR = ["TestLinprogIPDense", "TestLinprogIPSparse", "TestLinprogIPSparsePresolve"]
REVISED = ["TestLinprogRSCommon", "TestLinprogRSBland"]
PRESOLVED = [*SIMPLEX[:2], *INTERIOR, *REVISED]
LEFT_OUT = {
    "HiGHS needs two iterations, and the limit is three": {
        "test_maxiter": [*SIMPLEX, *INTERIOR, *REVISED, "TestLinprogHiGHSSimplexDual"]
    },
    "what a callback is told by this method": {"test_callback": SIMPLEX + INTERIOR + REVISED},
    "the exact message of this method": {"test_optimize_result": SIMPLEX + INTERIOR + REVISED},
    "this method refuses sparse matrices": {"test_sparse_constraints": SIMPLEX + REVISED},
    "infinite x and the message of scipy's own presolve": {
        "test_unbounded_no_nontrivial_constraints_1": PRESOLVED,
        "test_unbounded_no_nontrivial_constraints_2": PRESOLVED,
    },
    "no iterations, because scipy's own presolve ends the solve": {"test_zero_column_2": PRESOLVED},
    "this method gives up: its pivot rule cycles": {"test_cyclic_bland": [SIMPLEX[0], SIMPLEX[2]]},
    "this method gives up: its tolerance is too small": {
        "test_bug_6139_low_tol": SIMPLEX[2:],
        "test_bug_8174_low_tol": [SIMPLEX[0], SIMPLEX[2]],
    },
    "this method gives up: its status 5": {"test_unbounded_below_no_presolve_corrected": REVISED},
    "this method fails with an IndexError": {"test_bounds_infeasible_2": SIMPLEX[2:]},
    "iterations of this method from x0, or its status for x0": {
        "test_nontrivial_problem_with_guess": ["TestLinprogRSCommon", "TestAutoscaleRS"],
        "test_nontrivial_problem_with_bad_guess": ["TestLinprogRSCommon", "TestAutoscaleRS"],
        "test_nontrivial_problem_with_bounded_variables": REVISED[:1],
        "test_nontrivial_problem_with_unbounded_variables": REVISED[:1],
        "test_redundant_constraints_with_guess": REVISED[:1],
    },
}
"""Tests by the reason why they are left out, and the classes in which they are."""
OUT = {(group, test) for tests in LEFT_OUT.values() for test, groups in tests.items() for group in groups}


@pytest.fixture(autouse=True)
def copter_in_place_of_scipy(monkeypatch):
    """HiGHS has no threads that a test before left: these would cost its first run, and iterations."""
    highspy.Highs.resetGlobalScheduler(True)
    monkeypatch.setattr(linprog_suite, "linprog", copter.linprog)
    monkeypatch.setattr(milp_suite, "milp", copter.milp)


def collected(name: str, member: type) -> type:
    """The class without what is left out: pytest does not take None for a test."""
    out = {test: None for group, test in OUT if group == name}
    return type(name, (member,), out) if out else member


for _suite in (linprog_suite, milp_suite):
    for _name, _member in vars(_suite).items():
        if inspect.isclass(_member) and _name.startswith("Test"):
            globals()[_name] = collected(_name, _member)
        elif inspect.isfunction(_member) and _name.startswith("test_"):
            globals()[_name] = _member


def test_all_that_is_left_out_is_of_a_deprecated_method():
    for group, test in OUT:
        assert getattr(linprog_suite, group).method in DEPRECATED or test == "test_maxiter"


@pytest.mark.parametrize("method", ["highs", "highs-ds", *DEPRECATED])
def test_a_limit_of_iterations_is_kept(method):
    costs, right = [4, 8, 3, 0, 0, 0], [185, 155, 600]
    rows = [[2, 5, 3, -1, 0, 0], [3, 2.5, 8, 0, -1, 0], [8, 10, 4, 0, 0, -1]]
    found = copter.linprog(costs, A_eq=rows, b_eq=right, method=method, options={"maxiter": 1})
    assert (found.status, found.nit, found.success) == (1, 1, False)
