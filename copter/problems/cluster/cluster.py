"""GPU clusters and the configurations that the Sia policy chooses from.

A configuration is a bundle (n nodes, r GPUs in all, type).  On one node, a configuration has a power of two
GPUs or all GPUs of the node; on several nodes, it has whole nodes only.  If such configurations fit by their
counts, there is a placement in which no two distributed jobs share a node.  So the policy decides on counts
only.

Let a node have R GPUs, and let s be a power of two.  If R is not a power of two, parts of s GPUs can use only
R - R mod s GPUs of the node: a node of 12 GPUs has three parts of 4, but one part of 8.  Then the counts have
further limits (:class:`GpuLimit`).  The thesis instead models such a node as several virtual nodes, whose
sizes are the powers of two that add up to R.  The limits permit more than the virtual nodes, such as three
parts of 4 on a node of 12.

Source: Sia, thesis section 3.3.3 (configurations).  Its set for N nodes with R GPUs each has N + log2 R
members if R is a power of two.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Ints

_NODE_BITS = 28


@dataclass(frozen=True)
class GpuType:
    """Nodes with one type of GPU.

    Parameters
    ----------
    name : str
        Name of the type.
    gpus_per_node : int
        GPUs of each node, at least 1.
    nodes : int
        Number of nodes.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """

    name: str
    gpus_per_node: int
    nodes: int

    def __post_init__(self) -> None:
        if self.gpus_per_node < 1:
            raise ValueError(
                f"GPU type {self.name!r}: gpus_per_node = {self.gpus_per_node}: must be at least 1"
            )
        if self.nodes < 0:
            raise ValueError(f"GPU type {self.name!r}: nodes = {self.nodes}: must not be negative")

    @property
    def gpus(self) -> int:
        """Number of GPUs of this type."""
        return self.gpus_per_node * self.nodes


class Configuration(NamedTuple):
    """A bundle that a job may get: `gpus` GPUs of one `type` on `nodes` nodes."""

    nodes: int
    gpus: int
    type: str


@dataclass(frozen=True, eq=False)
class Configurations:
    """All configurations of a cluster as parallel arrays, ordered by type, then by GPUs.

    Attributes
    ----------
    types : tuple of str
        Names of the GPU types.
    type_index, nodes, gpus : (n,) int arrays, read-only
        Index into `types`, number of nodes and number of GPUs of each configuration.
    codes : (n,) int64 array, read-only
        Ascending; one number for each (type, nodes, gpus), which does not change with the cluster's nodes.
    """

    types: tuple[str, ...]
    type_index: Ints
    nodes: Ints
    gpus: Ints

    def __post_init__(self) -> None:
        for array in (self.type_index, self.nodes, self.gpus, self.codes):
            array.flags.writeable = False

    def __len__(self) -> int:
        return self.gpus.size

    def __getitem__(self, index: int) -> Configuration:
        return self._tuples[index]

    def __iter__(self) -> Iterator[Configuration]:
        return iter(self._tuples)

    def index(self, configuration: Configuration) -> int:
        """Return the position of a configuration.

        Raises
        ------
        KeyError
            If the cluster does not have the configuration.
        """
        return self._positions[configuration]

    def get(self, configuration: Configuration) -> int:
        """Return the position of a configuration, -1 if the cluster does not have it."""
        return self._positions.get(configuration, -1)

    def find(self, type_index: NDArray, nodes: NDArray, gpus: NDArray) -> Ints:
        """Return the positions of many configurations, -1 where the cluster does not have one."""
        return self.find_codes(_codes(type_index, nodes, gpus))

    def find_codes(self, codes: Ints) -> Ints:
        """Return the positions of configurations by their codes, -1 where the cluster does not have one.

        Parameters
        ----------
        codes : (k,) int array
            Codes as in :attr:`codes`.
        """
        if not len(self):
            return np.full(codes.size, -1)
        at = np.searchsorted(self.codes, codes).clip(max=len(self) - 1)
        return np.where(self.codes[at] == codes, at, -1)

    @cached_property
    def codes(self) -> Ints:
        """Ascending codes of the configurations."""
        return _codes(self.type_index, self.nodes, self.gpus)

    @cached_property
    def _tuples(self) -> list[Configuration]:
        names = (self.types[t] for t in self.type_index.tolist())
        columns = zip(self.nodes.tolist(), self.gpus.tolist(), names, strict=True)
        return [Configuration(*entry) for entry in columns]

    @cached_property
    def _positions(self) -> dict[Configuration, int]:
        return {configuration: k for k, configuration in enumerate(self._tuples)}


class GpuLimit(NamedTuple):
    """Limit on the configurations in use, so that all of them can be placed.

    Attributes
    ----------
    name : hashable
        Name of the GPU type for the limit on all its GPUs, otherwise (name, s) for the limit on parts of at
        least s GPUs.
    gpus : (n,) int array
        Number of GPUs with which each configuration of the cluster counts towards the limit.
    capacity : int
        Largest sum of `gpus` over the configurations in use.
    """

    name: Hashable
    gpus: Ints
    capacity: int

    @property
    def shown(self) -> str:
        """The GPU type, and the size of parts if the limit is on parts, for messages."""
        if isinstance(self.name, tuple):
            return f"{self.name[0]!r}, parts of {self.name[1]} GPUs or more"
        return repr(self.name)


def _codes(type_index: NDArray, nodes: NDArray, gpus: NDArray) -> Ints:
    code = (type_index.astype(np.int64) << _NODE_BITS) + gpus
    return (code << _NODE_BITS) + nodes


class Cluster:
    """GPU types in a fixed order, with nodes that come and go.

    Parameters
    ----------
    types : iterable of GpuType
        Types with different names.

    Raises
    ------
    ValueError
        If there is no type, or two types have the same name.

    Examples
    --------
    >>> cluster = Cluster([GpuType("A", 2, 1), GpuType("B", 4, 1)])
    >>> [tuple(c) for c in configurations(cluster)]
    [(1, 1, 'A'), (1, 2, 'A'), (1, 1, 'B'), (1, 2, 'B'), (1, 4, 'B')]
    """

    def __init__(self, types: Iterable[GpuType]) -> None:
        listed = list(types)
        self._types = {type.name: type for type in listed}
        if len(self._types) < len(listed):
            raise ValueError(f"types = {[type.name for type in listed]}: must have different names")
        if not listed:
            raise ValueError("types: must have at least one GPU type")
        self._configurations: Configurations | None = None
        self._limits: tuple[GpuLimit, ...] | None = None

    def __repr__(self) -> str:
        return f"Cluster({list(self._types.values())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cluster) and list(self._types.items()) == list(other._types.items())

    __hash__ = None  # type: ignore[assignment]

    @property
    def types(self) -> tuple[GpuType, ...]:
        """GPU types, in order."""
        return tuple(self._types.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the GPU types, in order."""
        return tuple(self._types)

    @property
    def gpus(self) -> int:
        """Number of GPUs of all types."""
        return sum(type.gpus for type in self.types)

    @property
    def capacity(self) -> dict[str, int]:
        """Number of GPUs of each type."""
        return {type.name: type.gpus for type in self.types}

    @property
    def configurations(self) -> Configurations:
        """Configurations of the present cluster; the same object until a number of nodes changes."""
        if self._configurations is None:
            self._configurations = configurations(self)
        return self._configurations

    @property
    def limits(self) -> tuple[GpuLimit, ...]:
        """Limits on the present configurations; the same object until a number of nodes changes."""
        if self._limits is None:
            self._limits = tuple(_limits(self))
        return self._limits

    def packed(self, type: str, gpus: int) -> Configuration:
        """Return the configuration with `gpus` GPUs of a type on as few nodes as possible."""
        return Configuration(-(-gpus // self._types[type].gpus_per_node), gpus, type)

    def copy(self) -> Cluster:
        """Return an independent copy of the cluster."""
        return Cluster(self.types)

    def scaled(self, factor: float) -> Cluster:
        """Return a cluster with `factor` times the nodes of each type, rounded, but at least one node."""
        return Cluster(replace(type, nodes=max(1, round(type.nodes * factor))) for type in self.types)

    def set_nodes(self, name: str, nodes: int) -> None:
        """Set the number of nodes of a type.

        Parameters
        ----------
        name : str
            Name of the type.
        nodes : int
            New number of nodes.

        Raises
        ------
        ValueError
            If there is no such type.
        """
        if name not in self._types:
            raise ValueError(f"name = {name!r}: must be a GPU type of the cluster: {list(self._types)}")
        self._types[name] = replace(self._types[name], nodes=nodes)
        self._configurations = self._limits = None


def _limits(cluster: Cluster) -> Iterator[GpuLimit]:
    """Yield the limits of each type: all GPUs, then parts of at least s GPUs where R mod s > 0.

    The limits suffice.  Parts are placed from the largest to the smallest.  The parts on a node before a part
    of s GPUs are multiples of s, so the node has room for it if they use fewer than R - R mod s GPUs.
    """
    known = cluster.configurations
    for position, type in enumerate(cluster.types):
        size, own = type.gpus_per_node, known.type_index == position
        yield GpuLimit(type.name, np.where(own, known.gpus, 0), type.gpus)
        whole = own & (known.gpus % size == 0)
        for s in (1 << k for k in range(1, size.bit_length())):
            if size % s:
                usable = size - size % s
                part = np.where(own & (known.gpus >= s), known.gpus, 0)
                yield GpuLimit(
                    (type.name, s), np.where(whole, known.nodes * usable, part), type.nodes * usable
                )


def configurations(cluster: Cluster) -> Configurations:
    """Return the valid configurations of a cluster (thesis section 3.3.3).

    A type with R GPUs a node and N nodes has (1, 2^i) for 2^i <= R, (1, R), and (k, k R) for k = 2..N.
    """
    index, nodes, gpus = [], [], []
    for position, type in enumerate(cluster.types):
        if not type.nodes:
            continue
        within = {1 << i for i in range(type.gpus_per_node.bit_length())} | {type.gpus_per_node}
        single = np.array(sorted(within), np.int64)
        many = np.arange(2, type.nodes + 1, dtype=np.int64)
        nodes += [np.ones(single.size, np.int64), many]
        gpus += [single, many * type.gpus_per_node]
        index.append(np.full(single.size + many.size, position, np.int64))
    if not index:
        empty = np.empty(0, np.int64)
        return Configurations(cluster.names, empty, empty.copy(), empty.copy())
    return Configurations(cluster.names, np.concatenate(index), np.concatenate(nodes), np.concatenate(gpus))
