"""Rounds after few changes: what a balancer that keeps its program finds is what one made anew would."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import make_solver
from copter.problems.examples import load_balancing as example
from copter.problems.load_balancing import LoadBalancer, LoadBalancingError
from copter.problems.load_balancing.scenario import ShardScenario
from copter.problems.load_balancing.workload import few_changed, zipf_loads
from copter.solvers.base import takes_start
from support.amounts import examples


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
    balancer.update_program()
    start = balancer.start()
    if start is not None and takes_start(solver):
        solver.start_from(balancer.program, *start)
    done = balancer.round(solver.solve(balancer.program))
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


@given(seed=st.integers(0, 2**32), kept=st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_costs_and_bounds_are_those_of_a_balancer_made_anew(seed, kept):
    rng, domain = np.random.default_rng(seed), example()
    balancer, solver = domain, make_solver("copter", tolerance=1e-7)
    for server in ("spare", "another"):
        balancer.add_server(server, 40.0)
    balancer.play(solver)
    for _ in range(6):
        other = anew(balancer)
        events = list(domain.events(rng))
        for event in events[int(rng.integers(0, len(events) + 1)) :]:
            domain.apply(event)
            other.apply(event)
        balancer.tolerance = other.tolerance = float(rng.choice([0.05, 0.1, balancer.tolerance]))
        try:
            expected = solved(other, make_solver("highs-simplex", tolerance=1e-7))
        except LoadBalancingError:
            with pytest.raises(LoadBalancingError):
                balancer.play(solver)
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
        done = balancer.play(solver)
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
