"""Placement: nodes for the configurations that a policy chose.

Rules (thesis section 3.3.1):

(a) a job that requests part of a node gets it on one node,
(b) a job that requests whole nodes gets whole nodes,
(c) if free GPUs are too scattered for (a) or (b), some jobs are evicted and placed again.

A job with an unchanged configuration keeps its nodes, unless it is evicted.  Two distributed jobs, that is,
jobs on more than one node, never share a node, because their traffic would share its network card.

If configurations are powers of two within a node of 2^k GPUs, and whole nodes beyond, every set of jobs that
fits by its counts can be placed.  Jobs are placed from the largest to the smallest.  Let the largest job
without a place want g GPUs of a node, while at least g GPUs are free in all.  A node with 0 < f < g free GPUs
has jobs smaller than g on at least g - f of its GPUs, because 2^k - f is not a multiple of g.  So only
smaller jobs are evicted, and the smallest ones always fit. On nodes of other sizes, all jobs can be placed if
they keep the limits of :class:`copter.problems.cluster.cluster.GpuLimit`, as Sia's jobs do. Other counts (6
GPUs on nodes of 4) are placed heuristically: whole nodes, and the remainder on a node that no other
distributed job uses. A job without a place has no GPUs until the policy is asked again. AFS' network packing
(Proposition 1, appendix E) uses the same counts; :mod:`copter.problems.afs.allocation` adjusts its shares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeAlias, cast

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.nodes import working_nodes
from copter.problems.cluster.policy import Allocation, Placement, Policy, PolicyError

_Nodes: TypeAlias = tuple[tuple[int, int], ...]
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Placed:
    """Result of a placer.

    `places`: the place of every placed job; a configuration if GPUs are only counted. `evicted`: jobs with a
    configuration but without nodes, which have no GPUs until the policy is asked again. `moved`: jobs that
    kept their configuration and changed nodes.
    """

    places: Mapping[str, Allocation]
    evicted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


class SiaPlacer:
    """A placer that follows the three rules; it checks nodes that a policy chose itself, and uses them.

    `sharing`: if there is no other place for a distributed job, it may share a node with another distributed
    job, as in the simulators of Gavel and Pollux. Only jobs whose GPU count is not among the cluster's
    configurations need to share nodes.
    """

    def __init__(self, *, sharing: bool = False) -> None:
        self._sharing = sharing

    def place(
        self,
        cluster: Cluster,
        down: Mapping[str, frozenset[int]],
        held: Mapping[str, Placement],
        wanted: Mapping[str, Allocation],
        fixed: Collection[str] = (),
    ) -> Placed:
        """Find nodes for every job with a configuration.

        `cluster`: has the number of working nodes; if a type has n of them, they have the first n numbers
        that are not in `down`. `down`: failed nodes of each type. `held`: present places of jobs; a place on
        nodes that are gone has no effect. `wanted`: the policy's choice for each job, a Placement if it chose
        the nodes itself; its order breaks ties. `fixed`: jobs that keep their nodes while their configuration
        does not change. A job that stays on its nodes keeps its Placement object.
        """
        by_type: dict[str, dict[str, Allocation]] = {type.name: {} for type in cluster.types}
        for name, want in wanted.items():
            if want.type not in by_type:
                raise PolicyError(f"job {name!r}: the cluster has no GPU type {want.type!r}")
            by_type[want.type][name] = want
        places: dict[str, Allocation] = {}
        evicted: list[str] = []
        moved: list[str] = []
        for type in cluster.types:
            pool = _Pool(type, down.get(type.name, _NONE), self._sharing)
            evicted += pool.fit(by_type[type.name], held, fixed)
            for name, nodes in pool.jobs.items():
                have = held.get(name)
                if have is not None and have.type == type.name:
                    if have.nodes == nodes:
                        places[name] = have
                        continue
                    if _is(have.nodes, by_type[type.name][name]):
                        moved.append(name)
                places[name] = Placement(type.name, nodes)
        return Placed(places, tuple(evicted), tuple(moved))


def placer_for(policy: Policy) -> SiaPlacer:
    """Return the placer for a policy; under a policy of rigid jobs, distributed jobs may share nodes."""
    return SiaPlacer(sharing=policy.kind == "rigid")


def _is(nodes: _Nodes, want: Allocation) -> bool:
    """Return whether nodes of the wanted type satisfy a policy's choice."""
    if isinstance(want, Placement):
        return nodes == want.nodes
    return len(nodes) == want.nodes and sum(gpus for _, gpus in nodes) == want.gpus


def _parts(want: Configuration, size: int) -> list[int]:
    """Return the number of GPUs on each node: as many whole nodes as possible, and the remainder."""
    parts = []
    left = want.gpus
    for after in range(want.nodes - 1, -1, -1):
        parts.append(min(size, left - after))
        left -= parts[-1]
    return parts


class _Pool:
    """The nodes of one type with their free GPUs.

    There is a heap of nodes for each number of free GPUs. A heap contains at least the nodes with this
    number; an outdated entry is dropped when it reaches the top.
    """

    def __init__(self, type: GpuType, down: frozenset[int], sharing: bool) -> None:
        self.type, self.size, self.sharing = type, type.gpus_per_node, sharing
        working = working_nodes(type, down)
        self.free = [0] * (working[-1] + 1 if working else 0)
        for node in working:
            self.free[node] = self.size
        self.distributed = [False] * len(self.free)
        self.jobs: dict[str, _Nodes] = {}
        self._all = range(len(self.free))
        self._heaps = list[list[int]]()
        self._alone: dict[int, dict[str, int]] | None = None

    def fit(
        self, wanted: Mapping[str, Allocation], held: Mapping[str, Placement], fixed: Collection[str]
    ) -> list[str]:
        """Place jobs; return those without a place."""
        queue: list[tuple[bool, int, int, str]] = []
        chosen = [(name, want.nodes) for name, want in wanted.items() if isinstance(want, Placement)]
        for name, nodes in chosen:
            if not self._has(nodes):
                what = f"nodes = {nodes}: must be free GPUs of {self.type}"
                raise PolicyError(f"job {name!r}: {what}")
            self._take(name, nodes)
        for order, (name, want) in enumerate(wanted.items()):
            if isinstance(want, Placement):
                continue
            have = held.get(name)
            if have is None or have.type != want.type or not self._keep(name, have.nodes, want):
                queue.append((want.nodes == 1, -want.gpus, order, name))
        if queue:
            self._heaps = [[] for _ in range(self.size + 1)]
            for node in self._all:
                self._heap(node).append(node)
        heapify(queue)
        number = {name: order for order, name in enumerate(wanted)} if queue else {}
        stay = {*fixed, *(name for name, _ in chosen)}
        lost = []
        while queue:
            *_, name = heappop(queue)
            want = cast(Configuration, wanted[name])
            have = held.get(name)
            own = have.nodes if have is not None and have.type == want.type else ()
            parts = _parts(want, self.size)
            nodes, victims = self._find(parts, own, stay, apart=len(parts) > 1)
            if not nodes and self.sharing and len(parts) > 1:
                nodes, victims = self._find(parts, own, stay, apart=False)
            if not nodes:
                lost.append(name)
                continue
            for victim in victims:
                heappush(queue, (True, -self._drop(victim), number[victim], victim))
            self._take(name, nodes)
        return lost

    def _keep(self, name: str, nodes: _Nodes, want: Configuration) -> bool:
        """Leave a job on its nodes and return True, if these can still give it the wanted configuration."""
        if len(nodes) == 1 and want.nodes == 1:  # most jobs
            node, gpus = nodes[0]
            if gpus != want.gpus or node >= len(self.free) or self.free[node] < gpus:
                return False
            self.free[node] -= gpus
            self.jobs[name] = nodes
            return True
        if not (_is(nodes, want) and self._stays(nodes)):
            return False
        self._take(name, nodes)
        return True

    def _has(self, nodes: _Nodes) -> bool:
        """Return whether these GPUs are free."""
        return all(0 <= node < len(self.free) and 1 <= gpus <= self.free[node] for node, gpus in nodes)

    def _stays(self, nodes: _Nodes) -> bool:
        """Return whether a job can stay on nodes."""
        apart = len(nodes) == 1 or self.sharing or not any(self.distributed[node] for node, _ in nodes)
        return apart and self._has(nodes)

    def _take(self, name: str, nodes: _Nodes) -> None:
        self.jobs[name] = nodes
        for node, gpus in nodes:
            self.free[node] -= gpus
            if self._heaps:
                heappush(self._heap(node), node)
        if len(nodes) > 1:
            for node, _ in nodes:
                self.distributed[node] = True
        elif self._alone is not None:
            self._alone.setdefault(nodes[0][0], {})[name] = nodes[0][1]

    def _heap(self, node: int) -> list[int]:
        """Return the heap to which a node with its present free GPUs belongs."""
        return self._heaps[self.free[node]]

    def _drop(self, name: str) -> int:
        """Remove a job from its only node; return its number of GPUs."""
        assert self._alone is not None
        ((node, gpus),) = self.jobs.pop(name)
        self.free[node] += gpus
        heappush(self._heap(node), node)
        del self._alone[node][name]
        return gpus

    def _find(
        self, parts: list[int], own: _Nodes, stay: Collection[str], *, apart: bool
    ) -> tuple[_Nodes, list[str]]:
        """Return nodes for a job, if possible its own ones, and the jobs to evict for it.

        The nodes are empty if there is no place.  With `apart`, nodes that a distributed job uses are
        excluded.
        """
        found: dict[int, int] = {}
        victims: list[str] = []
        for gpus in parts:
            node = self._own(gpus, own, found, apart)
            node = self._tightest(gpus, found, apart) if node is None else node
            if node is None:
                room = self._room(gpus, found, stay, apart)
                if room is None:
                    return (), []
                node, more = room
                victims += more
            found[node] = gpus
        return tuple(sorted(found.items())), victims

    def _open(self, node: int, found: Collection[int], apart: bool) -> bool:
        """Return whether a job that has the nodes `found` may also use `node`, if this node has room."""
        return node not in found and not (apart and self.distributed[node])

    def _own(self, gpus: int, own: _Nodes, found: Collection[int], apart: bool) -> int | None:
        for node, _ in own:
            if node < len(self.free) and self.free[node] >= gpus and self._open(node, found, apart):
                return node
        return None

    def _tightest(self, gpus: int, found: Collection[int], apart: bool) -> int | None:
        """Return the node with the fewest free GPUs that suffice."""
        for free in range(gpus, self.size + 1):
            heap, skipped = self._heaps[free], []
            while heap:
                if self.free[heap[0]] != free:
                    heappop(heap)
                elif self._open(heap[0], found, apart):
                    break
                else:
                    skipped.append(heappop(heap))
            node = heap[0] if heap else None
            for one in skipped:
                heappush(heap, one)
            if node is not None:
                return node
        return None

    def _room(
        self, gpus: int, found: Collection[int], stay: Collection[str], apart: bool
    ) -> tuple[int, list[str]] | None:
        """Return the node that needs the fewest evictions of smaller jobs to make room, and those jobs."""
        if self._alone is None:
            self._alone = {}
            for name, nodes in self.jobs.items():
                if len(nodes) == 1:
                    self._alone.setdefault(nodes[0][0], {})[name] = nodes[0][1]
        best: tuple[int, int, int, list[str]] | None = None
        for node in sorted(self._alone):
            if not self._open(node, found, apart):
                continue
            small = [(n, name) for name, n in self._alone[node].items() if n < gpus and name not in stay]
            victims = _victims(sorted(small, key=lambda one: one[0]), gpus - self.free[node])
            if victims:
                size = sum(n for n, _ in victims)
                candidate = (len(victims), size, node, [name for _, name in victims])
                best = candidate if best is None else min(best, candidate)
        return None if best is None else (best[2], best[3])


def _victims(jobs: list[tuple[int, str]], need: int) -> list[tuple[int, str]]:
    """Return as few jobs as possible that free `need` GPUs; none if all of them do not suffice.

    `jobs`: sizes and names, ascending.
    """
    for one in jobs:
        if one[0] >= need:
            return [one]
    victims = []
    for one in reversed(jobs):
        victims.append(one)
        need -= one[0]
        if need <= 0:
            return victims
    return []
