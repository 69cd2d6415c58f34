"""Networks, where any price concerns all requests: those that were not edited are left as they are."""

import copy
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from copter import ContinualProgram
from copter.shims.flow import FlowShim
from support.audit import Audited
from support.lazy_rounds import is_lazy

LINKS, DEMANDS, PATHS, HOPS, TOLERANCE = 70, 2_400, 4, 3, 1e-3


class Network:
    """Demands of one to four paths over links that cannot carry them all."""

    def __init__(self, seed=0):
        self.rng = rng = np.random.default_rng(seed)
        self.program, self.solver = ContinualProgram(), Audited(tolerance=TOLERANCE)
        self.paths = {}
        for link in range(LINKS):
            self.program.add_resource(link, float(rng.uniform(28.0, 84.0)))
        for demand in range(DEMANDS):
            self.add(demand)
        self.next = DEMANDS

    def add(self, demand):
        paths, total = int(self.rng.integers(PATHS, 2 * PATHS)), float(self.rng.uniform(0.2, 2.0))
        over = {}
        for path in range(paths):
            for link in self.rng.choice(LINKS, HOPS, replace=False).tolist():
                over.setdefault(link, np.zeros(paths))[path] = 1.0
        self.paths[demand] = over
        self.program.add_request(demand, np.full(paths, -1.0), over, total=total)

    def change(self, count=1):
        for demand in self.rng.choice(DEMANDS, count, replace=False).tolist():
            total = self.program.requests[demand].total
            self.program.update_request(demand, total=total * float(self.rng.uniform(0.6, 1.5)))

    def solve(self):
        return self.solver.solve(self.program)

    def warm(self):
        """Solve until requests are frozen."""
        for _ in range(8):
            self.solve()
            if self.frozen:
                return self
            self.change()
        raise AssertionError("nobody is frozen")

    @property
    def frozen(self):
        inactive = self.solver._state.inactive
        return inactive is not None and inactive.fixed


def test_an_allocation_says_what_moved_since_an_earlier_one():
    network, answers = Network(5).warm(), []
    for _ in range(8):
        network.change()
        solution = network.solve()
        if is_lazy(solution):
            answers.append(solution.x)
    slots = network.program.slot_of
    known = 0
    for earlier, later in [*pairwise(answers), (answers[0], answers[-1])]:
        moved = later.moved_since(earlier)
        if moved is not None:
            known += 1
            others = {slots[id] for id in later if not np.array_equal(later[id], earlier[id])}
            assert others <= set(moved.tolist())
            assert moved.size <= 20
            some = later.of_slots(moved)
            whole = later.arrays()
            mine = np.isin(whole.slot, moved)
            for a, b in zip(some, whole.where(mine), strict=True):
                np.testing.assert_array_equal(a, b)
    assert known >= 4
    assert answers[-1].moved_since(copy.deepcopy(answers[-2])) is None


def test_an_audit_finds_losses_that_are_not_so():
    network = Network(7).warm()
    inactive = network.solver._state.inactive
    block = inactive.merged()
    lost, empty = block.parts.lost.copy(), block.take(np.empty(0, np.int64))
    lost[0] += 0.5
    block = block._replace(parts=block.parts._replace(lost=lost))
    inactive = replace(inactive, blocks=(block, empty, empty))
    network.solver._state = replace(network.solver._state, inactive=inactive)
    with pytest.raises(AssertionError, match="have another loss than recorded"):
        network.change()
        while True:
            network.solve()
            assert network.frozen
            network.change()


def blocks(x, ids):
    """Request, first and last nonzero, of each request in an allocation."""
    starts = np.flatnonzero(np.diff(x.slot, prepend=-1))
    for first, last in zip(starts.tolist(), [*starts[1:].tolist(), x.slot.size], strict=True):
        yield ids[int(x.slot[first])], first, last


def test_what_moved_may_be_gone():
    network = Network(10).warm()
    network.solver.every = 0
    network.change()
    first = network.solve().x
    network.program.remove_request(3)
    slot = next(iter(set(range(DEMANDS)) - set(network.program.slot_of.values())))
    second = network.solve().x
    moved = second.moved_since(first)
    assert moved is not None
    assert slot in moved
    assert slot not in second.of_slots(moved).slot


def test_a_large_flow_that_leaves_leaves_no_trace():
    network, shim = Network(12).warm(), FlowShim()
    program = network.program
    program.update_resources(range(LINKS), upper=1e12)
    for total in (1e9, 0.0, 0.3):
        program.update_request(5, total=total)
        for _ in range(3):
            network.change()
            flows = shim.round(program, network.solve())
    program.update_resources(range(LINKS), upper=flows.load[program.resource_slots] + 1e-3)
    for _ in range(3):
        network.change()
        flows = shim.round(program, network.solve())
    used, x = np.zeros(LINKS), flows.nonzeros
    ids = dict(zip(program.request_slots.tolist(), program.request_ids, strict=True))
    for demand, first, last in blocks(x, ids):
        for link, column in network.paths[demand].items():
            used[link] += float(column[x.column[first:last]] @ x.value[first:last])
    np.testing.assert_allclose(flows.load[program.resource_slots], used, rtol=1e-11, atol=1e-11)
    assert (used <= (1 + 1e-12) * program.store.rows.upper[program.resource_slots]).all()


def test_the_bound_holds_where_costs_are_large_and_of_both_signs():
    network = Network(13)
    program, rng = network.program, network.rng
    for number in range(200):
        costs = np.round(1e8 * rng.uniform(-1.0, 1.0, 2))
        use = {int(rng.integers(LINKS)): np.array([0.0, 1e-3])}
        program.add_request(("large", number), costs, use, total=1.0, relation="==")
    network.solver.every = 0
    network.solve()
    for number in range(6):
        program.update_request(number, total=0.7)
        solution = network.solve()
        assert solution.bound <= exact_dual(program, solution.y)
    assert is_lazy(solution)


def exact_dual(program, y):
    """The least of the Lagrangian at prices y, in rational numbers, rounded up to a double."""
    price = {link: Fraction(float(y[program.resource_slots[link]])) for link in range(LINKS)}
    dual = -sum(price[link] * Fraction(program.resources[link].upper) for link in range(LINKS))
    for record in map(program.requests.__getitem__, program.request_ids):
        reduced = [Fraction(float(cost)) for cost in record.costs]
        for link, (columns, used) in record.usage.items():
            for column, each in zip(columns.tolist(), used.tolist(), strict=True):
                reduced[int(column)] += price[link] * Fraction(each)
        least = min(reduced) if record.relation == "==" else min(0, *reduced)
        dual += least * Fraction(record.total)
    return math.nextafter(float(dual), math.inf)
