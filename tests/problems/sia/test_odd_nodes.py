"""Nodes whose number of GPUs is no power of two: every choice of Sia can be placed (thesis section 3.3.3)."""

import itertools

import numpy as np
import pytest

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.families import Shape, generate
from copter.problems.cluster.workload import Scenario


def fits(parts, nodes, size):
    """Return whether parts fit into nodes, by trying all ways from the largest part on."""
    if not parts:
        return True
    first, rest = parts[0], parts[1:]
    tried = set()
    for k, room in enumerate(nodes):
        if room >= first and room not in tried:
            tried.add(room)
            if fits(rest, (*nodes[:k], room - first, *nodes[k + 1 :]), size):
                return True
    return False


def limits_hold(cluster, picked):
    return all(limit.gpus[list(picked)].sum() <= limit.capacity for limit in cluster.limits)


@pytest.mark.parametrize("size", [3, 5, 6, 7, 10, 12])
def test_the_limits_are_exactly_what_can_be_placed(size):
    cluster = Cluster([GpuType("a", size, 2)])
    single = [k for k, c in enumerate(cluster.configurations) if c.nodes == 1]
    seen = {True: 0, False: 0}
    for count in range(1, 6):
        for picked in itertools.combinations_with_replacement(single, count):
            parts = sorted((cluster.configurations[k].gpus for k in picked), reverse=True)
            expected = fits(tuple(parts), (size, size), size)
            assert limits_hold(cluster, picked) == expected, parts
            seen[expected] += sum(parts) <= 2 * size
    assert seen[True] > 5
    if size > 4:  # on nodes of 3 the total alone decides: parts are 1, 2 and 3
        assert seen[False] > 0


@pytest.mark.parametrize("size", [6, 12])
def test_sia_on_odd_nodes_never_waits_for_a_place(size):
    cluster = Cluster([GpuType("t4", size, 3), GpuType("rtx", 8, 1)])
    whole = generate("philly", cluster, 3, Shape(jobs=40, hours=1.0))
    scenario = Scenario(cluster, whole.jobs, whole.profiles)
    evicted, odd = [], 0
    placer = SiaPlacer()

    class Watched:
        def place(self, *given, **named):
            placed = placer.place(*given, **named)
            wanted = given[3]
            evicted.extend(name for name in placed.evicted if wanted[name].gpus)
            nonlocal odd
            odd += sum(choice.type == "t4" and choice.gpus > 2 for choice in wanted.values())
            return placed

    Simulator(scenario, make_policy("sia"), placer=Watched(), max_hours=2.0).play()
    assert odd > 50
    assert evicted == []


def test_a_lost_node_tightens_the_limits():
    cluster = Cluster([GpuType("a", 6, 3)])
    before = {limit.name: limit.capacity for limit in cluster.limits}
    cluster.set_nodes("a", 2)
    after = {limit.name: limit.capacity for limit in cluster.limits}
    assert before == {"a": 18, ("a", 4): 12}
    assert after == {"a": 12, ("a", 4): 8}
    whole = np.array([c.gpus == 6 for c in cluster.configurations])
    assert (cluster.limits[1].gpus[whole] == 4).all()
