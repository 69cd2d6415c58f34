"""Rounds after few changes, against a balancer made anew; a deadline is that of the whole round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import make_solver
from copter.problems.load_balancing import LoadBalancer, LoadBalancingError
from copter.problems.load_balancing.scenario import ShardScenario
from copter.problems.load_balancing.workload import few_changed, zipf_loads
from copter.solvers.base import takes_start
from support.amounts import examples
from support.ticking import tick


def anew(balancer):
    """Balancer made from what another shows of itself, with a program of its own."""
    fleet, fresh = balancer.fleet(), LoadBalancer(balancer.tolerance)
    for server, memory in zip(balancer.servers, fleet.memory, strict=True):
        fresh.add_server(server, memory)
    fresh.add_shards(balancer.shards, fleet.loads, fleet.sizes)
    fresh.take(balancer.placement())
    return fresh


def solved(balancer, solver):
    """A round in which the program is solved whatever changed."""
    balancer.prepare()
    start = balancer.start()
    if start is not None and takes_start(solver):
        solver.start_from(balancer.program, *start)
    done = balancer.place(solver.solve(balancer.program))
    balancer.accept(done)
    return done


def check(balancer, done):
    """Whether all promises are kept, from the placement alone; shares are those of the balancer now."""
    fleet, there = balancer.fleet(), done.placement
    n, mean = fleet.memory.size, fleet.loads.sum() / fleet.memory.size
    assert np.bincount(there.shard, there.share, fleet.loads.size) == pytest.approx(1.0)
    used = np.bincount(there.server, fleet.sizes[there.shard], n)
    assert (used <= fleet.memory * (1 + 1e-9)).all()
    on = np.bincount(there.server, there.share * fleet.loads[there.shard], n)
    width = balancer.tolerance / (1 + balancer.tolerance) + 1e-8
    assert done.in_band == bool((abs(on - mean) <= width * mean).all())
    assert done.cost >= done.bound - 1e-6 * fleet.sizes.sum()


class Events:
    """Random events, the same for several balancers."""

    def __init__(self, seed):
        self.rng, self.next = np.random.default_rng(seed), 1000

    def happen(self, balancers):
        rng, one = self.rng, balancers[0]
        shards, servers = one.shards, one.servers
        shard, server = shards[rng.integers(len(shards))], servers[rng.integers(len(servers))]
        kind = rng.choice(
            ["load"] * 8 + ["loads", "many", "size", "add", "remove", "server", "gone", "memory", "band"]
        )
        load, size = float(rng.integers(0, 60)), float(rng.choice([0.5, 1.0, 2.0]))
        some = {each: float(rng.integers(1, 60)) for each in rng.permutation(shards)[:3].tolist()}
        factor, memory = float(rng.choice([0.5, 0.9, 1.1, 3.0])), float(rng.uniform(20, 60))
        tolerance, self.next = float(rng.choice([0.05, 0.1, 0.2])), self.next + 1
        for balancer in balancers:
            match kind:
                case "load":
                    balancer.set_load(shard, load)
                case "loads":
                    balancer.set_loads(some)
                case "many":
                    balancer.set_loads(balancer.fleet().loads * factor)
                case "size":
                    balancer.set_size(shard, size)
                case "add":
                    balancer.add_shard(self.next, load, size, server if load > 30 else None)
                case "remove" if len(shards) > 4:
                    balancer.remove_shard(shard)
                case "server":
                    balancer.add_server(self.next, memory)
                case "gone" if len(servers) > 2:
                    balancer.remove_server(server)
                case "memory":
                    balancer.set_memory(server, memory)
                case "band":
                    balancer.tolerance = tolerance


@given(seed=st.integers(0, 2**32), kept=st.booleans(), shards=st.sampled_from([5, 30]))
@settings(max_examples=examples(30), deadline=None)
def test_costs_and_bounds_are_those_of_a_balancer_made_anew(seed, kept, shards):
    events = Events(seed)
    rng, balancer = events.rng, LoadBalancer(0.1)
    for server in range(4):
        balancer.add_server(server, float(rng.uniform(shards, 2 * shards)))
    sizes = rng.choice([0.5, 1.0, 2.0], shards)
    balancer.add_shards(
        range(shards), rng.integers(1, 60, shards), sizes, rng.integers(0, 4, shards).tolist()
    )
    solver = make_solver("copter", tolerance=1e-7)
    balancer.round(solver)
    for _ in range(6):
        other = anew(balancer)
        for _ in range(rng.integers(0, 3)):
            events.happen([balancer, other])
        try:
            expected = solved(other, make_solver("highs-simplex", tolerance=1e-7))
        except LoadBalancingError:
            with pytest.raises(LoadBalancingError):
                balancer.round(solver)
            return
        at_once = balancer.proven() if kept else None
        if at_once is not None:
            balancer.accept(at_once)
        done = at_once or solved(balancer, solver)
        check(balancer, done)
        size = balancer.fleet().sizes.sum()
        if at_once is None:
            assert done.bound == pytest.approx(expected.bound, abs=1e-4 * size)
        else:
            assert done.proven and done.solution is None and expected.bound <= done.bound + 1e-6 * size
        if done.proven and expected.proven or at_once is not None:
            assert done.cost == pytest.approx(expected.cost, abs=1e-6 * size)


def scenario_of(shards=200, **fields):
    scenario = ShardScenario(shards, 10, 12, seed=3, changed=1, **fields)
    return scenario, scenario.balancer()


def test_most_rounds_need_no_solver_and_all_are_as_good():
    scenario, balancer = scenario_of()
    solver, times = make_solver("copter", tolerance=1e-6), 0
    for number, loads in enumerate(scenario.loads()):
        balancer.set_loads(loads)
        done = balancer.round(solver)
        check(balancer, done)
        assert done.in_band
        times += done.solution is None
        assert number or done.solution is not None
    assert times >= 6


def test_only_some_shards_take_the_loads_of_a_round():
    rounds = list(zipf_loads(50, 6, "stateless", seed=1))
    loads = list(few_changed(iter(rounds), 3, seed=2))
    assert (loads[0] == rounds[0]).all()
    for before, now, fresh in zip(loads, loads[1:], rounds[1:], strict=False):
        other = now != before
        assert other.sum() <= 3 and (now[other] == fresh[other]).all()
    assert all((a == b).all() for a, b in zip(few_changed(rounds, 99, seed=2), rounds, strict=True))


def loaded(**fields: Any) -> LoadBalancer:
    scenario = ShardScenario(shards=96, servers=12, rounds=2, seed=3, **fields)
    balancer = scenario.balancer()
    balancer.set_loads(next(scenario.loads()))
    return balancer


@pytest.mark.parametrize("first", [True, False])
def test_a_late_round_serves_all_shards_within_the_memory(
    first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    balancer, solver = loaded(memory=10), make_solver("copter")
    if not first:
        balancer.round(solver)
        balancer.set_memory(0, 7.0)
        balancer.add_shards(["new", "newer"], [5.0, 0.0])
        balancer.remove_server(5)
    before = balancer.placement()
    clock = tick(monkeypatch, 0.0)
    real = balancer.place

    def slow(*given: Any) -> Any:
        clock.now += 10.0
        return real(*given)

    balancer.place = slow  # type: ignore[method-assign]
    done = balancer.round(solver, deadline=1.0)
    assert done.solution is None and np.isnan(done.bound)
    there = done.placement
    assert np.bincount(there.shard, there.share, len(balancer.shards)) == pytest.approx(1.0)
    used = np.bincount(there.server, balancer.fleet().sizes[there.shard], len(balancer.servers))
    assert (used <= balancer.fleet().memory).all()
    old = set(zip(before.shard.tolist(), before.server.tolist(), strict=True))
    now = set(zip(there.shard.tolist(), there.server.tolist(), strict=True))
    if first:
        assert now == old and not done.moves
    else:
        assert {move.who for move in done.moves} >= {"new", "newer"} and len(now - old) < 12
    assert balancer.number == (1 if first else 2)
