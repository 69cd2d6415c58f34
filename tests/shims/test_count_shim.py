"""CountShim and CountDomain: whole amounts, minimum amounts and covering rows, against brute force."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from copter import ContinualProgram, CountDomain, CountShim, Rounds, make_solver
from copter.errors import CopterError, EditError, SettingError
from copter.rounds.check import check_domain

INF = float("inf")
TOLERANCE = 1e-9


def drawn(rng, seen):
    """Return a program with at most 6 columns, and its minimums; count what it has."""
    program, minimum = ContinualProgram(sense=["min", "max"][int(rng.integers(2))]), {}
    seen[program.sense] += 1
    for row in range(int(rng.integers(1, 4))):
        kind = ["cover", "pack", "both"][int(rng.integers(3))]
        seen[kind] += 1
        low = float(rng.integers(1, 9)) if kind != "pack" else -INF
        program.add_resource(row, low + 4.0 if kind == "both" else [INF, 6.0][kind == "pack"], lower=low)
    for request in range(int(rng.integers(1, 4))):
        width = int(rng.integers(1, 3))
        usage = {row: rng.integers(-1, 4, width) * rng.choice([1.0, 0.5]) for row in program.resource_ids}
        seen["negative coefficient"] += any((own < 0).any() for own in usage.values())
        total = [None, 3.0][int(rng.integers(2))]
        relation = "==" if total and rng.random() < 0.3 else "<="
        seen[f"total {relation}" if total else "no total"] += 1
        costs, upper = rng.integers(-2, 9, width), rng.integers(0, 5, width).astype(float)
        program.add_request(request, costs, usage, total=total, relation=relation, upper=upper, integral=True)
        if rng.random() < 0.4:
            minimum[request] = float(rng.integers(2, 4))
            seen["minimum"] += 1
            seen["minimum above a bound"] += bool((upper < minimum[request]).any())
    return program, minimum


def best_by_hand(program, minimum):
    """Return the least cost over all whole amounts; None if nothing is feasible."""
    lp = program.to_arrays()
    least = np.repeat([minimum.get(id, 0.0) for id in program.request_ids], program.requests[:].sizes)
    x = np.array([*itertools.product(range(5), repeat=lp.c.size)], float)  # multiples of 1/2 are exact
    sums = x @ lp.A.T.toarray()
    fits = (
        (x <= lp.upper).all(1)
        & ((x == 0) | (x >= least)).all(1)
        & ((sums >= lp.row_lower) & (sums <= lp.row_upper)).all(1)
    )
    return float((x[fits] @ lp.c).min()) if fits.any() else None


def amounts_of(program, counts):
    """Return the amounts as one vector, in the order of the program's columns."""
    starts = np.concatenate(([0], np.cumsum(program.requests[:].sizes)))
    place = {slot: starts[k] for k, slot in enumerate(program.request_slots.tolist())}
    x = np.zeros(starts[-1])
    for slot, column, value in zip(*counts.nonzeros, strict=True):
        x[place[int(slot)] + int(column)] = value
    return x


def violations(program, minimum, counts):
    lp, x = program.to_arrays(), amounts_of(program, counts)
    sums, short = lp.A @ x, np.zeros(lp.row_lower.size)
    names = [*program.resource_ids]
    names += [("total", id) for id in program.request_ids if program.requests[id].total is not None]
    for k, name in enumerate(names):
        short[k] = counts.short.get(name, 0.0)
    least = np.repeat([minimum.get(id, 0.0) for id in program.request_ids], program.requests[:].sizes)
    yield from ["not whole"] * int((x != np.rint(x)).any())
    yield from ["bounds"] * int(((x < 0) | (x > lp.upper)).any())
    yield from ["minimum"] * int(((x > 0) & (x < least)).any())
    yield from ["upper"] * int((sums > lp.row_upper + TOLERANCE).any())
    yield from ["lower"] * int((sums + short < lp.row_lower - TOLERANCE).any())


class Given(CountDomain):
    def __init__(self, program, minimum):
        super().__init__()
        self.minimum.update(minimum)
        self.program = program

    def apply(self, event):
        raise AssertionError


def test_counts_against_brute_force():
    rng, seen = np.random.default_rng(3), Counter()
    for _ in range(300):
        program, minimum = drawn(rng, seen)
        best = best_by_hand(program, minimum)
        sign = -1.0 if program.sense == "max" else 1.0
        solution = make_solver("copter", tolerance=1e-6).solve(program)
        assert not list(violations(program, minimum, CountShim(minimum).repair(program, None)))
        if solution.found:
            counts = CountShim(minimum).round(program, solution)
            assert not list(violations(program, minimum, counts))
            seen["short" if counts.short else "rounded"] += 1
            assert math.isinf(counts.gap) == bool(counts.short)
            if not counts.short:
                assert best is not None
                cost = sign * counts.objective
                least = cost - counts.gap * max(abs(cost), abs(solution.bound), solution.gap_denominator)
                assert least - 1e-6 <= best <= cost + 1e-9
        record = Rounds(Given(program, minimum), "copter").play()
        if best is None:
            seen["none"] += 1
            assert record.path == "fallback"
            assert record.answer.short
        else:
            assert record.path == "solved"
            assert abs(sign * record.answer.objective - best) <= 1e-6
            assert record.answer.gap <= 1e-6
    assert min(seen.values()) >= 6, seen


class Fleet(CountDomain):
    """Services that need cores and memory from pools with quotas; one request has continuous amounts."""

    def __init__(self, services=5, pools=7):
        super().__init__()
        rng = np.random.default_rng(0)
        self.cores = 2.0 ** rng.integers(1, 6, pools)
        self.price = self.cores * rng.uniform(0.8, 1.5, pools)
        self.services, self.need = services, {}
        self.program.add_resources(list(range(pools)), upper=60.0 * self.cores)

    def apply(self, event):
        name, cores = event
        service = int(name)
        if not 0 < cores < math.inf:
            raise ValueError(f"cores = {cores}: must be positive and finite")
        if service in self.need:
            self.program.update_resource((service, "cores"), lower=cores)
        else:
            self.program.add_resource((service, "cores"), lower=cores, upper=INF)
            usage = {pool: ([pool], [own]) for pool, own in enumerate(self.cores)}
            usage[service, "cores"] = self.cores
            whole = service % 2 == 0
            self.program.add_request(service, self.price, usage, upper=50, integral=whole)
            self.minimum[service] = {1: 2, 3: 3.5}
        self.need[service] = cores

    def events(self, rng):
        for service in range(self.services):
            if service not in self.need or rng.random() < 0.4:
                yield str(service), float(rng.integers(20, 300))


def test_a_domain_of_counts_passes_the_checks_and_is_near_the_optimum():
    check_domain(Fleet, rounds=6, seed=2)
    rounds, rng = Rounds(Fleet()), np.random.default_rng(1)
    for _ in range(6):
        record = rounds.play(*rounds.domain.events(rng))
        x = record.answer.x
        for service in rounds.domain.program.request_ids:
            amounts = x[service]
            assert service % 2 or (amounts == np.rint(amounts)).all()
            assert all(not 0 < amounts[k] < least for k, least in ((1, 2), (3, 3.5)))
        assert record.answer.gap <= 0.02  # HiGHS' node limit may leave a gap
        assert record.bound <= record.answer.objective + 1e-9


def test_what_cannot_be_covered_is_told():
    rounds = Rounds(Fleet())
    rounds.play(("0", 40.0))
    record = rounds.play(("2", 50 * 127 * 10.0))
    assert record.path == "fallback"
    assert [*record.answer.short] == [(2, "cores")]
    assert record.figures["short"] == 1
    assert record.answer.objective == INF
    used = record.answer.x[2] @ rounds.domain.cores
    assert used + record.answer.short[2, "cores"] == pytest.approx(63500.0)


def test_an_integral_solution_is_kept():
    program = ContinualProgram()
    program.add_resource("need", lower=7, upper=INF)
    program.add_request("a", [2.0, 3.0], {"need": [2, 5]}, upper=9, integral=True)
    solution = make_solver("copter-exact").solve(program)
    counts = CountShim().round(program, solution)
    assert counts.objective == solution.objective == 5.0
    assert counts.gap == 0.0


@pytest.mark.parametrize(
    ("minimum", "words"),
    [
        ({"a": -1.0}, "must be finite and not negative"),
        ({"a": [1.0, INF]}, "must be finite and not negative"),
        ({"a": [1.0]}, "must be a number, 2 numbers"),
        ({"a": "two"}, "must be a number, 2 numbers"),
    ],
)
def test_wrong_minimums_are_named(minimum, words):
    program = ContinualProgram()
    program.add_request("a", [1.0, 1.0], {}, upper=4, integral=True)
    solution = make_solver("copter").solve(program)
    with pytest.raises(EditError, match=words) as raised:
        CountShim(minimum).round(program, solution)
    assert raised.value.field == "minimum"


def test_wrong_arguments():
    with pytest.raises(SettingError, match="must be a mapping"):
        CountShim([1.0])
    program = ContinualProgram()
    program.add_request("a", [1.0], {}, upper=4, integral=True)
    solution = make_solver("copter").solve(program)
    program.update_request("a", upper=3)
    with pytest.raises(CopterError, match="edited after this solution"):
        CountShim().round(program, solution)


class Needs(CountDomain):
    """Amounts of two columns that cover a need; the event is the need."""

    def __init__(self, **request):
        super().__init__()
        self.program.add_resource("need", lower=0.0, upper=INF)
        own = {"costs": [1.0, 4.0], "usage": {"need": [1.0, 1.0]}, "upper": [1.0, 10.0]} | request
        self.program.add_request("a", **own, integral=True, columns=["x", "y"])

    def apply(self, need):
        self.program.update_resource("need", lower=need)


def test_a_column_whose_bound_is_below_its_minimum_stays_at_0():
    domain = Needs()
    domain.minimum = {"a": 2}
    assert Rounds(domain).play(3.5).answer.x["a"] == {"x": 0.0, "y": 4.0}


def test_minimums_of_removed_columns_have_no_effect():
    domain = Needs()
    domain.minimum["a"] = {"x": 1, "y": 3}
    rounds = Rounds(domain)
    assert rounds.play(2.0).answer.x["a"] == {"x": 0.0, "y": 3.0}
    domain.program.remove_columns("a", ["y"])
    assert rounds.play(1.0).answer.x["a"] == {"x": 1.0}


def test_a_fallback_begins_anew_if_single_moves_cannot_keep_an_upper_bound():
    program = ContinualProgram(sense="max")
    program.add_resources(["a-b", "b-a"], upper=0.0)
    program.add_resource("cap", upper=20.0)
    usage = {"a-b": [1.0, -1.0], "b-a": [-1.0, 1.0], "cap": [1.0, 1.0]}
    program.add_request("pair", [1.0, 1.0], usage, upper=20.0, integral=True)
    shim = CountShim()
    last = shim.round(program, make_solver("copter", tolerance=1e-7).solve(program))
    program.update_resource("cap", upper=4.0)
    assert not shim.repair(program, last).short


def test_a_large_fall_of_a_need_takes_few_moves():
    domain = Needs(upper=1e9)
    rounds = Rounds(domain)
    assert rounds.play(1e8).answer.objective == 1e8
    domain.apply(10.0)
    assert domain.fallback().objective == 10.0  # with moves of one unit this would take a minute


def test_the_check_finds_answers_that_are_not_whole_or_below_a_minimum():
    domain = Needs()
    answer = Rounds(domain).play(4.0).answer
    assert not list(domain.violations(answer))
    domain.minimum = {"a": {"y": 4.0}}
    assert ["less than its minimum" in text for text in domain.violations(answer)] == [True]
    halves = replace(answer, x={"a": {"x": 0.5, "y": 4.0}})
    assert ["must be whole" in text for text in domain.violations(halves)] == [True]
    domain.minimum = {}
    domain.program.update_request("a", total=6.0, relation="==")
    assert ["of its total" in text for text in domain.violations(answer)] == [True]


@pytest.mark.parametrize("equal", [False, True])
def test_a_program_above_the_limit_of_branch_and_bound(equal):
    rng, program = np.random.default_rng(4), ContinualProgram()
    n = 60
    program.add_resources([f"pool {k}" for k in range(n)], upper=30.0)
    for s in range(40):
        need = float(rng.integers(20, 60))
        program.add_resource(s, lower=need, upper=need if equal else INF)
        usage = {f"pool {k}": ([k], [1.0]) for k in range(n)} | {s: rng.integers(1, 5, n).astype(float)}
        program.add_request(s, rng.uniform(1, 3, n), usage, upper=20.0, integral=True)
    counts = CountShim().round(program, make_solver("copter").solve(program))
    assert not list(violations(program, {}, counts))
    assert not counts.short
    assert counts.gap <= 0.2
