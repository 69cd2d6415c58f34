"""The shim of replicas against maximum flows, and the bound in whole replicas against branch and bound."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.load_balancing import imbalance, solve_exact
from copter.problems.load_balancing.shim import ReplicaShim, ShardFleet, ShardPlacement, ShardPlacementError
from support.amounts import examples


@st.composite
def answers(draw):
    """Fleet, last placement of some shards, and any proposal at all: near, far, empty, over the memory."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    k, n = draw(st.integers(1, 30)), draw(st.integers(1, 8))
    sizes = rng.choice([0.0, 1.0, 1.0, 3.0], k)
    memory = np.full(n, sizes.max() + sizes.sum() / n * draw(st.sampled_from([1.0, 1.2, 3.0])))
    loads = np.round(1e3 / (1 + np.arange(k)) ** draw(st.sampled_from([0.0, 0.7, 2.0])))
    loads[rng.random(k) < draw(st.sampled_from([0.0, 0.2, 1.0]))] = 0.0
    fleet = ShardFleet(loads, sizes, memory, 0.05)
    old = rng.random((k, n)) < draw(st.sampled_from([0.0, 0.2, 0.6]))
    for i in range(n):  # the last placement kept the memory
        over = np.flatnonzero(old[:, i])[np.cumsum(sizes[old[:, i]]) > memory[i]]
        old[over, i] = False
    share = rng.random((k, n)) * old
    shard, server = np.nonzero(share)
    last = ShardPlacement(shard, server, share[shard, server] / share.sum(1)[shard])
    x = rng.random((k, n)) * (rng.random((k, n)) < draw(st.sampled_from([0.0, 0.3, 1.0])))
    x *= (loads / (fleet.mean or 1.0) / np.maximum(x.sum(1), 1e-9))[:, None]
    shard, server = np.nonzero(x > 1e-12)
    return fleet, last, shard, server, x[shard, server]


@given(answers())
@settings(max_examples=examples(150), deadline=None)
def test_memory_is_kept_and_every_shard_served_whatever_the_answer(answer):
    fleet, last, *x = answer
    try:
        placement = ReplicaShim().round(fleet, last, *x)
    except ShardPlacementError as error:
        assert fleet.memory.sum() < 2 * fleet.sizes.sum() + fleet.sizes[error.shard] * fleet.memory.size
        return
    used = np.bincount(placement.server, fleet.sizes[placement.shard], fleet.memory.size)
    assert (used <= fleet.memory + 1e-6).all()
    total = np.bincount(placement.shard, placement.share, fleet.loads.size)
    assert total == pytest.approx(np.ones(fleet.loads.size))
    assert (placement.share > 0).all() and (np.diff(placement.keys(fleet.memory.size)) > 0).all()


@given(answers())
@settings(max_examples=examples(100), deadline=None)
def test_what_replicas_can_do_is_what_a_maximum_flow_says(answer):
    """It moves nothing if and only if that is possible, and else says that something must move."""
    fleet, last, *_ = answer
    k, n = fleet.loads.size, fleet.memory.size
    if not len(last) or not fleet.loads.any():
        return
    carried = ReplicaShim().carry(fleet, last)
    keys = carried.placement.keys(n)
    assert np.isin(keys, last.keys(n)).all()
    served = np.bincount(last.shard, minlength=k) > 0
    if not served.all():
        assert not carried.enough and carried.needed >= fleet.sizes[~served].sum() * (1 - 1e-12)
        return
    load = last.share * fleet.loads[last.shard] / fleet.mean
    possible = _flow(last.shard, last.server, load, k, n, *fleet.band) >= load.sum() - 1e-6
    assert carried.enough == possible
    if possible:
        assert imbalance(fleet, carried.placement) <= 2 * fleet.tolerance + 1e-6 and carried.needed == 0
    else:
        assert carried.needed > 0 or fleet.sizes[fleet.loads > 0].min() == 0


@given(answers())
@settings(max_examples=examples(50), deadline=None)
def test_a_second_round_with_the_same_loads_moves_nothing(answer):
    fleet, last, *x = answer
    try:
        first = ReplicaShim().round(fleet, last, *x)
    except ShardPlacementError:
        return
    if imbalance(fleet, first) > 2 * fleet.tolerance:
        return
    load = first.share * fleet.loads[first.shard] / (fleet.mean or 1.0)
    second = ReplicaShim().round(fleet, first, first.shard, first.server, load)
    assert np.isin(second.keys(fleet.memory.size), first.keys(fleet.memory.size)).all()


def _flow(shard, server, load, k, n, lower, upper):
    """Load that networkx can bring to servers between the bounds; a lower bound is a forced flow."""
    graph = nx.DiGraph()
    total = np.bincount(shard, load, k)
    for j in np.flatnonzero(total):
        graph.add_edge("loads", ("shard", j), capacity=total[j])
    for j, i in zip(shard, server, strict=True):
        graph.add_edge(("shard", j), ("server", i))
    for i in range(n):
        graph.add_edge(("server", i), "must", capacity=lower)
        graph.add_edge(("server", i), "may", capacity=upper - lower)
    graph.add_edge("must", "end", capacity=lower * n)
    graph.add_edge("may", "end", capacity=max(0.0, total.sum() - lower * n))
    return nx.maximum_flow_value(graph, "loads", "end")


def test_small_shares_are_consolidated():
    """An answer from inside the optimal face: each hot shard's excess in ten shares, where one or two do."""
    k, n = 60, 20
    loads = np.concatenate((np.full(10, 20.0), np.full(50, 4.0)))
    fleet = ShardFleet(loads, np.ones(k), np.full(n, 10.0), 0.05)
    home = np.arange(k) % n
    last = ShardPlacement(np.arange(k), home, np.ones(k))
    x = np.zeros((k, n))
    x[np.arange(k), home] = loads / fleet.mean
    x[:10] = 0.0
    x[np.arange(10), home[:10]] = 8.0 / fleet.mean
    x[:10, 10:] = 1.2 / fleet.mean
    shard, server = np.nonzero(x)
    placement = ReplicaShim().round(fleet, last, shard, server, x[shard, server])
    new = ~np.isin(placement.keys(n), last.keys(n))
    assert (x[:10, 10:] > 0).sum() == 100 and 10 <= new.sum() <= 20
    assert imbalance(fleet, placement) <= 0.1 + 1e-9


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
