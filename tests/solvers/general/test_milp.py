"""`milp` against scipy's and brute force: kinds of columns, constraints, statuses, options, errors."""

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array

from copter import linprog, milp
from copter.errors import EditError

INF = np.inf
FIELDS = ("x", "fun", "mip_node_count", "mip_dual_bound", "mip_gap")


KINDS = {
    "mixed": {"integrality": [1, 0, 1]},
    "continuous": {},
    "semi-continuous": {"integrality": [2, 2, 0], "bounds": Bounds([2.0, 3.0, 0.0], [4.0, 5.0, 6.0])},
    "semi-integer": {"integrality": [3, 0, 1], "bounds": Bounds([2.5, 0.0, 0.0], [4.5, 5.0, 6.0])},
    "bounds as a pair": {"integrality": 1, "bounds": ([0, 0, 0], 2.5)},
    "free": {"integrality": 1, "bounds": (-7.5, INF)},
}
ROWS = {
    "one": LinearConstraint([[1.0, 2.0, 1.0]], 3.3, 7.7),
    "a triple": ([[1.0, 2.0, 1.0]], 3.3, 7.7),
    "two": [LinearConstraint([[1.0, 2.0, 1.0]], 3.3, INF), LinearConstraint([1.0, 0.0, -1.0], 0.2, 0.9)],
    "tuples": (([[1.0, 2.0, 1.0]], 3.3, INF), ([[1.0, 0.0, -1.0], [0, 1, 1]], -1, [0.5, 4])),
    "sparse": LinearConstraint(csr_array([[1.0, 2.0, 1.0], [0.0, 1.0, 1.0]]), [3.3, 1.0], [INF, 9.0]),
    "equation": LinearConstraint([[1.0, 2.0, 1.0]], 6.0, 6.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", ROWS)
def test_kinds_and_constraints_are_scipy_s(kind, rows):
    given = {"constraints": ROWS[rows]} | KINDS[kind]
    truth, found = scipy.optimize.milp([3.0, 4.0, 5.0], **given), milp([3.0, 4.0, 5.0], **given)
    assert found.status == truth.status and found.success == truth.success
    assert set(truth) <= set(found)
    if truth.x is None:
        assert all(found[name] is None for name in FIELDS)
    else:
        # scipy's whole numbers are whole to 1e-6: with these fixed its optimum is that of a linear program.
        kinds = np.broadcast_to(KINDS[kind].get("integrality", 0), 3)
        box = KINDS[kind].get("bounds", Bounds(0, INF))
        box = box if isinstance(box, Bounds) else Bounds(*box)
        fixed = (kinds == 1) | (kinds > 1) & (truth.x < 1e-6) | (kinds == 3)
        low, high = (np.where(fixed, np.rint(truth.x), side) for side in (box.lb, box.ub))
        rows = {"bounds": Bounds(low, high), "constraints": given["constraints"]}
        assert found.fun == pytest.approx(scipy.optimize.milp([3.0, 4.0, 5.0], **rows).fun, abs=1e-6)


STATUSES = {
    "infeasible": ({"c": [1.0], "integrality": 1, "bounds": (0.2, 0.8)}, 2),
    "infeasible rows": ({"c": [1.0, 1.0], "integrality": 1, "constraints": ([[2.0, 2.0]], 3, 3)}, 2),
    "bounds crossed": ({"c": [1.0], "bounds": (2, 1)}, 2),
    "unbounded": ({"c": [-1.0, 0.0], "integrality": 1, "constraints": ([[1.0, -1.0]], 0.5, 0.5)}, 2),
    "unbounded whole": ({"c": [-1.0, 0.0], "integrality": 1, "constraints": ([[1.0, -1.0]], 1, 1)}, 3),
    "unbounded relaxation": ({"c": [-1.0]}, 3),
}


@pytest.mark.parametrize("case", STATUSES)
def test_statuses(case):
    given, status = STATUSES[case]
    found = milp(**given)
    assert (found.status, found.success, found.x, found.fun) == (status, False, None, None)
    assert found.message


def test_options():
    rng = np.random.default_rng(3)
    weights = rng.integers(10, 1000, (4, 60)).astype(float)
    given = {"c": -weights.sum(axis=0), "integrality": 1, "bounds": (0, 1)}
    given["constraints"] = LinearConstraint(weights, -INF, weights.sum(axis=1) / 2)
    limited = milp(**given, options={"node_limit": 1, "presolve": False, "disp": False})
    assert limited.status == 1  # as scipy's documentation has it; its code says 4
    assert not limited.success and limited.fun >= limited.mip_dual_bound
    late = milp(**given, options={"time_limit": 0})
    assert late.status == 1 and not late.success
    loose = milp(**given, options={"mip_rel_gap": 0.5})
    assert loose.status == 0 and loose.mip_gap <= 0.5
    assert loose.mip_dual_bound <= loose.fun + 1e-9
    with pytest.warns(RuntimeWarning, match="Unrecognized options.*random_seed"):
        milp([1.0], options={"random_seed": 4})


ERRORS = {
    "no columns": ({"c": []}, "c"),
    "NaN cost": ({"c": [np.nan]}, "c"),
    "kind 4": ({"c": [1.0], "integrality": 4}, "integrality"),
    "kinds of other columns": ({"c": [1.0], "integrality": [1, 1]}, "integrality"),
    "bounds of other columns": ({"c": [1.0], "bounds": ([0, 0], [1, 1])}, "bounds"),
    "no bounds": ({"c": [1.0], "bounds": "ab"}, "bounds"),
    "no constraint": ({"c": [1.0], "constraints": 3}, "constraints"),
    "rows of other columns": ({"c": [1.0], "constraints": ([[1.0, 2.0]], 0, 1)}, "constraints[0]"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_scipy_refuses_is_a_value_error_that_names_it(case):
    given, subject = ERRORS[case]
    with pytest.raises(ValueError):
        scipy.optimize.milp(**given)
    with pytest.raises(EditError) as caught:
        milp(**given)
    assert str(caught.value.subject).startswith(subject)


@pytest.mark.parametrize("low, high", [(2.0, 5.0), (2.0, INF), (3e8, 1e9), (1e-4, 1.0), (0.5, 1e30)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("room", [0.5, 1.5, 4e3])
def test_a_semi_continuous_column_is_0_or_within_its_bounds(low, high, sign, room):
    limit = room * low
    best = min(limit, high) if limit >= low else 0.0
    bounds = sorted((sign * low, sign * high))
    rows = ([[sign]], -INF, limit)
    found = milp([-sign], integrality=2, bounds=([bounds[0]], [bounds[1]]), constraints=rows)
    assert (found.status, found.fun) == (0, pytest.approx(-best, rel=1e-9))
    assert found.x[0] == 0.0 or low <= sign * found.x[0] <= high


@pytest.mark.parametrize("low, high", [(5, 3), (3.2, 3.8), (INF, INF)])
def test_a_semi_integer_column_whose_bounds_leave_no_value_is_0(low, high):
    rows = ([[1.0, 1.0]], 2.0, INF)
    found = milp([-1.0, 1.0], integrality=[3, 0], bounds=([low, 0], [high, 10]), constraints=rows)
    assert (found.status, found.fun, found.x.tolist()) == (0, 2.0, [0.0, 2.0])
    same = linprog([-1.0, 1.0], [[-1.0, -1.0]], [-2.0], bounds=[(low, high), (0, 10)], integrality=[3, 0])
    assert (same.status, same.fun) == (0, 2.0)


def test_a_semi_continuous_column_without_an_end_is_unbounded():
    found = milp([-1.0], integrality=2, bounds=([1.0], [INF]))
    assert (found.status, found.x) == (3, None)


@pytest.mark.parametrize("unit", [2.0**-30, 1e-9, 1.0, 2.0**10, 2.0**30, 1e12])
def test_units_of_rows_and_continuous_columns_change_no_status(unit):
    rng = np.random.default_rng(4)
    sizes, value = rng.integers(1, 9, 500).astype(float), -rng.integers(1, 9, 500).astype(float)
    found = milp(value, integrality=1, bounds=(0, 1), constraints=([sizes * unit], -INF, sizes.sum() * unit))
    assert (found.status, found.fun) == (0, value.sum())
    # Sites with an opening cost and a capacity, and one demand, in the same unit.
    cap, cost = rng.integers(5, 60, 40) * unit, rng.integers(1, 9, 40).astype(float)
    links = np.hstack((-np.diag(cap), np.eye(40)))
    rows = np.vstack((links, np.append(np.zeros(40), np.ones(40))))
    demand = 0.4 * cap.sum()
    low, high = np.append(np.full(40, -INF), demand), np.append(np.zeros(40), demand)
    sites = milp(
        np.append(cost, np.zeros(40)),
        integrality=[1] * 40 + [0] * 40,
        bounds=(0, [1] * 40 + [INF] * 40),
        constraints=(rows, low, high),
    )
    assert sites.status == 0
    assert sites.fun == pytest.approx(knapsack(cap / unit, cost, demand / unit), abs=1e-9)


def knapsack(cap, cost, demand):
    """The least cost of a cover of a demand, by dynamic programming over capacities that are whole."""
    total = int(np.rint(cap.sum()))
    best = np.full(total + 1, INF)
    best[0] = 0.0
    for size, price in zip(np.rint(cap).astype(int), cost, strict=True):
        best[size:] = np.minimum(best[size:], best[: total + 1 - size] + price)
    return best[int(np.ceil(demand - 1e-6)) :].min()
