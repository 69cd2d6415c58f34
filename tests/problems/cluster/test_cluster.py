"""Configurations of a cluster by the thesis' rule, limits of odd nodes by trying all, clusters by name."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.cluster.presets import VIRTUAL_CLUSTERS, cluster_by_name
from copter.problems.sia import Cluster, Configuration, GpuType, configurations


def test_running_example_of_section_3_3_4():
    cluster = Cluster([GpuType("A", 2, 1), GpuType("B", 4, 1)])
    expected = [(1, 1, "A"), (1, 2, "A"), (1, 1, "B"), (1, 2, "B"), (1, 4, "B")]
    assert [tuple(c) for c in configurations(cluster)] == expected


def test_authors_cluster_has_1937_configurations_at_10240_gpus():
    from copter.problems.sia import builtin_cluster

    cluster = builtin_cluster(10240)
    assert cluster.gpus == 10240
    assert len(cluster.configurations) == 1937


clusters = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=4).map(
    lambda sizes: Cluster(GpuType(f"t{k}", per_node, nodes) for k, (per_node, nodes) in enumerate(sizes))
)


@given(clusters)
def test_every_configuration_fits_and_is_found_again(cluster):
    found = configurations(cluster)
    per_node = {type.name: type for type in cluster.types}
    assert len(set(found)) == len(found)
    assert (np.diff(found.codes) > 0).all()
    for k, (nodes, gpus, name) in enumerate(found):
        type = per_node[name]
        assert 1 <= nodes <= type.nodes
        assert gpus == nodes * type.gpus_per_node or (nodes == 1 and gpus & (gpus - 1) == 0)
        assert gpus <= type.gpus
        assert found.index(Configuration(nodes, gpus, name)) == k
    again = found.find(found.type_index, found.nodes, found.gpus)
    assert again.tolist() == list(range(len(found)))


def test_nodes_come_and_go():
    cluster = Cluster([GpuType("A", 4, 2), GpuType("B", 8, 1)])
    before = cluster.configurations
    assert cluster.configurations is before
    cluster.set_nodes("A", 3)
    assert cluster.capacity == {"A": 12, "B": 8}
    assert Configuration(3, 12, "A") in list(cluster.configurations)
    cluster.set_nodes("B", 0)
    assert cluster.capacity["B"] == 0
    assert all(c.type == "A" for c in cluster.configurations)
    with pytest.raises(ValueError, match="must not be negative"):
        cluster.set_nodes("B", -1)
    with pytest.raises(ValueError, match="name = 'C': must be a GPU type"):
        cluster.set_nodes("C", 1)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([], "at least one GPU type"),
        ([("A", 1, 1), ("A", 2, 1)], "different names"),
        ([("A", 0, 1)], "'A'"),
        ([("A", 4, -1)], "'A'"),
    ],
)
def test_clusters_that_make_no_sense(types, message):
    with pytest.raises(ValueError, match=message):
        Cluster([GpuType(*type) for type in types])


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


def test_a_lost_node_tightens_the_limits():
    cluster = Cluster([GpuType("a", 6, 3)])
    before = {limit.name: limit.capacity for limit in cluster.limits}
    cluster.set_nodes("a", 2)
    after = {limit.name: limit.capacity for limit in cluster.limits}
    assert before == {"a": 18, ("a", 4): 12}
    assert after == {"a": 12, ("a", 4): 8}
    whole = np.array([c.gpus == 6 for c in cluster.configurations])
    assert (cluster.limits[1].gpus[whole] == 4).all()


@pytest.mark.parametrize(
    ("name", "types", "gpus"),
    [
        ("homogeneous-64", ("t4",), 64),
        ("heterogeneous-64", ("t4", "rtx", "a100"), 64),
        ("physical-44", ("rtx", "a100", "quad"), 44),
        ("pollux-64", ("t4",), 64),
        ("pai-512", ("azure", "aws", "dgx-ext", "quad", "rtx", "a10-pcie", "a100-pcie"), 512),
        ("shockwave-32", ("rtx5000",), 32),
        ("elasticflow-128", ("a100",), 128),
        ("gavel-36", ("v100", "p100", "k80"), 108),
        ("heterogeneous-64-x2", ("t4", "rtx", "a100"), 128),
        ("homogeneous-64-x0.5", ("t4",), 32),
    ],
)
def test_clusters_have_the_gpus_of_the_papers(name, types, gpus):
    cluster = cluster_by_name(name)
    assert cluster.names == types
    assert cluster.gpus == gpus


def test_virtual_clusters_of_philly_are_of_their_size_in_nodes_of_8():
    for name, gpus in VIRTUAL_CLUSTERS.items():
        assert abs(cluster_by_name(f"philly-{name}").gpus - gpus) <= 4


@pytest.mark.parametrize(
    "name", ["", "homogeneous", "pai-0", "pai-x", "philly-123456", "pai-64-x0", "shockwave-12345678"]
)
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="cluster"):
        cluster_by_name(name)
