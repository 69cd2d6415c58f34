"""The bound in whole replicas: covers against all subsets, and the bound against branch and bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.load_balancing import solve_exact
from copter.problems.load_balancing.bound import _cover
from copter.problems.load_balancing.shim import NOWHERE, ReplicaShim, ShardFleet, ShardPlacement
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


@given(items(), st.integers(0, 8))
@settings(max_examples=examples(200), deadline=None)
def test_items_out_of_the_list_only_lower_a_cover(given_items, kept):
    cost, gain, need, grain = given_items
    order = np.argsort(cost / gain)
    cost, gain = cost[order], gain[order]
    kept = min(kept, cost.size - 1)
    rest, cheapest = cost[kept] / gain[kept], cost[kept:].min()
    part = _cover(cost[:kept], gain[:kept], need, rest, cheapest, grain)
    assert part <= all_subsets(cost, gain, need) * (1 + 1e-9)
    assert part >= min(cost) * (1 - 1e-9)


def test_an_item_that_is_all_that_is_needed_is_enough():
    """Whatever was tried before it: sums go back and forth."""
    third = 1.0 - 1.0 / 21.0
    found = _cover(np.array([0.5, 0.5, 2.0]), np.array([2 / 3, 6 / 23, third]), third, np.inf, np.inf, 0.0)
    assert found == 2.0


def test_many_alike_are_counted_and_many_unlike_end():
    """Branch and bound alone would look at all subsets of the same count."""
    assert _cover(np.full(60, 2.0), np.linspace(1.0, 1.1, 60), 10.15, np.inf, np.inf, 2.0) == 20.0
    rng = np.random.default_rng(0)
    cost, gain = rng.uniform(1.0, 1.1, 120), rng.uniform(1.0, 1.1, 120)
    found = _cover(cost, gain, 50.0, np.inf, np.inf, 0.0)
    order = np.argsort(cost / gain)
    greedy = cost[order][: 1 + np.searchsorted(np.cumsum(gain[order]), 50.0)].sum()
    assert 0.98 * greedy < found <= greedy


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


@given(rounds(), st.sampled_from([1e-6, 1e6]), st.sampled_from([1e-6, 1e6]))
@settings(max_examples=examples(80), deadline=None)
def test_units_do_not_matter(instance, of_load, of_size):
    fleet, last = instance
    scaled = ShardFleet(fleet.loads * of_load, fleet.sizes * of_size, fleet.memory * of_size, fleet.tolerance)
    expected = ReplicaShim().carry(fleet, last).needed * of_size
    assert ReplicaShim().carry(scaled, last).needed == pytest.approx(expected, rel=1e-6)


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


def test_shards_that_are_nowhere_count_once():
    fleet = ShardFleet(np.array([5.0, 1.0, 4.0]), np.array([1.0, 2.0, 4.0]), np.full(2, 99.0), 0.05)
    assert ReplicaShim().carry(fleet, NOWHERE).needed == 7.0
