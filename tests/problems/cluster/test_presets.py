"""Clusters of the papers: what they count to, and names that are none."""

import pytest

from copter.problems.cluster.presets import _VIRTUAL_CLUSTERS, cluster_by_name


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
    for name, gpus in _VIRTUAL_CLUSTERS.items():
        assert abs(cluster_by_name(f"philly-{name}").gpus - gpus) <= 4


@pytest.mark.parametrize(
    "name", ["", "homogeneous", "pai-0", "pai-x", "philly-123456", "pai-64-x0", "shockwave-12345678"]
)
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="cluster"):
        cluster_by_name(name)
