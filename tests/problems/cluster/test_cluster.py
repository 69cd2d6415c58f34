"""Configurations of a cluster, against the thesis' own example and its rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
