"""ChooseOneShim against brute force on small packing programs, and what must not change its answer."""

import copy
import itertools
import pickle
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ChooseOneShim, ContinualProgram, make_solver
from copter.errors import CopterError, SettingError, UnplacedError
from copter.solution import Start, Status, Timings, make_solution
from support.amounts import examples

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

    def program(self, more=lambda program: None):
        program = ContinualProgram()
        for row, upper in enumerate(self.upper.tolist()):
            program.add_resource(row, upper=upper)
        more(program)
        for q in range(self.requests):
            usage = {row: self.usage[q][row] for row in range(self.resources)}
            program.add_request(q, self.costs[q], usage, total=1, relation=self.relation[q])
        return program

    def cost(self, choice):
        return sum(self.costs[q][j] for q, j in choice.items() if j is not None)

    def fits(self, choice):
        used = sum(
            (self.usage[q][:, j] for q, j in choice.items() if j is not None), np.zeros(self.resources)
        )
        return bool((used <= self.upper).all())

    def options(self, q):
        nothing = () if self.relation[q] == "==" else (None,)
        return (*nothing, *range(int(self.widths[q])))

    def best(self):
        every = itertools.product(*(self.options(q) for q in range(self.requests)))
        choices = (dict(enumerate(choice)) for choice in every)
        return min(self.cost(choice) for choice in choices if self.fits(choice))


def rounded(program):
    solution = make_solver("highs-simplex").solve(program)
    began = perf_counter()
    answer = ChooseOneShim().round(program, solution)
    assert 0.0 < answer.seconds <= perf_counter() - began
    return solution, answer


@given(seed=seeds)
@settings(max_examples=examples(80), deadline=None)
def test_allocations_fit_and_their_gap_holds_against_brute_force(seed):
    packing = Packing(seed)
    solution, answer = rounded(packing.program())
    choice = dict(answer.choice)
    assert all(choice[q] in packing.options(q) for q in range(packing.requests))
    assert packing.fits(choice)
    assert answer.objective == pytest.approx(packing.cost(choice), abs=1e-9)
    best = packing.best()
    assert answer.objective >= best - 1e-9
    assert answer.objective - best <= answer.gap * max(solution.gap_denominator, abs(answer.objective)) + 1e-9


@given(seed=seeds)
@settings(max_examples=examples(80), deadline=None)
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
@settings(max_examples=examples(30), deadline=None)
def test_what_nobody_uses_changes_nothing(seed):
    packing = Packing(seed)

    def unused(program):
        program.add_resource("unused", upper=1.0)

    solution, one = rounded(packing.program())
    larger = packing.program(more=unused)
    same = make_solution(
        larger,
        solution.nonzeros,
        np.append(solution.y, 0.0),
        status=Status.OPTIMAL,
        reason="",
        iterations=0,
        timings=Timings(),
        warm=Start(False, ""),
    )
    other = ChooseOneShim().round(larger, same)
    assert dict(one.choice) == dict(other.choice)
    assert (one.objective, one.gap) == (other.objective, other.gap)


def test_choices_are_the_same_by_id_and_by_slot():
    packing = Packing(5)
    program = packing.program()
    program.remove_request(0)
    program.add_request("late", packing.costs[0], {0: packing.usage[0][0]}, total=1)
    _, answer = rounded(program)
    columns = answer.choice.of(program.request_slots)
    assert list(answer.choice) == program.request_ids and len(answer.choice) == len(program.request_ids)
    assert list(answer.choice.values()) == [j if j >= 0 else None for j in columns.tolist()]
    kept = dict(answer.choice)
    program.remove_request("late")
    assert dict(answer.choice) == kept  # a choice is of the round in which it was made


def test_requests_that_must_have_a_column_share_what_there_is():
    program = ContinualProgram()
    program.add_resource("gpu", upper=2.0)
    for q in range(2):
        program.add_request(q, [1.0, 5.0], {"gpu": [1.5, 0.5]}, total=1, relation="==")
    solution, answer = rounded(program)
    assert sorted(answer.choice.values()) == [0, 1] and np.isfinite(answer.gap)
    program.update_resources("gpu", upper=1.9)
    with pytest.raises(CopterError, match="edited after"):
        ChooseOneShim().round(program, solution)


def test_a_request_that_must_have_a_column_and_gets_none_cannot_be_missed():
    program = ContinualProgram()
    program.add_resource("gpu", upper=2.0)
    program.add_request("job", [1.0, 5.0], {"gpu": [1.5, 0.5]}, total=1, relation="==", upper=[0.9, 0.6])
    program.add_request("other", [-1.0], {"gpu": [0.1]}, total=1)
    program.add_request("dear", [2.0], {"gpu": [0.1]}, total=1)
    solution = make_solver("highs-simplex").solve(program)
    with pytest.raises(UnplacedError, match="no column fits for 'job', which must have one") as caught:
        ChooseOneShim().round(program, solution)
    assert caught.value.requests == ("job",)
    answer = ChooseOneShim(unplaced="allow").round(program, solution)
    assert dict(answer.choice) == dict(caught.value.rounded.choice) == {"job": None, "other": 0, "dear": None}
    assert answer.unplaced == ("job", "dear")
    assert (answer.objective, answer.gap) == (np.inf, np.inf)
    with pytest.raises(SettingError, match="unplaced"):
        ChooseOneShim(unplaced="maybe")


def test_branch_and_bound_is_asked_before_anybody_goes_without():
    program = ContinualProgram()
    for host in "ab":
        program.add_resource(host, upper=10.0)
    for size in (6, 4, 5, 5):
        usage = {host: ([k], [float(size)]) for k, host in enumerate("ab")}
        program.add_request(
            len(program.request_ids), [0.0, 0.0], usage, total=1, relation="==", integral=True
        )

    class Asked:
        def __init__(self):
            self.asked = 0

        def solve(self, program):
            self.asked += 1
            return make_solver("copter-exact").solve(program)

    solution, exact = make_solver("highs-simplex").solve(program), Asked()
    assert not ChooseOneShim(exact=exact).round(program, solution).unplaced
    assert exact.asked == 0
    program.update_resources("a", upper=9.0)
    solution = make_solver("highs-simplex").solve(program)
    with pytest.raises(CopterError):
        ChooseOneShim(exact=exact).round(program, solution)
    assert exact.asked == (1 if solution.found else 0)


@pytest.mark.parametrize("unit", [1.0, 1e9, 2.0**40])
def test_no_capacity_is_overdrawn_by_a_unit(unit):
    program = ContinualProgram()
    program.add_resource("bytes", upper=2.0 * unit + 1.0)
    for q in "ab":
        usage = {"bytes": [unit, unit + 1.0]}
        program.add_request(q, [-1.0, -2.0], usage, total=1, relation="==", integral=True)
    _, answer = rounded(program)
    used = sum(unit + answer.choice[q] for q in "ab")
    assert used <= 2.0 * unit + 1.0 and answer.objective == -3.0


@pytest.mark.parametrize(
    ("part", "capacity", "fit"), [(0.1, 1.0, 10), (0.1, 0.7, 7), (1 / 3, 1.0, 3), (0.1, 0.95, 9)]
)
def test_tenths_fill_a_whole(part, capacity, fit):
    program = ContinualProgram()
    program.add_resource("gpu", upper=capacity)
    for q in range(12):
        program.add_request(q, [-1.0], {"gpu": [part]}, total=1)
    _, answer = rounded(program)
    assert len(answer.unplaced) == 12 - fit


@pytest.mark.parametrize(
    "sizes", [(1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (2, 4, 8, 16, 32)], ids=["fine", "coarse"]
)
@pytest.mark.parametrize("seed", range(4))
def test_every_machine_finds_a_host(sizes, seed):
    """Machines ask for 97% of all cores; each must have a host, and costs more on any but its own."""
    rng, program, hosts, cores = np.random.default_rng(seed), ContinualProgram(), 20, []
    price = rng.uniform(0.4, 0.8, hosts)
    while sum(cores) + sizes[0] <= 0.97 * 64 * hosts:
        cores.append(min(int(rng.choice(sizes)), 0.97 * 64 * hosts - sum(cores)) // sizes[0] * sizes[0])
    needs = np.array([(cpu, cpu * rng.choice([2, 4, 8], p=[0.3, 0.4, 0.3])) for cpu in cores])
    for host in range(hosts):
        program.add_resources([("cpu", host), ("memory", host)], upper=[64.0, 384.0])
    for name, (cpu, memory) in enumerate(needs):
        usage = {("cpu", host): ([host], [cpu]) for host in range(hosts)}
        usage |= {("memory", host): ([host], [memory]) for host in range(hosts)}
        costs = cpu * price + (np.arange(hosts) != rng.integers(hosts)) * (0.1 + memory / 100.0)
        program.add_request(name, costs, usage, total=1, relation="==", integral=True)
    answer = ChooseOneShim().round(program, make_solver("copter", tolerance=1e-3).solve(program))
    used = np.zeros((hosts, 2))
    np.add.at(used, list(answer.choice.values()), needs)
    assert (used <= [64.0, 384.0]).all()


def test_a_solution_of_another_program_is_refused():
    one, other = Packing(1).program(), Packing(2).program()
    solutions = [make_solver("highs-simplex").solve(program) for program in (one, other)]
    with pytest.raises(CopterError, match="of another program"):
        ChooseOneShim().round(one, solutions[1])
    twin, again = copy.deepcopy(one), pickle.loads(pickle.dumps(one))
    for same in (twin, again):
        ChooseOneShim().round(same, pickle.loads(pickle.dumps(solutions[0])))
    ChooseOneShim().round(one, make_solver("highs-simplex").solve(again))
    for program in (one, twin):  # as many edits, but not the same ones
        program.update_request(0, scale=2.0)
    with pytest.raises(CopterError, match="of another program"):
        ChooseOneShim().round(one, make_solver("highs-simplex").solve(twin))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: p.update_resources("gpu", lower=1.0, upper=4.0), "'gpu': lower: must be infinite"),
        (lambda p: p.update_request("b", costs=[1.0], usage={"gpu": -1.0}), "negative coefficient"),
        (lambda p: p.update_request("b", total=2.0), "request 'b': total: must be 1"),
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


def test_a_choice_is_by_name_where_columns_have_names():
    program = ContinualProgram()
    program.add_resource("seat", upper=1.0)
    program.add_request("a", [-3.0, -1.0], {"seat": [1.0, 0.0]}, total=1, columns=["in", "out"])
    program.add_request("b", [-1.0], {"seat": 1.0}, total=1, columns=["in"])
    program.add_request("c", [1.0, -1.0], {}, total=1)
    _, answer = rounded(program)
    assert dict(answer.choice) == {"a": "in", "b": None, "c": 1}
    assert answer.choice.of(program.request_slots).tolist() == [0, -1, 1] and answer.unplaced == ("b",)
    program.price_moves(list(answer.choice), list(answer.choice.values()), 0.5)
    assert [program.requests[id].override for id in "abc"] == [{"in": -3.5}, {}, {1: -1.5}]
    program.remove_columns("a", ["in"])
    assert answer.choice["a"] == "in"
