"""Networks: nodes, directed links with capacities, and the readers of topology files.

Sources are a networkx graph, a GraphML file of the Internet Topology Zoo, a node-link JSON file (the format
of Teal's topologies) or the name of a topology in the package ``topohub``.  Links are directed; an undirected
link becomes one link in each direction.  Only the largest strongly connected component is kept, so every pair
has a path.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.arrays import Floats
from copter.errors import CopterError
from copter.extras import extra

with extra("traffic"):
    import networkx as nx

DEFAULT_CAPACITY = 1000.0
"""Default capacity of a link, as in published runs on Topology Zoo graphs."""
_SHOWN = 5
"""Largest number of names in a warning."""


class TopologyError(CopterError, ValueError):
    """An invalid topology; the message names the file, the link or the node."""


@dataclass(frozen=True, eq=False)
class Topology:
    """A network of directed links; nodes and links are numbered as in the arrays.

    Attributes
    ----------
    nodes : list of str
        Names of the N nodes.
    tail, head : (E,) ndarray of int32
        Begin and end of each link; unique, and never the same node.
    capacity : (E,) ndarray of float64
        Finite, nonnegative capacities.
    left_out : tuple of (int, str)
        Position and name of each node of the source that is not in the largest component.  Matrices of all
        nodes can be read if these nodes have no demands.
    """

    name: str
    nodes: list[str]
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    capacity: Floats
    left_out: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        for field, kind in (("tail", np.int32), ("head", np.int32), ("capacity", np.float64)):
            object.__setattr__(self, field, np.ascontiguousarray(getattr(self, field), kind))
        if len(set(self.nodes)) < len(self.nodes):
            twice = next(node for node in self.nodes if self.nodes.count(node) > 1)
            raise TopologyError(f"topology {self.name!r}: node name {twice!r}: must be unique")
        if not self.tail.shape == self.head.shape == self.capacity.shape == (self.tail.size,):
            raise TopologyError(f"topology {self.name!r}: tail, head, capacity: lengths must be equal")
        for end in (self.tail, self.head):
            outside = (end < 0) | (end >= self.n_nodes)
            if outside.any():
                raise TopologyError(
                    f"topology {self.name!r}: node {end[outside][0]}: must be in [0, {self.n_nodes})"
                )
        loops = np.flatnonzero(self.tail == self.head)
        if loops.size:
            raise TopologyError(f"topology {self.name!r}: link {self.link_name(loops[0])}: ends must differ")
        if len(self.links) < self.n_links:
            raise TopologyError(f"topology {self.name!r}: links must not have the same two ends")
        wrong = np.flatnonzero(~(np.isfinite(self.capacity) & (self.capacity >= 0)))
        if wrong.size:
            raise TopologyError(
                f"topology {self.name!r}: link {self.link_name(wrong[0])}: capacity = "
                f"{self.capacity[wrong[0]]}: must be finite and not negative"
            )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def n_links(self) -> int:
        """Number of directed links."""
        return self.tail.size

    @cached_property
    def links(self) -> Mapping[tuple[int, int], int]:
        """Number of the link from one node to another, by their numbers."""
        ends = zip(self.tail.tolist(), self.head.tolist(), strict=True)
        return {pair: link for link, pair in enumerate(ends)}

    def link_name(self, link: int) -> str:
        """Return the names of the two ends of a link."""
        return f"{self.nodes[self.tail[link]]} -> {self.nodes[self.head[link]]}"

    def with_capacity(self, capacity: ArrayLike) -> Topology:
        """Return the network with other capacities, one for all links or one for each.

        Parameters
        ----------
        capacity : float or (E,) array_like
            Finite, nonnegative capacities.
        """
        return replace(self, capacity=np.broadcast_to(np.asarray(capacity, float), self.tail.shape).copy())

    def to_networkx(self) -> nx.DiGraph:
        """Return the network as a graph of node numbers, with ``capacity`` on its links."""
        graph = nx.DiGraph(name=self.name)
        graph.add_nodes_from(range(self.n_nodes))
        rows = zip(self.tail.tolist(), self.head.tolist(), self.capacity.tolist(), strict=True)
        graph.add_weighted_edges_from(rows, weight="capacity")
        return graph

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, *, name: str | None = None, capacity: float | None = None
    ) -> Topology:
        """Return a network from any networkx graph, directed or not, with parallel links or not.

        Parameters
        ----------
        graph : networkx graph
            Graph.  An undirected link becomes one link in each direction.  Parallel links become one link
            with the sum of the given capacities, or 1000 if none is given.  Links from a node to itself are
            omitted.
        name : str, optional
            Name of the network; default: that of the graph.
        capacity : float, optional
            Capacity of every link; default: the link's attribute ``capacity``, or else 1000.

        Returns
        -------
        Topology
            Largest strongly connected component; nodes keep their order.

        Warns
        -----
        UserWarning
            If parallel links without a capacity became one link, or nodes are not in the component; the
            warning names them.

        Raises
        ------
        TopologyError
            If the graph is empty, or a capacity is negative or not finite; the error names the link.
        """
        name = str(graph.graph.get("name") or "network") if name is None else name
        given: dict[tuple[Hashable, Hashable], float | None] = {}
        alike: dict[str, None] = {}
        for tail, head, own in graph.to_directed().edges(data="capacity"):
            if tail != head:
                amount = None if own is None or capacity is not None else _capacity(name, tail, head, own)
                before = given.get((tail, head))
                if amount is before is None and (tail, head) in given:
                    alike[f"{tail} -> {head}"] = None
                given[tail, head] = amount if before is None else before + (amount or 0.0)
        kept = _largest_component(name, graph.nodes, given)
        number = {node: k for k, node in enumerate(kept)}
        ends = [(tail, head) for tail, head in given if tail in number and head in number]
        default = DEFAULT_CAPACITY if capacity is None else capacity
        values = [default if (amount := given[link]) is None else amount for link in ends]
        left_out = tuple((place, str(node)) for place, node in enumerate(graph.nodes) if node not in number)
        _warn(name, f"parallel links without capacities became one with {default:g}", alike)
        _warn(name, "left out, because no links lead there and back", [node for _, node in left_out])
        return cls(
            name,
            [str(node) for node in kept],
            np.array([number[tail] for tail, _ in ends], np.int32),
            np.array([number[head] for _, head in ends], np.int32),
            np.array(values, np.float64),
            left_out,
        )


def load_topology(source: str | Path | nx.Graph, *, capacity: float | None = None) -> Topology:
    """Return a network from a file, a name of the package topohub, or a networkx graph.

    Parameters
    ----------
    source : path, str or networkx graph
        A ``.graphml`` file; a ``.json`` file in node-link format; a name of topohub, such as
        ``topozoo/Abilene``, ``sndlib/germany50`` or ``gabriel/25/0``.
    capacity : float, optional
        Capacity of every link; default: that of the source, or else 1000.

    Raises
    ------
    TopologyError
        If a source does not exist or cannot be read, or a link's capacity is invalid.
    MissingExtraError
        If a name is given, but topohub is not installed.
    """
    if isinstance(source, nx.Graph):
        return Topology.from_networkx(source, capacity=capacity)
    path = Path(source)
    readers = {".graphml": _read_graphml, ".json": _read_json}
    if path.suffix in readers:
        if not path.is_file():
            raise TopologyError(f"{path}: does not exist")
        return Topology.from_networkx(readers[path.suffix](path), name=path.stem, capacity=capacity)
    if path.exists():
        raise TopologyError(f"{path}: must end in .graphml or .json")
    return Topology.from_networkx(_from_topohub(str(source)), name=str(source), capacity=capacity)


def _read_graphml(path: Path) -> nx.Graph:
    try:
        return nx.read_graphml(path)
    except Exception as error:  # networkx may raise any error of its parser
        raise TopologyError(f"{path}: must be GraphML: {error}") from error


def _read_json(path: Path) -> nx.Graph:
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
        return _node_link(data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TopologyError(f"{path}: must be a graph in node-link format: {error!r}") from error


def _node_link(data: Mapping[str, Any]) -> nx.Graph:
    """Return the graph of a node-link document; integral nodes are in the order of their numbers.

    Such files list nodes in any order, while the rows of the corresponding matrices are in the order of these
    numbers.
    """
    kinds = ((nx.Graph, nx.MultiGraph), (nx.DiGraph, nx.MultiDiGraph))
    graph = kinds[bool(data.get("directed", False))][bool(data.get("multigraph", False))]()
    nodes = [dict(node) for node in data["nodes"]]
    if all(isinstance(node["id"], int) for node in nodes):
        nodes.sort(key=lambda node: node["id"])
    known = {node["id"] for node in nodes}
    graph.add_nodes_from((node.pop("id"), node) for node in nodes)
    for link in data["links"] if "links" in data else data["edges"]:
        for end in ("source", "target"):
            if link[end] not in known:
                raise ValueError(f"link {link['source']} -> {link['target']}: {link[end]!r}: must be a node")
        extra = {key: value for key, value in link.items() if key not in ("source", "target", "key")}
        graph.add_edge(link["source"], link["target"], **extra)
    return graph


def _from_topohub(name: str) -> nx.Graph:
    with extra("traffic"):
        import topohub
    try:
        return _node_link(topohub.get(name))
    except Exception as error:  # for an unknown name, topohub may raise any error of reading a missing file
        raise TopologyError(f"{name!r}: must be a file or a topology of topohub") from error


def _capacity(name: str, tail: Hashable, head: Hashable, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        why = f"capacity = {value!r}: must be a number, finite and not negative"
        raise TopologyError(f"topology {name!r}: link {tail} -> {head}: {why}")
    return number


def _warn(name: str, what: str, items: Collection[str]) -> None:
    """Warn about nodes or parallel links of a source, if there are any."""
    if items:
        shown = ", ".join([*items][:_SHOWN])
        shown += f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
        warnings.warn(f"topology {name!r}: {shown}: {what}", stacklevel=3)


def _largest_component(
    name: str, nodes: Iterable[Hashable], links: Iterable[tuple[Hashable, Hashable]]
) -> list[Hashable]:
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(links)
    if len(graph) == 0:
        raise TopologyError(f"topology {name!r}: must have at least one node")
    largest = max(nx.strongly_connected_components(graph), key=len)
    return [node for node in graph if node in largest]
