"""Max-min fair flows, against linear programs of scipy that fill the rates level by level."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog

from copter.errors import EditError
from copter.problems.traffic import Topology, k_shortest_paths
from copter.problems.traffic.fairness import MaxMinFlows
from support.amounts import seeds, some

CLOSE = 1e-4


def filled(matrix, room, volumes):
    """Return the max-min fair rates subject to ``matrix @ x <= room``; the rates are the first entries of x.

    Level by level: the largest common rate of all demands that can still grow. A demand whose row has a dual
    value then cannot; nor can one that has its volume.
    """
    n, size = volumes.size, matrix.shape[1]
    rates, growing = np.zeros(n), volumes > 0.0
    while growing.any():
        goals = np.flatnonzero(growing)
        wanting = np.zeros((goals.size, size + 1))  # the last variable is the common rate
        wanting[range(goals.size), goals], wanting[:, -1] = -1.0, 1.0
        rows = np.vstack([np.hstack([matrix, np.zeros((len(room), 1))]), wanting])
        sides = np.concatenate((room, np.zeros(goals.size)))
        low = np.concatenate((np.where(growing, 0.0, rates * (1 - 1e-9)), np.zeros(size - n + 1)))
        high = np.concatenate((volumes, np.full(size - n, np.inf), [volumes[goals].min()]))
        costs = np.append(np.zeros(size), -1.0)
        found = linprog(costs, rows, sides, bounds=np.stack((low, high), axis=1))
        assert found.status == 0
        level = -found.fun
        rates[goals] = level
        stops = (found.ineqlin.marginals[len(room) :] < -1e-9) | (volumes[goals] <= level * (1 + 1e-7))
        assert stops.any()
        growing[goals[stops]] = False
    return rates


def rates_of(flows):
    """Return the max-min fair rates of a network by :func:`filled`."""
    paths, links = flows.paths, flows.topology.n_links
    n, m = paths.n_pairs, paths.n_paths
    total = np.zeros((n, m))
    total[paths.pair, range(m)] = -1.0
    own = np.hstack([np.eye(n), total])  # a rate is at most the flow on the demand's paths
    loads = np.hstack([np.zeros((links, n)), paths.incidence(links).toarray()])
    room = np.concatenate((np.zeros(n), flows.effective_capacity))
    return filled(np.vstack([own, loads]), room, flows.volume)


def network(rng, tolerance=1e-6):
    graph = nx.gnm_random_graph(int(rng.integers(5, 8)), 9, seed=int(rng.integers(1 << 30)))
    graph = nx.compose(graph, nx.path_graph(graph.number_of_nodes())).to_directed()
    topology = Topology.from_networkx(graph, capacity=1.0)
    flows = MaxMinFlows(topology, k_shortest_paths(topology, None, 3, cache=False), tolerance=tolerance)
    flows.set_capacities(rng.uniform(0.5, 4.0, topology.n_links))
    return flows


def change(flows, rng):
    """Change demands, and some links."""
    n = flows.paths.n_pairs
    flows.set_volumes(rng.choice([0.0, 0.2, 1.0, 3.0], n) * rng.uniform(0.5, 1.5, n))
    flows.restore_links(np.flatnonzero(~flows.up))
    if rng.random() < 0.5:
        flows.fail_links(rng.choice(flows.topology.n_links, 6, replace=False))
    if rng.random() < 0.5:
        links = rng.choice(flows.topology.n_links, 4, replace=False)
        flows.set_capacities(rng.choice([0.0, 0.5, 2.0], 4), links)


@pytest.mark.parametrize("first", some(1, range(0, 12, 3)))
def test_rates_are_those_of_linear_programs_level_by_level(first):
    seen, solves = Counter(), []
    for seed in range(first, first + 3):
        rng = np.random.default_rng(seed)
        flows = network(rng)
        for _ in range(3):
            change(flows, rng)
            done = flows.round()
            expected = rates_of(flows)
            np.testing.assert_allclose(done.fair_rates, expected, rtol=10 * CLOSE, atol=CLOSE)
            np.testing.assert_allclose(done.rates, done.fair_rates, rtol=2e-6, atol=1e-12)
            found = flows.check(done.path_flows)
            assert found.overload <= 1e-9 and found.excess <= 1e-9 and done.shortfall <= 1e-6
            limited = done.bottleneck >= 0
            seen["limited"] += int(limited.sum())
            seen["served"] += int((~limited & (done.rates > 0)).sum())
            seen["without a path"] += int(((flows.volume > 0) & (done.fair_rates == 0)).sum())
            seen["levels"] += np.unique(done.fair_rates[limited].round(6)).size
            solves.append(done.solves)
    assert all(seen[kind] >= 10 for kind in ("limited", "served", "without a path", "levels")), seen
    assert max(solves) > 3, solves


@pytest.mark.parametrize("seed", seeds(3, 12))
def test_rates_of_a_loose_tolerance_are_as_fair_but_for_it(seed):
    """Capacities differ by orders of magnitude: no small demand pays for the tolerance of large ones."""
    tolerance, rng = 1e-2, np.random.default_rng(seed)
    flows, limited = network(rng, tolerance), 0
    for _ in range(3):
        flows.set_capacities(10.0 ** rng.uniform(-1, 2, flows.topology.n_links))
        flows.set_volumes(10.0 ** rng.uniform(-1, 1.5, flows.paths.n_pairs))
        done, expected = flows.round(), np.sort(rates_of(flows))
        found = np.sort(done.fair_rates)
        less = np.flatnonzero(found < expected * (1 - CLOSE))
        more = np.flatnonzero(found > expected * (1 + CLOSE))
        assert not less.size or (more.size and more[0] < less[0]), "lexicographically at least"
        assert (np.sort(done.rates) >= 0.9 * expected).all()
        assert (done.rates >= (1 - tolerance - 1e-12) * done.fair_rates).all()
        limited += int((done.bottleneck >= 0).sum())
    assert limited > 5


@pytest.mark.parametrize("tolerance", [0.0, -1.0, 1.0, 2.0, float("nan")])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with pytest.raises(EditError, match="tolerance"):
        network(np.random.default_rng(0), tolerance)


def test_prices_prove_that_no_rate_can_grow():
    """The cut of each bottleneck, recomputed from the paths, is tight, and no demand in it has more."""
    rng = np.random.default_rng(7)
    flows, proofs = network(rng), 0
    for _ in range(6):
        change(flows, rng)
        done, capacity = flows.round(), flows.effective_capacity
        assert done.prices.min(initial=0.0) >= 0.0
        np.testing.assert_allclose(done.prices @ capacity, 1.0)
        for number, y in enumerate(done.prices):
            share = 0.0
            members = []
            for pair in range(flows.paths.n_pairs):
                costs = []
                for path in range(flows.paths.first[pair], flows.paths.first[pair + 1]):
                    links = flows.paths.link[flows.paths.pointer[path] : flows.paths.pointer[path + 1]]
                    if (capacity[links] > 0).all():
                        costs.append(y[links].sum())
                if costs and min(costs) > 0:
                    share += min(costs) * done.fair_rates[pair]
                    members.append(pair)
            assert share == pytest.approx(1.0, rel=1e-6)
            here = np.flatnonzero(done.bottleneck == number)
            assert set(here.tolist()) <= set(members)
            level = done.fair_rates[here]
            assert np.ptp(level) <= 1e-9 * level.max()
            assert done.fair_rates[members].max() <= level.max() * (1 + 1e-9), "no demand in the cut has more"
            proofs += here.size
    assert proofs > 30


def test_most_rounds_need_one_routing():
    rng = np.random.default_rng(3)
    flows = network(rng)
    volumes = rng.uniform(0.5, 2.0, flows.paths.n_pairs)
    solves = []
    for _ in range(10):
        flows.set_volumes(volumes * rng.uniform(0.98, 1.02, volumes.size))
        solves.append(flows.round().solves)
    assert solves[0] > 2 and np.median(solves[1:]) == 1


def test_nothing_to_share_and_nothing_to_share_it():
    flows = network(np.random.default_rng(1))
    assert flows.round().rates.max(initial=0.0) == 0.0
    flows.set_volumes(1.0)
    flows.fail_links(np.arange(flows.topology.n_links))
    done = flows.round()
    assert done.rates.max() == 0.0 and done.shortfall == 0.0 and (done.bottleneck == -1).all()
    flows.restore_links(np.arange(flows.topology.n_links))
    assert flows.round().rates.min() > 0.0


def test_a_round_with_a_deadline_has_feasible_flows():
    rng = np.random.default_rng(5)
    flows = network(rng)
    flows.set_volumes(rng.uniform(1.0, 3.0, flows.paths.n_pairs))
    for time_limit in (1e-9, 1e-3, 1e-2, 1.0):
        done = flows.round(time_limit=time_limit)
        found = flows.check(done.path_flows)
        assert found.overload <= 1e-9 and found.excess <= 1e-9
    assert flows.round().shortfall <= 1e-6
