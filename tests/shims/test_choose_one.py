"""ChooseOneShim against brute force on small packing programs, and what must not change its answer."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ChooseOneShim, ContinualProgram, make_solver
from copter.errors import CopterError

seeds = st.integers(0, 2**32 - 1)


class Packing:
    """Random requests with a few columns each, on resources that are too small for all."""

    def __init__(self, seed, strict=False):
        rng = np.random.default_rng(seed)
        self.resources, self.requests = int(rng.integers(1, 4)), int(rng.integers(2, 6))
        self.widths = rng.integers(2, 5, self.requests)
        # a strict request has a column that uses nothing, so that there always is an allocation
        self.costs = [rng.uniform(-5.0, -1.0, n) for n in self.widths]
        self.usage = [rng.integers(0, 4, (self.resources, n)).astype(float) for n in self.widths]
        for costs, usage in zip(self.costs, self.usage, strict=True):
            costs[0], usage[:, 0] = 0.0, 0.0
        self.upper = rng.integers(2, 7, self.resources).astype(float)
        self.relation = ["==" if strict or rng.random() < 0.5 else "<=" for _ in self.widths]

    def program(self, order=None, more=lambda program: None):
        program = ContinualProgram()
        for row, upper in enumerate(self.upper.tolist()):
            program.add_resource(row, upper=upper)
        more(program)
        for q in range(self.requests) if order is None else order:
            usage = {row: self.usage[q][row] for row in range(self.resources)}
            program.add_request(q, self.costs[q], usage, total=1, relation=self.relation[q])
        return program

    def cost(self, choice):
        return sum(self.costs[q][j] for q, j in choice.items() if j >= 0)

    def fits(self, choice):
        used = sum((self.usage[q][:, j] for q, j in choice.items() if j >= 0), np.zeros(self.resources))
        return bool((used <= self.upper + 1e-9).all())

    def options(self, q):
        return range(0 if self.relation[q] == "==" else -1, int(self.widths[q]))

    def best(self):
        every = itertools.product(*(self.options(q) for q in range(self.requests)))
        choices = (dict(enumerate(choice)) for choice in every)
        return min(self.cost(choice) for choice in choices if self.fits(choice))


def rounded(program):
    solution = make_solver("highs-simplex").solve(program)
    return solution, ChooseOneShim().round(program, solution)


@given(seed=seeds)
@settings(max_examples=80, deadline=None)
def test_allocations_fit_and_their_gap_holds_against_brute_force(seed):
    packing = Packing(seed)
    solution, answer = rounded(packing.program())
    choice = dict(answer.choice)
    assert all(choice[q] in packing.options(q) for q in range(packing.requests))
    assert packing.fits(choice)
    assert answer.objective == pytest.approx(packing.cost(choice), abs=1e-9)
    best = packing.best()
    assert answer.objective >= best - 1e-9
    assert answer.objective - best <= answer.gap * max(solution.size, abs(answer.objective)) + 1e-9


@given(seed=seeds)
@settings(max_examples=80, deadline=None)
def test_no_request_gains_by_moving_alone(seed):
    packing = Packing(seed)
    _, answer = rounded(packing.program())
    choice = dict(answer.choice)
    for q, j in itertools.chain.from_iterable(
        ((q, j) for j in packing.options(q)) for q in range(packing.requests)
    ):
        moved = choice | {q: j}
        assert not packing.fits(moved) or packing.cost(moved) >= packing.cost(choice) - 1e-9


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_order_of_requests_and_what_nobody_uses_change_nothing(seed):
    packing = Packing(seed)

    def unused(program):
        program.add_resource("unused", upper=1.0)

    _, one = rounded(packing.program())
    _, other = rounded(packing.program(more=unused))
    assert dict(one.choice) == dict(other.choice)
    solution = make_solver("highs-simplex").solve(packing.program())
    turned = packing.program(order=reversed(range(packing.requests)))
    solver = make_solver("highs-simplex").solve(turned)
    if all(np.allclose(solution.x[q], solver.x[q]) for q in range(packing.requests)):
        assert dict(ChooseOneShim().round(turned, solver).choice) == dict(one.choice)


def test_choices_are_the_same_by_id_and_by_slot():
    packing = Packing(5)
    program = packing.program()
    program.remove_request(0)
    program.add_request("late", packing.costs[0], {0: packing.usage[0][0]}, total=1)
    _, answer = rounded(program)
    columns = answer.choice.of(program.request_slots)
    assert list(answer.choice) == program.request_ids and len(answer.choice) == len(program.request_ids)
    assert list(answer.choice.values()) == columns.tolist()
    kept = dict(answer.choice)
    program.remove_request("late")
    assert dict(answer.choice) == kept  # a choice is of the round in which it was made


def test_a_strict_request_without_room_has_no_gap():
    program = ContinualProgram()
    program.add_resource("gpu", upper=3.0)
    for q in range(2):  # fractions fit, no two columns do
        program.add_request(q, [1.0], {"gpu": 1.5}, total=1, relation="==")
    solution = make_solver("highs-simplex").solve(program)
    assert ChooseOneShim().round(program, solution).gap == pytest.approx(0.0, abs=1e-12)
    program.set_capacity("gpu", upper=2.0)
    for q in range(2):
        program.update_request(q, costs=[1.0, 5.0], usage={"gpu": [1.5, 0.5]})
    solution = make_solver("highs-simplex").solve(program)
    answer = ChooseOneShim().round(program, solution)
    assert sorted(answer.choice.values()) == [0, 1] and np.isfinite(answer.gap)
    program.set_capacity("gpu", upper=1.9)
    program.update_request(0, costs=[1.0, 5.0], usage={"gpu": [1.5, 1.0]})
    program.update_request(1, costs=[1.0, 5.0], usage={"gpu": [1.5, 1.0]})
    with pytest.raises(CopterError):
        ChooseOneShim().round(program, solution)  # it is of the program before
    program.set_capacity("gpu", upper=2.1)
    program.update_request(0, upper=[0.9, 0.6])
    solution = make_solver("highs-simplex").solve(program)
    answer = ChooseOneShim().round(program, solution)
    assert answer.choice[0] == -1 and answer.gap == np.inf


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: p.set_capacity("gpu", lower=1.0, upper=4.0), "resource 'gpu' has a lower bound"),
        (lambda p: p.update_request("b", costs=[1.0], usage={"gpu": -1.0}), "negative coefficient of resource"),
        (lambda p: p.update_request("b", total=2.0), "request 'b' has no total of 1"),
    ],
)
def test_programs_of_another_kind_are_named(spoil, message):
    program = ContinualProgram()
    program.add_resource("gpu", upper=4.0)
    for id in "ab":
        program.add_request(id, [-1.0], {"gpu": 1.0}, total=1)
    solution = make_solver("highs-simplex").solve(program)
    ChooseOneShim().round(program, solution)
    spoil(program)
    solution = make_solver("highs-simplex").solve(program)
    with pytest.raises(CopterError, match=message):
        ChooseOneShim().round(program, solution)
