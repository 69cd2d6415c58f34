"""Path sets: the permitted paths of the demand of every pair of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from copter.arrays import Ints
from copter.errors import CopterError
from copter.problems.traffic.topology import Topology

_Node: TypeAlias = str | int


_MOST_SHORT = np.iinfo(np.uint16).max


class PathError(CopterError, ValueError):
    """Pairs or paths that a topology does not have; the message names the pair and the path."""


@dataclass(frozen=True, eq=False)
class PathSet:
    """Paths of P pairs of nodes, as flat arrays.

    Pair ``p`` has the paths ``first[p]`` to ``first[p + 1] - 1``, shortest first.  Path ``j`` consists of the
    links ``link[pointer[j]:pointer[j + 1]]`` in this order.

    Attributes
    ----------
    source, target : (P,) ndarray of int32
    first : (P + 1,) ndarray of int64
    pointer : (paths + 1,) ndarray of int64
    link : ndarray of uint16 or int32
        uint16 if all numbers of links fit, because networks with hundreds of nodes have tens of millions of
        entries.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    first: Ints
    pointer: Ints
    link: NDArray[np.integer]

    def __post_init__(self) -> None:
        link = self.link
        if link.dtype != np.uint16 and -1 < link.min(initial=0) <= link.max(initial=0) <= _MOST_SHORT:
            object.__setattr__(self, "link", link.astype(np.uint16))
        pairs, paths = self.source.size, self.pointer.size - 1
        if self.target.size != pairs or self.first.size != pairs + 1 or paths < 0:
            raise PathError("arrays of a path set: lengths must match")
        for starts, end in ((self.first, paths), (self.pointer, self.link.size)):
            if starts[0] != 0 or starts[-1] != end or (np.diff(starts) < 0).any():
                raise PathError("arrays of a path set: starts must ascend from 0 to the number of entries")

    def __len__(self) -> int:
        return self.n_pairs

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return self.source.size

    @property
    def n_paths(self) -> int:
        """Number of paths of all pairs."""
        return self.pointer.size - 1

    @property
    def counts(self) -> Ints:
        """Number of paths of each pair."""
        return np.diff(self.first)

    @property
    def hops(self) -> Ints:
        """Number of links of each path."""
        return np.diff(self.pointer)

    @property
    def pair(self) -> Ints:
        """Pair of each path."""
        return np.repeat(np.arange(self.n_pairs), self.counts)

    def incidence(self, n_links: int) -> sparse.csc_array:
        """Return the matrix of ones with a row per link, a column per path, and the links of each path.

        Parameters
        ----------
        n_links : int
            Number of links of the topology.
        """
        ones = np.ones(self.link.size)
        return sparse.csc_array((ones, self.link, self.pointer), shape=(n_links, self.n_paths))

    def take(self, pairs: ArrayLike) -> PathSet:
        """Return the paths of some pairs, in the given order.

        Parameters
        ----------
        pairs : array_like of int or of bool
            Numbers of pairs, or one flag per pair.
        """
        chosen = np.arange(self.n_pairs)[np.asarray(pairs)]
        first, paths = _gather(self.first, chosen)
        pointer, positions = _gather(self.pointer, paths)
        return PathSet(self.source[chosen], self.target[chosen], first, pointer, self.link[positions])

    def nodes(self, topology: Topology, path: int) -> list[int]:
        """Return the nodes of a path, from its source to its target.

        Parameters
        ----------
        path : int
            Number of the path.
        """
        links = self.link[self.pointer[path] : self.pointer[path + 1]]
        return [int(topology.tail[links[0]]), *topology.head[links].tolist()]

    @classmethod
    def from_lists(
        cls, topology: Topology, paths: Mapping[tuple[_Node, _Node], Iterable[Sequence[_Node]]]
    ) -> PathSet:
        """Return a path set of given paths.

        Parameters
        ----------
        paths : mapping
            Paths of each pair of source and target, each a list of nodes.  Nodes are names (str) or numbers
            (int).  Paths of a pair keep their order.

        Returns
        -------
        PathSet
            Path set with the pairs in the order of the mapping.

        Raises
        ------
        PathError
            If there is an unknown node, a pair without a path, or an invalid path: with a link that does not
            exist, with another begin or end, or with a node twice.  The error names the pair and the path.
        """
        number = {name: node for node, name in enumerate(topology.nodes)}
        source, target, first, pointer, links = [], [], [0], [0], list[int]()
        for pair, own in paths.items():
            begin, end = (_node(topology, number, node, f"pair {pair}") for node in pair)
            if begin == end:
                raise PathError(f"pair {pair}: source and target must differ")
            source.append(begin)
            target.append(end)
            for path in own:
                where = f"pair {pair}: path {list(path)}"
                nodes = [_node(topology, number, node, where) for node in path]
                links.extend(_links(topology, nodes, begin, end, where))
                pointer.append(len(links))
            if len(pointer) - 1 == first[-1]:
                raise PathError(f"pair {pair}: must have at least one path")
            first.append(len(pointer) - 1)
        ends = (np.array(source, np.int32), np.array(target, np.int32))
        starts = (np.array(first, np.int64), np.array(pointer, np.int64))
        return cls(*ends, *starts, np.array(links, np.int32))


def _gather(starts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the starts of some rows in a new sequence, and the positions of their entries in the old one."""
    sizes = starts[rows + 1] - starts[rows]
    moved = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    positions = np.repeat(starts[rows] - moved[:-1], sizes) + np.arange(moved[-1])
    return moved, positions


def _node(topology: Topology, number: Mapping[str, int], node: _Node, where: str) -> int:
    found = number.get(node) if isinstance(node, str) else int(node)
    if found is None or not 0 <= found < topology.n_nodes:
        raise PathError(f"{where}: {node!r}: must be a node of {topology.name!r}")
    return found


def _links(topology: Topology, nodes: list[int], begin: int, end: int, where: str) -> list[int]:
    if len(nodes) < 2 or nodes[0] != begin or nodes[-1] != end:
        raise PathError(f"{where}: must lead from the source to the target")
    if len(set(nodes)) < len(nodes):
        twice = next(node for node in nodes if nodes.count(node) > 1)
        raise PathError(f"{where}: must not visit {topology.nodes[twice]!r} twice")
    links = []
    for tail, head in zip(nodes, nodes[1:], strict=False):
        link = topology.links.get((tail, head))
        if link is None:
            raise PathError(
                f"{where}: the topology has no link {topology.nodes[tail]} -> {topology.nodes[head]}"
            )
        links.append(link)
    return links
