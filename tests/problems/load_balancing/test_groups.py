"""GroupBalancer: answers against the exact problem, edits of groups and servers, and invalid events."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from copter import Rounds, make_solver
from copter.bench.settings import SolverSettings
from copter.problems.examples import load_balancing_groups
from copter.problems.load_balancing import GroupBalancer, LoadBalancingError
from copter.problems.load_balancing.course import Balancing
from copter.problems.load_balancing.scenario import ShardScenario


def _random(rng):
    """Return a balancer of a few groups and servers, with the data of its exact problem."""
    n, k = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    loads = rng.integers(0 if rng.random() < 0.2 else 1, 9, k).astype(float)
    sizes = rng.integers(0 if rng.random() < 0.2 else 1, 5, k).astype(float)
    there = rng.integers(0, 12, (n, k))
    waiting = rng.integers(0, 4, k) * int(rng.random() < 0.4) + (there.sum(0) == 0)
    memory = there @ sizes + rng.integers(0, 40, n) * (rng.random() < 0.5) + rng.integers(0, 12)
    balancer = GroupBalancer(float(rng.uniform(0.02, 0.3)))
    for i in range(n):
        balancer.add_server(i, memory[i])
    on = [{i: int(there[i, g]) for i in range(n) if there[i, g]} for g in range(k)]
    balancer.add_groups([f"g{g}" for g in range(k)], there.sum(0) + waiting, loads, sizes, on)
    return balancer, (loads, sizes, there, waiting, memory)


def _exact(balancer, loads, sizes, there, waiting, memory):
    """Return the least size of moved and new shards by branch and bound; None if there is no answer."""
    n, k = there.shape
    arcs = [(g, i, j) for g in range(k) for i, j in itertools.product(range(-1, n), range(n)) if i != j]
    fleet = balancer.fleet()
    lower, upper = (bound * fleet.mean for bound in fleet.band)
    rows, low, high = [], [], []
    for i in range(n):
        net = np.array([(j == i) * 1.0 - (s == i) for _, s, j in arcs])
        each, size = (np.array([of[g] for g, _, _ in arcs]) for of in (loads, sizes))
        rows += [net * each, net * size]
        low += [lower - there[i] @ loads - 1e-9, -np.inf]
        high += [upper - there[i] @ loads + 1e-9, memory[i] - there[i] @ sizes]
    for g, i in itertools.product(range(k), range(-1, n)):
        rows.append(np.array([float((h, s) == (g, i)) for h, s, _ in arcs]))
        low.append(waiting[g] if i < 0 else 0)
        high.append(waiting[g] if i < 0 else there[i, g])
    cost = np.array([sizes[g] for g, _, _ in arcs])
    found = milp(
        cost, constraints=LinearConstraint(np.array(rows), low, high), integrality=1, bounds=Bounds(0, np.inf)
    )
    return found.fun if found.success else None


def test_answers_against_branch_and_bound():
    rng, solver, seen = np.random.default_rng(5), make_solver("copter"), Counter()
    for _ in range(150):
        balancer, (loads, sizes, there, waiting, memory) = _random(rng)
        best = _exact(balancer, loads, sizes, there, waiting, memory)
        before = balancer.fleet()
        try:
            done = balancer.play(solver)
        except LoadBalancingError as error:
            assert waiting.any() and ("memory" in str(error) or "fit on the servers" in str(error))
            seen["no room"] += 1
            continue
        numbers = np.zeros_like(there)
        for g, group in enumerate(balancer.groups):
            for server, number in balancer.shards(group).items():
                numbers[server, g] = number
        assert (numbers.sum(0) == there.sum(0) + waiting).all()
        assert (numbers @ sizes <= memory * (1 + 1e-9) + 1e-9).all()
        more = np.maximum(numbers - there, 0)
        assert done.cost == pytest.approx((more @ sizes).sum()) and done.movements == more.sum()
        for server in range(len(memory)):
            came = sum(move.amount for move in done.moves if move.target == server)
            left = sum(move.amount for move in done.moves if move.source == server)
            assert came - left == pytest.approx((numbers - there)[server] @ sizes)
        load_on = numbers @ loads
        lower, upper = (bound * before.mean for bound in before.band)
        inside = bool((load_on >= lower - 1e-6).all() and (load_on <= upper + 1e-6).all())
        assert done.in_band == (inside or not loads.any())
        if best is not None:
            assert done.bound <= best + 1e-6 * (1 + best)
            seen["exists"] += 1
            seen["in band"] += done.in_band
            if done.in_band:
                assert done.cost >= best - 1e-6
                seen["least"] += done.cost <= best + 1e-6
        else:
            assert not done.in_band
        seen["waiting"] += bool(waiting.any())
        seen["moved"] += done.movements > waiting.sum()
    assert seen["exists"] > 80 and seen["waiting"] > 30 and seen["moved"] > 60 and seen["no room"] > 3
    assert seen["in band"] >= 0.8 * seen["exists"]
    assert seen["least"] >= 0.6 * seen["in band"]


def test_many_equal_shards_are_as_few_columns():
    balancer = GroupBalancer()
    for server in "abc":
        balancer.add_server(server, 1e9)
    balancer.add_group("hot", 1_000_000, 1.0, on={"a": 500_000, "b": 300_000, "c": 200_000})
    done = balancer.play()
    assert balancer.program.store.n_variables == 6
    assert done.in_band and done.gap < 1e-4
    lower, upper = (bound * 1e6 / 3 for bound in balancer.fleet().band)
    assert all(lower <= number <= upper for number in balancer.shards("hot").values())
    assert done.movements == pytest.approx(500_000 - upper, abs=1.5)


def test_edits_between_rounds():
    balancer = load_balancing_groups()
    rounds = Rounds(balancer)
    rounds.play()
    assert balancer.number == 1 and sum(balancer.shards("group 4").values()) == 5
    on_gone = sum(balancer.shards(group).get("server 2", 0) for group in balancer.groups)
    record = rounds.play(("remove_server", "server 2"), ("set_loads", {"group 3": 11.0}))
    assert record.answer.movements >= on_gone > 0 and record.answer.in_band
    assert all("server 2" not in balancer.shards(group) for group in balancer.groups)
    assert sum(move.amount for move in record.answer.moves if move.source is None) == record.answer.cost
    assert "server 2" not in balancer.program and len(balancer.program) == 4
    record = rounds.play(("add_server", "new", 400.0), ("remove_group", "group 23"))
    assert record.answer.in_band and "new" in balancer.shards("group 22")
    assert rounds.play().answer.movements == 0


def test_prepare_without_events_edits_nothing():
    balancer = load_balancing_groups()
    balancer.prepare()
    clock = balancer.program.store.clock
    balancer.prepare()
    assert balancer.program.store.clock == clock


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (("add_server", "server 1", 2.0), "server 'server 1': must not exist yet"),
        (("add_server", "x", -1.0), "memory = -1.0: must be finite and not negative"),
        (("remove_server", "x"), "server 'x': must exist; add it"),
        (("remove_group", "x"), "group 'x': must exist; add it"),
        (("add_server", ["y"], 5.0), "server ['y']: must be hashable"),
        (("add_group", "group 1", 1, 1.0), "group 'group 1': must be new, and given once"),
        (("add_group", "x", 1.5, 1.0), "group 'x': number = 1.5"),
        (("add_group", "x", 0, 1.0), "group 'x': number = 0"),
        (("add_group", "x", 1e19, 1.0), "group 'x': number = 1e+19"),
        (("add_group", "x", 3, 1.0, 1.0, {"server 1": 2, "server 2": 2}), "at least the number on servers"),
        (("add_group", "x", 3, 1.0, 1.0, {"server 1": -1}), "group 'x': number on a server = -1"),
        (("add_group", "x", 3, 1.0, 1.0, {"server 1": 0.5}), "must be whole"),
        (
            ("add_group", "x", 3, 1.0, 1.0, {"server 1": "two"}),
            "number on a server = 'two': must be a number",
        ),
        (("add_group", "x", 3, 1.0, 1.0, 5), "group 'x': on = 5: must have numbers by server"),
        (("add_group", "x", 3, 1.0, 1.0, {"y": 1}), "server 'y': must exist; add it"),
        (("add_group", "x", 3, float("nan"), 1.0), "group 'x': load = nan"),
        (("add_group", "x", 3, "much"), "group 'x': load = 'much': must be a number"),
        (("add_group", "x", 9, 1.0, 100.0, {"server 1": 9}), "server 'server 1': shards use"),
        (
            ("add_groups", ["x", "y"], [1, 2, 3], 1.0),
            "number: shape = (3,): must be () or (2,)",
        ),
        (("add_groups", ["x", "y"], 1, 1.0, 1.0, [{}]), "on: length = 1: must be 2"),
        (("set_loads", {"group 1": 1.0, "x": 2.0}), "group 'x': must exist; add it"),
        (("set_loads", {"group 1": 1.0, "group 2": -2.0}), "group 'group 2': load = -2.0"),
        (
            ("set_loads", {"group 1": 1.0, "group 2": "hot"}),
            "group 'group 2': load = 'hot': must be a number",
        ),
        (("set_loads", 5.0), "load: shape = (1,): must be () or (24,)"),
        (("set_loads", [1.0, 2.0]), "load: shape = (2,): must be () or (24,)"),
    ],
)
def test_invalid_events_change_nothing(event, words):
    balancer = load_balancing_groups()
    before = balancer.play()
    with pytest.raises(LoadBalancingError) as error:
        balancer.apply(event)
    assert words in str(error.value)
    after = balancer.play()
    assert after.movements == 0 and after.imbalance == before.imbalance
    assert (after.placement.server == before.placement.server).all()


def test_too_little_memory_is_named():
    balancer = GroupBalancer()
    with pytest.raises(LoadBalancingError, match="needs at least one server and one group"):
        balancer.play()
    balancer.add_server("a", 10.0)
    balancer.add_group("small", 4, 1.0)
    balancer.add_group("large", 3, 2.0, size=3.0)
    with pytest.raises(LoadBalancingError, match="shards: size = 13: must be at most 10, all memory"):
        balancer.play()
    balancer.remove_group("small")
    assert balancer.play().in_band
    balancer.add_group("huge", 1, 1.0, size=11.0)
    with pytest.raises(LoadBalancingError, match="group 'huge': size = 11: must be at most 10"):
        balancer.play()
    with pytest.raises(LoadBalancingError, match="tolerance = 1"):
        GroupBalancer(1)
    equal = GroupBalancer()
    for server in "ab":
        equal.add_server(server, 4.9)
    equal.add_group("nine", 9, 1.0)
    with pytest.raises(LoadBalancingError, match="number = 9: must be at most 8, which fit"):
        equal.play()


def test_large_shards_come_first_if_memory_is_short():
    balancer = GroupBalancer()
    balancer.add_server("a", 3.0)
    balancer.add_server("b", 2.0)
    balancer.add_group("hot small", 2, load=5.0)
    balancer.add_group("cold large", 1, load=1.0, size=3.0)
    balancer.play()
    assert balancer.shards("cold large") == {"a": 1} and balancer.shards("hot small") == {"b": 2}
    balancer.add_server("c", 1.0)
    balancer.add_group("other", 1, load=1.0, size=1.0)
    balancer.remove_server("c")
    with pytest.raises(LoadBalancingError, match="shards: size = 6: must be at most 5"):
        balancer.play()


def test_rounding_errors_of_the_band_move_nothing():
    balancer = GroupBalancer(11 / 15)
    for server, number in (("a", 37), ("b", 15)):
        balancer.add_server(server, 1e3)
        balancer.add_group(f"on {server}", number, 1.0, on={server: number})
    assert balancer.play().movements == 0


def test_moves_of_a_group_do_not_cancel():
    balancer = GroupBalancer(0.1)
    counts = {server: number for server, number in enumerate((9, 11, 11, 1))}
    for server in counts:
        balancer.add_server(server, 1e3)
    balancer.add_group("g", 32, 3.0, 3.0, counts)
    done = balancer.play()
    after = balancer.shards("g")
    assert done.in_band and done.cost == 3 * sum(max(after[i] - counts[i], 0) for i in counts)
    assert done.bound <= done.cost


def test_loads_far_below_the_mean_move_too():
    balancer = GroupBalancer()
    for server, number in (("a", 9_000_000), ("b", 1_000_000)):
        balancer.add_server(server, 1e9)
        balancer.add_group(server, number, 1e-12, on={server: number})
    balancer.add_group("base", 2, 1e-12, on={"a": 1, "b": 1})
    done = balancer.play()
    assert done.in_band and done.gap < 1e-3


def test_a_late_round_places_what_waits_and_a_restart_continues(tmp_path):
    balancer = load_balancing_groups()
    with Rounds(load_balancing_groups(), journal=tmp_path / "journal") as rounds:
        first = rounds.play().answer
        rounds.play(("set_loads", {"group 3": 11.0}), ("remove_server", "server 0"))
    with Rounds(balancer, journal=tmp_path / "journal") as rounds:
        assert balancer.number == 2 and "server 0" not in balancer.servers
        answer = rounds.play().answer
        assert answer.movements == 0 and answer.in_band
    assert first.movements == sum(range(1, 25))
    late = load_balancing_groups().fallback()
    assert late.movements == sum(range(1, 25)) and not list(load_balancing_groups().violations(late))


def test_the_line_of_the_suite():
    course = Balancing(ShardScenario(60, 8, 3, copies=10, distribution="lognormal"))
    records = list(course.play(SolverSettings("copter", tolerance=1e-4)).records)
    assert len(records) == 3 and all(record["in_band"] for record in records)
    assert records[0]["replicas"] == 600 and max(record["movements"] for record in records) > 0
