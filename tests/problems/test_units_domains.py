"""Every domain in its users' units: bytes or gigabytes, bits or terabits, seconds or hours; one answer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import make_solver
from copter.problems.load_balancing import LoadBalancer
from copter.problems.shockwave import solve_waterfilling
from copter.problems.shockwave.program import RelaxationProgram
from copter.problems.sia import Cluster, GpuType, ReplicaProfile, SiaJob, SiaPolicy
from copter.problems.traffic import TrafficEngineering
from support.amounts import examples
from support.networks import networks, volumes_for
from support.shockwave_cases import windows

UNITS = [1e-9, 1e-3, 3600.0, 1e9]
POWERS = [2.0**-30, 2.0**10, 2.0**30]
units = st.sampled_from(UNITS)


@given(case=networks().flatmap(lambda n: st.tuples(st.just(n), volumes_for(n[1]))), unit=units)
@settings(max_examples=examples(30), deadline=None)
@pytest.mark.parametrize("objective", ["max-flow", "min-mlu"])
def test_traffic(objective, case, unit):
    (topology, paths), volume = case

    def carried(unit):
        scaled = topology.with_capacity(topology.capacity * unit)
        traffic = TrafficEngineering(scaled, paths, objective)
        traffic.set_volumes(volume * unit)
        return traffic.play(make_solver("copter")).flows

    one, other = carried(1.0), carried(unit)
    power = unit if objective == "max-flow" else 1.0
    assert other.objective / power == pytest.approx(one.objective, rel=2e-5)
    if np.isfinite(one.objective):
        assert other.gap <= 1e-4


@given(seed=st.integers(0, 2**32), load=st.sampled_from(POWERS), size=st.sampled_from(POWERS))
@settings(max_examples=examples(25), deadline=None)
def test_load_balancing(seed, load, size):
    """In powers of 2, as other factors round loads differently, which may decide between equal moves."""

    def rounds(load, size):
        rng = np.random.default_rng(seed)
        balancer = LoadBalancer()
        sizes = rng.uniform(0.5, 2.0, 20)
        for server in range(4):
            balancer.add_server(server, float(sizes.sum()) / 2 * size)
        places = rng.integers(0, 4, 20).tolist()
        balancer.add_shards(range(20), rng.uniform(1, 9, 20) * load, sizes * size, places)
        solver, done = make_solver("copter"), []
        for _ in range(3):
            done.append(balancer.play(solver))
            balancer.set_loads(rng.uniform(1, 9, 20) * load)
        return done

    for one, other in zip(rounds(1.0, 1.0), rounds(load, size), strict=True):
        assert (other.cost, other.bound) == (one.cost * size, one.bound * size)
        assert (other.gap, other.imbalance, other.movements) == (one.gap, one.imbalance, one.movements)


@given(window=windows(most=6, rounds=5), unit=units)
@settings(max_examples=examples(25), deadline=None)
def test_shockwave(window, unit):
    other = replace(
        window,
        remaining=window.remaining * unit,
        total_seconds=window.total_seconds * unit,
        round_seconds=window.round_seconds * unit,
    )
    expected = solve_waterfilling(window)
    size = max(expected.size, window.size(np.zeros(len(window))))  # 0 where all can be done at once
    assert expected.bound - expected.objective <= 1e-8 * size
    for solve in (solve_waterfilling, RelaxationProgram(1e-6)):
        found = solve(other)
        assert found.size == pytest.approx(expected.size, rel=1e-3, abs=1e-3 * size)
        assert abs(found.objective - expected.objective) <= 1e-5 * size
        assert found.bound >= expected.objective - 1e-9 * size


@given(seed=st.integers(0, 2**32), unit=units)
@settings(max_examples=examples(20), deadline=None)
def test_sia(seed, unit):
    """Throughput in samples or in billions of them a second."""

    def chosen(unit):
        rng = np.random.default_rng(seed)
        policy = SiaPolicy(Cluster([GpuType("A", 4, 2), GpuType("B", 4, 4)]), scale_up_limit=None)
        for k in range(8):
            speed = rng.uniform(1.0, 9.0, 2) * unit
            replica = {"A": (1, speed[0]), "B": (2, speed[1])}
            policy.submit(SiaJob(f"j{k}", ReplicaProfile(f"m{k}", 30.0, 1e6 * unit, replica)))
        return [policy.play(make_solver("copter"), ("at", 60.0 * (k + 1))) for k in range(2)]

    for one, other in zip(chosen(1.0), chosen(unit), strict=True):
        assert other.rounded.objective == pytest.approx(one.rounded.objective, rel=1e-6)
