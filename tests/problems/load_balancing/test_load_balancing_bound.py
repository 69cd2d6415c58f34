"""The bound in whole replicas: covers against all subsets, and the bound against branch and bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.load_balancing import solve_exact
from copter.problems.load_balancing.bound import _cover
from copter.problems.load_balancing.shim import ReplicaShim, ShardFleet, ShardPlacement
from support.amounts import examples


@st.composite
def items(draw):
    """Costs and gains of a few items, a need that they can cover, and what costs are multiples of."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 9))
    whole = draw(st.booleans())
    cost = rng.choice([1.0, 2.0, 3.0], n) if whole else rng.lognormal(0.0, 1.0, n)
    gain = rng.choice([rng.lognormal(0.0, 1.5, n), rng.integers(1, 4, n).astype(float)])
    return cost, gain, gain.sum() * draw(st.sampled_from([0.05, 0.3, 0.7, 1.0 - 1e-12])), float(whole)


def all_subsets(cost, gain, need):
    chosen = [np.array(some, bool) for some in itertools.product((0, 1), repeat=cost.size)]
    return min(cost[some].sum() for some in chosen if gain[some].sum() >= need)


@given(items())
@settings(max_examples=examples(300), deadline=None)
def test_a_cover_is_the_cheapest_subset(given_items):
    cost, gain, need, grain = given_items
    found = _cover(cost, gain, need, np.inf, np.inf, grain)
    assert found == pytest.approx(all_subsets(cost, gain, need), rel=1e-9)


@st.composite
def rounds(draw):
    """Fleet and last placement: shards of all sizes, some hotter than a server, on one or several."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    k, n = draw(st.integers(2, 9)), draw(st.integers(2, 4))
    sizes = rng.choice([rng.choice([0.0, 1.0, 2.0], k), np.ones(k), rng.lognormal(0.0, 1.0, k)])
    loads = np.ceil(100.0 * rng.lognormal(0.0, draw(st.sampled_from([0.3, 1.5])), k))
    there = rng.random((k, n)) < draw(st.sampled_from([0.0, 0.3]))
    there[np.arange(k), rng.integers(0, n, k)] = True
    if draw(st.booleans()):
        there[rng.random(k) < 0.3] = False
    spare = draw(st.sampled_from([0.0, 1.2, 9.0]))
    memory = np.full(n, sizes.max() + spare * sizes.sum() / n + 0.1)
    share = there * rng.random((k, n))
    shard, server = np.nonzero(share)
    last = ShardPlacement(shard, server, share[shard, server] / share.sum(1)[shard])
    return ShardFleet(loads, sizes, memory, draw(st.sampled_from([0.05, 0.3]))), last


@given(rounds())
@settings(max_examples=examples(80), deadline=None)
def test_no_placement_of_branch_and_bound_is_below_it(instance):
    fleet, last = instance
    carried = ReplicaShim().carry(fleet, last)
    exact = solve_exact(fleet, last, mip_gap=0.0, threads=1)
    if exact.placement is None:
        return
    n = fleet.memory.size
    new = ~np.isin(exact.placement.keys(n), last.keys(n))
    assert carried.needed <= fleet.sizes[exact.placement.shard[new]].sum() + 1e-6 * fleet.unit_size
    nowhere = np.setdiff1d(np.arange(fleet.loads.size), last.shard)
    assert carried.needed >= fleet.sizes[nowhere].sum() * (1 - 1e-12)


def on_one(loads, sizes, n, memory=1e9):
    """Least size of new replicas where all shards are on the first of n servers."""
    k = len(loads)
    fleet = ShardFleet(np.array(loads, float), np.array(sizes, float), np.full(n, memory), 0.05)
    last = ShardPlacement(np.arange(k), np.zeros(k, int), np.ones(k))
    return ReplicaShim().carry(fleet, last).needed


def test_counts_by_hand():
    assert on_one([1.0] * 12, [1.0] * 12, 4) == 9.0  # 8.86 of 12 at least have to leave
    assert on_one([1.0] * 12, [2.5] * 12, 4) == 22.5
    assert on_one([6.0], [1.0], 3) == 2.0  # a shard hotter than a server, in pieces
    assert on_one([4.0, 1.0, 1.0], [5.0, 1.0, 1.0], 2) == 5.0  # the small ones are too little
    assert on_one([3.0, 3.0, 1.0, 1.0], [5.0, 5.0, 1.0, 1.0], 2) == 6.0


def test_disjoint_servers_add_up():
    """Two pairs of servers, each with all load on the first: each needs what it would alone."""
    loads, sizes = np.array([1.0, 1.0, 1.0, 1.0]), np.array([1.0, 3.0, 2.0, 2.5])
    fleet = ShardFleet(loads, sizes, np.full(4, 9.0), 0.05)
    last = ShardPlacement(np.arange(4), np.array([0, 0, 2, 2]), np.ones(4))
    assert ReplicaShim().carry(fleet, last).needed == 1.0 + 2.0


def test_a_server_with_too_little_memory_counts():
    """Balanced loads, and four shards of size 3 on a server with memory for two and a half."""
    fleet = ShardFleet(np.ones(8), np.full(8, 3.0), np.array([7.5, 99.0]), 0.05)
    last = ShardPlacement(np.arange(8), np.repeat([0, 1], 4), np.ones(8))
    assert ReplicaShim().carry(fleet, last).needed == 6.0
