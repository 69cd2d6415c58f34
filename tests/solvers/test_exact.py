"""`copter-exact`: rounds, ties, units, gaps and limits; brute force is in `test_exact_integers.py`."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from copter import ContinualProgram, make_solver
from copter.errors import CopterError
from copter.shims.choose_one import ChooseOneShim
from copter.solution import Status
from copter.solvers.exact import search
from copter.solvers.milp import MilpAnswer
from copter.store.compiled import compile_program


def packing(seed, requests=12, columns=30):
    """Requests that choose one of many columns, and rows with whole capacities."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    for r in range(3):
        program.add_resource(r, float(rng.integers(6, 20)))
    for q in range(requests):
        add_choice(program, q, rng, columns)
    return program


def add_choice(program, id, rng, columns=30):
    kind, amount = rng.integers(3, size=columns), rng.integers(1, 6, columns)
    usage = {r: np.where(kind == r, amount, 0).astype(float) for r in range(3)}
    costs = -np.sqrt(amount) * rng.uniform(1.0, 2.0) + rng.normal(scale=0.1, size=columns)
    program.add_request(id, costs, usage, total=1.0, integral=True)


def by_highs(program):
    """Cost of an optimum by scipy's own matrix of the whole program."""
    whole = compile_program(program)
    rows = LinearConstraint(whole.A, whole.row_lower, whole.row_upper)
    found = milp(
        whole.c,
        constraints=rows,
        integrality=whole.integrality.astype(int),
        bounds=Bounds(whole.lower, whole.upper),
        options={"mip_rel_gap": 0.0},
    )
    return found.fun


def test_rounds_of_edits_stay_optimal():
    rng = np.random.default_rng(7)
    program, solver = packing(7), make_solver("copter-exact")
    for step in range(6):
        solution = solver.solve(program)
        assert solution.integer.proven
        assert solution.objective == pytest.approx(by_highs(program), rel=1e-6)
        assert solution.warm_started == (step > 0)
        program.remove_request(program.request_ids[0])
        add_choice(program, f"new {step}", rng)
        program.update_request(program.request_ids[0], scale=float(rng.uniform(0.5, 2.0)))


def test_a_little_of_a_dear_column_may_be_what_is_best():
    """Its reduced cost is far above the gap, but a tenth of it makes room for a whole request."""
    program = ContinualProgram()
    program.add_resource("r", 5.9)
    for q in range(20):
        program.add_request(q, [-10.0 - 1e-3 * q], {"r": [1.0]}, total=1.0, integral=True)
    program.add_request("split", [0.0, 60.0], {"r": [1.0, 0.0]}, total=1.0, relation="==")
    solution = make_solver("copter-exact").solve(program)
    assert solution.integer.proven
    assert solution.objective == pytest.approx(-50.085 + 6.0, abs=1e-6)
    assert solution.integer.bound <= -44.085 + 1e-6


@pytest.mark.parametrize("tiny", [1e-19, 1e-15, 1e-9])
def test_a_row_may_have_a_tiny_coefficient(tiny):
    """HiGHS rejects coefficients from 1e15 on, and so a row that is divided by its smallest one."""
    rng, program = np.random.default_rng(0), ContinualProgram()
    for r in range(3):
        program.add_resource(r, 7.0)
    for q in range(20):
        usage = {r: rng.uniform(0.5, 3.0, 5) for r in range(3)}
        usage[q % 3][rng.integers(5)] = tiny
        program.add_request(q, -rng.uniform(1.0, 3.0, 5), usage, total=1.0, integral=True)
    found = make_solver("copter-exact").solve(program)
    assert found.status == "optimal" and found.objective == pytest.approx(by_highs(program), abs=1e-6)


def test_of_equal_optima_the_last_one_is_kept():
    program = ContinualProgram()
    program.add_resource("slot", 3.0)
    for q in range(6):
        program.add_request(q, [-1.0, -0.5], {"slot": [1.0, 1.0]}, total=1.0, integral=True)
    solver = make_solver("copter-exact")
    first = solver.solve(program).x.choices()
    assert sum(column is not None for column in first.values()) == 3
    for _ in range(3):
        program.update_requests(list(range(6)), scales=np.full(6, 1.5))
        assert solver.solve(program).x.choices() == first
    taken = [q for q, column in first.items() if column is not None]
    program.remove_request(taken[0])
    again = solver.solve(program).x.choices()
    assert all(again[q] == 0 for q in taken[1:])


def test_without_time_the_best_allocation_comes_with_its_gap(monkeypatch):
    """Time is up in the first run of branch and bound, and the shim's allocation is there."""
    program, runs = packing(5), []
    best = make_solver("copter-exact").solve(program).objective

    def late(rest, *_, **__):
        runs.append(rest)
        return MilpAnswer(None, Status.DEADLINE, "", -np.inf, np.inf, 0)

    monkeypatch.setattr(search, "branch_and_bound", late)
    solution = make_solver("copter-exact").solve(program, time_limit=1e6)
    assert len(runs) == 1
    assert solution.status is Status.DEADLINE and solution.found and not solution.integer.proven
    assert solution.bound <= solution.integer.bound <= best + 1e-9 <= solution.objective + 2e-9
    lost = solution.objective - solution.integer.bound
    assert solution.integer.gap == pytest.approx(lost / solution.gap_denominator, rel=1e-9)
    assert solution.integer.gap > 1e-9


def test_too_many_columns_are_said_to_be_too_many():
    program = packing(2)
    solution = make_solver("copter-exact", most_columns=3).solve(program)
    assert not solution.integer.proven
    assert solution.status is Status.ITERATION_LIMIT
    assert "more than the setting most_columns" in solution.reason
    assert solution.objective == pytest.approx(ChooseOneShim().round(program, solution).objective)


def without_a_shim(seed, capacity=50.0):
    """Requests of two units, which ChooseOneShim does not round."""
    rng, program = np.random.default_rng(seed), ContinualProgram()
    program.add_resource("r", capacity)
    for q in range(30):
        usage = rng.integers(1, 6, 20).astype(float)
        program.add_request(q, -rng.uniform(1, 5, 20), {"r": usage}, total=2.0, upper=1.0, integral=True)
    return program


@pytest.fixture
def runs(monkeypatch):
    """Columns, and the gap in units of costs, that each branch and bound was given."""
    seen, plain = [], search.branch_and_bound

    def spy(rest, clock, start, gap, **more):
        seen.append((rest.slot.size, gap * rest.unit))
        return plain(rest, clock, start, gap, **more)

    monkeypatch.setattr(search, "branch_and_bound", spy)
    return seen


def test_without_a_first_allocation_columns_may_be_too_many_too(runs):
    solution = make_solver("copter-exact", most_columns=10).solve(without_a_shim(1))
    assert (solution.status, solution.found, runs) == (Status.ITERATION_LIMIT, False, [])
    assert "more than the setting most_columns" in solution.reason
    assert make_solver("copter-exact").solve(without_a_shim(1)).integer.proven
    assert runs


def test_ties_are_settled_only_among_as_many_columns_as_branch_and_bound_is_given(runs):
    for most in (100_000, 10):
        runs.clear()
        rng, program = np.random.default_rng(1), packing(1, requests=60, columns=40)
        program.update_resources(range(3), upper=[40.0] * 3)
        solver = make_solver("copter-exact", integer_gap=0.02, most_columns=most)
        for _ in range(4):
            assert solver.solve(program).integer.proven
            program.update_requests(range(60), scales=rng.uniform(0.9, 1.1, 60))
        assert all(columns <= most for columns, _ in runs)
        assert bool(runs) == (most > 10)


@pytest.mark.parametrize("seed,gap", [(0, 1e-3), (1, 1e-3), (1, 5e-3), (3, 1e-3)])
def test_branch_and_bound_may_end_at_the_gap_that_is_wanted(seed, gap, runs):
    solution, best = (
        make_solver("copter-exact", integer_gap=gap).solve(packing(seed)),
        by_highs(packing(seed)),
    )
    assert solution.integer.proven and solution.integer.gap <= gap
    assert solution.integer.bound <= best + 1e-9 <= solution.objective + 2e-9
    assert runs
    assert all(0.5 * gap * abs(best) < left_open < gap * abs(best) for _, left_open in runs)


@pytest.mark.parametrize("finishes", [True, False])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_neighbourhoods_grow_until_one_does_not_finish(seed, finishes, monkeypatch):
    """Prices count as fixing little; then all columns follow only on a search that was stopped."""
    program, seen, plain = packing(seed, 20), [], search.branch_and_bound
    monkeypatch.setattr(search, "_MUCH", 0.0)
    monkeypatch.setattr(search, "_MUCH_AT_LEAST", 0)
    monkeypatch.setattr(search, "_FEW", 2)
    monkeypatch.setattr(search.Search, "_break_ties", lambda self: None)

    def spy(rest, clock, start, gap, *, whole, isolated):
        seen.append((rest.slot.size, whole))
        if not finishes and len(seen) == 1:
            return MilpAnswer(None, Status.DEADLINE, "", -np.inf, np.inf, 0)
        return plain(rest, clock, start, gap, whole=whole, isolated=isolated)

    monkeypatch.setattr(search, "branch_and_bound", spy)
    solution = make_solver("copter-exact").solve(program)
    assert solution.integer.proven
    assert solution.objective == pytest.approx(by_highs(program), rel=1e-6)
    sizes, whole = zip(*seen, strict=True)
    assert whole == (False, *[not finishes] * (len(seen) - 1)) and len(seen) > 1
    assert sizes[1] > sizes[0]


def test_only_branch_and_bound_says_that_there_is_no_allocation(monkeypatch):
    plain, plain_answer = search.branch_and_bound, make_solver("copter-exact").solve(without_a_shim(2))

    def careless(rest, clock, start, gap, **more):
        answer = plain(rest, clock, start, gap, **more)
        return answer if answer.x is None else replace(answer, x=rest.lp.upper)

    monkeypatch.setattr(search, "branch_and_bound", careless)
    solution = make_solver("copter-exact").solve(without_a_shim(2))
    # what does not keep all rows is searched once more, in exact arithmetic
    assert (solution.status, solution.found) == (plain_answer.status, plain_answer.found)
    assert solution.objective == pytest.approx(plain_answer.objective, rel=1e-12)


def test_the_shim_leaves_an_integral_answer_as_it_is():
    program = packing(4)
    solution = make_solver("copter-exact").solve(program)
    rounded = ChooseOneShim().round(program, solution)
    assert rounded.choice == solution.x.choices()
    assert (rounded.objective, rounded.gap) == (solution.objective, solution.integer.gap)


def test_the_shim_does_not_take_several_columns_of_a_request_for_one():
    program = ContinualProgram()
    program.add_resource("r", 7.0)
    program.add_request("a", [-1.0, -2.0], {"r": [1.0, 3.0]}, total=3.0, upper=2.0, integral=True)
    solution = make_solver("copter-exact").solve(program)
    assert solution.x["a"].tolist() == [1.0, 2.0]
    with pytest.raises(CopterError, match="total: must be 1"):
        ChooseOneShim().round(program, solution)


def test_state_goes_on_in_another_solver():
    program, solver = packing(8), make_solver("copter-exact")
    solver.solve(program)
    state = solver.save_state(program)
    other = make_solver("copter-exact")
    other.load_state(program, state)
    program.update_request(program.request_ids[0], scale=0.7)
    mine, others = solver.solve(program), other.solve(program)
    assert mine.x.choices() == others.x.choices()
    assert mine.churn == others.churn
