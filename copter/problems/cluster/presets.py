"""Clusters of the papers by name.

================== ==========================================================================================
name               GPUs
================== ==========================================================================================
homogeneous-64     16 nodes of 4 T4: thesis 3.4.3
heterogeneous-64   6 nodes of 4 T4, 3 of 8 RTX 2080 Ti, 2 of 8 A100: thesis 3.4.3
physical-44        3 nodes of 8 RTX 2080 Ti, 2 of 8 A100, 1 of 4 Quadro RTX 6000: thesis 3.4.3
pollux-64          16 nodes of 4 T4 (AWS g4dn.12xlarge): Pollux section 5.1
pai-N              the seven GPU types of the cluster of the thesis' chapter 4, about N GPUs in all
shockwave-N        nodes of 4 Quadro RTX 5000, N = 32, 64, 128, 256 in the paper: Shockwave section 8.1
afs-64             16 nodes of 4 GTX 1080: AFS section 5.1
philly-ID          a virtual cluster of Microsoft's trace, ID such as 6214e9 (AFS Table 3); nodes of 8 GPUs
elasticflow-N      nodes of 8 A100, N = 128 on the authors' testbed
gavel-N            N GPUs of each of V100, P100 and K80 in nodes of 4: Gavel's simulated clusters, as its
                   artifact's `cluster_specs_heterogeneous.json` counts them
NAME-xK            the cluster NAME with K times the nodes of each type; K is a number such as 2 or 0.5
================== ==========================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.registry import SettingsError

PAI_GPU_TYPES = (
    GpuType("azure", 8, 6),
    GpuType("aws", 4, 8),
    GpuType("dgx-ext", 8, 4),
    GpuType("quad", 4, 8),
    GpuType("rtx", 8, 6),
    GpuType("a10-pcie", 4, 8),
    GpuType("a100-pcie", 4, 8),
)
"""GPU types of the cluster pai-256."""

VIRTUAL_CLUSTERS = {
    "0e4a51": 1846,
    "6c71a0": 1856,
    "b436b2": 1668,
    "e13805": 1750,
    "6214e9": 1868,
    "7f04ca": 1714,
    "103959": 470,
    "ee9e8c": 1868,
    "2869ce": 1668,
    "11cb48": 1860,
    "ed69ec": 1454,
}
"""Number of GPUs of the virtual clusters of Microsoft's trace, in the order of AFS Table 3."""

_FIXED: dict[str, tuple[GpuType, ...]] = {
    "homogeneous-64": (GpuType("t4", 4, 16),),
    "heterogeneous-64": (GpuType("t4", 4, 6), GpuType("rtx", 8, 3), GpuType("a100", 8, 2)),
    "physical-44": (GpuType("rtx", 8, 3), GpuType("a100", 8, 2), GpuType("quad", 4, 1)),
    "pollux-64": (GpuType("t4", 4, 16),),
    "afs-64": (GpuType("gtx1080", 4, 16),),
}


def _pai(gpus: int) -> Cluster:
    base = Cluster(PAI_GPU_TYPES)
    return base.scaled(gpus / base.gpus)


def _one_type(name: str, gpus_per_node: int) -> Callable[[int], Cluster]:
    return lambda gpus: Cluster([GpuType(name, gpus_per_node, max(1, round(gpus / gpus_per_node)))])


def _gavel(gpus: int) -> Cluster:
    return Cluster(GpuType(name, 4, max(1, round(gpus / 4))) for name in ("v100", "p100", "k80"))


_SIZED: dict[str, Callable[[int], Cluster]] = {
    "pai": _pai,
    "shockwave": _one_type("rtx5000", 4),
    "elasticflow": _one_type("a100", 8),
    "gavel": _gavel,
}


def cluster_names() -> list[str]:
    """Return the names that :func:`cluster_by_name` accepts; in a name, N denotes a number of GPUs."""
    virtual = [f"philly-{name}" for name in VIRTUAL_CLUSTERS]
    return sorted([*_FIXED, *(f"{name}-N" for name in _SIZED), *virtual])


def cluster_by_name(name: str) -> Cluster:
    """Return a cluster of a paper.

    Parameters
    ----------
    name : str
        Name from the table of the module, such as "heterogeneous-64", "pai-512" or "homogeneous-64-x2".

    Raises
    ------
    SettingsError
        If there is no such cluster, or it would have no GPU.
    """
    scaled = re.fullmatch(r"(.+)-x(\d+(?:\.\d+)?)", name)
    if scaled:
        factor = float(scaled[2])
        if not factor > 0:
            raise SettingsError(f"cluster = {name!r}: must have a positive factor")
        return cluster_by_name(scaled[1]).scaled(factor)
    if name in _FIXED:
        return Cluster(_FIXED[name])
    family, _, size = name.rpartition("-")
    if family == "philly" and size in VIRTUAL_CLUSTERS:
        return _one_type("philly", 8)(VIRTUAL_CLUSTERS[size])
    if family in _SIZED and re.fullmatch(r"\d{1,7}", size):
        if int(size) < 1:
            raise SettingsError(f"cluster = {name!r}: must have at least one GPU")
        return _SIZED[family](int(size))
    known = ", ".join(cluster_names())
    raise SettingsError(f"unknown cluster {name!r}: must be one of {known}, or NAME-xK")
