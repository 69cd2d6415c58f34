"""Practical methods instead of solving the whole program: demand pinning, POP, shortest paths.

`shortest_path`
    Constrained shortest path first: all paths, shortest first.  A whole demand is placed on the first of its
    paths with enough capacity.  For min-MLU, every demand takes its first path whose links are up.
`lp_top`
    Demand pinning: the largest demands (at or above the 0.9 quantile of those above 0.001) are solved as an
    LP.  Then each other demand, in order, gets the remaining capacity of its shortest path.  For min-MLU the
    other demands are placed first, and the LP includes their loads on the links.
`pop`
    Partitioned optimisation: demands are split at random into k parts, each with 1/k of every capacity.  Each
    part is solved as an LP, and the flows are added.  Client splitting first halves the largest demand
    repeatedly, until there are (1 + split) times as many.

LPs are solved by HiGHS and made feasible by the same shim as all other answers.  A method's seconds are the
time to build its LPs' models, to solve and to repair them, without reading and certifying the answers.

Sources: CSPF as in NCFlow's experiments, Abuzaid and others, NSDI 2021; POP, Narayanan and others, SOSP 2021;
demand pinning, Namyar and others, HotNets 2022; thesis section 5.2.2.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.errors import SolverError
from copter.problems.pop import pop_parts
from copter.problems.traffic import METHODS, Objective
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.paths import PathSet
from copter.problems.traffic.state import TrafficState
from copter.problems.traffic.topology import Topology
from copter.solvers.registry import make_solver

if TYPE_CHECKING:
    from copter.bench.settings import SolverSettings

_QUANTILE, _LEAST = 0.9, 0.001
"""LP-Top solves demands at or above this quantile of the demands that are larger than the second value."""
_SOLVER = "highs-ipm"
_SPLIT_POISSON = 0.75
"""Share of demands that POP's client splitting adds in the published runs with few large flows."""


@dataclass(frozen=True)
class Allocated:
    """Flows of a method, with its time.

    `path_flows` (paths,). `seconds`: measured time of all steps in sequence. `estimated_seconds`: estimated
    time with a machine for each part: the time of the slowest part plus that of the sequential work.
    """

    path_flows: Floats
    seconds: float
    estimated_seconds: float


def shortest_path(traffic: TrafficState) -> Allocated:
    """Place each whole demand on its shortest path with room; for min-MLU, on its first usable path."""
    begin = perf_counter()
    paths, capacity = traffic.paths, traffic.effective_capacity
    if traffic.objective == "max-flow":
        order = np.argsort(paths.hops, kind="stable")
        flows = _place_whole(order, paths.pair, paths.pointer, paths.link, traffic.volume, capacity)
    else:
        flows = _place_first(paths.first, paths.pointer, paths.link, traffic.volume, capacity <= 0)
    seconds = perf_counter() - begin
    return Allocated(flows, seconds, seconds)


def lp_top(
    traffic: TrafficState, *, quantile: float = _QUANTILE, solver: str = _SOLVER, **settings: Any
) -> Allocated:
    """Solve the largest demands, and pin all other demands to their shortest paths."""
    begin = perf_counter()
    volume, paths = traffic.volume, traffic.paths
    above = volume[volume > _LEAST]
    top = volume >= (np.quantile(above, quantile) if above.size else _LEAST)
    top &= volume > 0
    rest = np.where(top, 0.0, volume)
    spent = perf_counter() - begin
    capacity = traffic.effective_capacity
    if traffic.objective == "max-flow":
        chosen, seconds = _solve_some(traffic, top, volume, capacity, (solver, settings))
        begin = perf_counter()
        left = capacity - traffic.loads_of(chosen)
        _fill_first(paths.first, paths.pointer, paths.link, rest, left, chosen)
        spent += perf_counter() - begin
    else:
        begin = perf_counter()
        pinned = _place_first(paths.first, paths.pointer, paths.link, rest, capacity <= 0)
        loads = traffic.loads_of(pinned)
        spent += perf_counter() - begin
        chosen, seconds = _solve_some(traffic, top, volume, capacity, (solver, settings), loads)
        chosen += pinned
    return Allocated(chosen, spent + seconds, spent + seconds)


def pop(
    traffic: TrafficState,
    parts: int,
    *,
    split: float = 0.0,
    seed: int = 0,
    solver: str = _SOLVER,
    **settings: Any,
) -> Allocated:
    """Solve k parts of the problem, and join their flows.

    `parts`: k; each demand, or each of its pieces after client splitting, goes to a random part. `split`:
    clients are split until there are (1 + split) times as many demands; 0 for no splitting. `solver`,
    `settings`: solver of each LP and its settings; see :func:`copter.make_solver`.
    """
    if parts < 1:
        raise ValueError(f"parts = {parts}: must be at least 1")
    begin = perf_counter()
    pair, volume = _split_clients(traffic.volume, split)
    part = np.random.default_rng(seed).integers(0, parts, pair.size)
    capacity = traffic.effective_capacity / parts
    alone = perf_counter() - begin
    flows, each = np.zeros(traffic.paths.n_paths), []
    for k in range(parts):
        mine = part == k
        own: Floats = np.bincount(pair[mine], volume[mine], traffic.paths.n_pairs).astype(float)
        some, seconds = _solve(_part(traffic, own > 0, own, capacity), solver, settings)
        flows[np.repeat(own > 0, traffic.paths.counts)] += some
        each.append(seconds)
    return Allocated(flows, alone + sum(each), alone + max(each))


def _split_clients(volume: Floats, split: float) -> tuple[Ints, Floats]:
    """Halve the largest demand until there are (1 + split) times as many demands."""
    pairs = np.flatnonzero(volume > 0)
    pieces = int((1.0 + split) * pairs.size)
    largest = [(-float(volume[pair]), int(pair)) for pair in pairs] if pieces > pairs.size else []
    heapq.heapify(largest)
    for _ in range(pieces - pairs.size):
        half = (largest[0][0] / 2.0, largest[0][1])
        heapq.heapreplace(largest, half)
        heapq.heappush(largest, half)
    if not largest:
        return pairs, volume[pairs]
    amounts, owners = zip(*largest, strict=True)
    return np.array(owners, np.int64), -np.array(amounts)


class _Part(NamedTuple):
    """An LP of some demands; for min-MLU with existing `loads` on its links."""

    topology: Topology
    paths: PathSet
    objective: Objective
    volume: Floats
    loads: Floats | None


def _part(
    traffic: TrafficState, chosen: Flags, volume: Floats, capacity: Floats, loads: Floats | None = None
) -> _Part:
    pairs = np.flatnonzero(chosen)
    network = traffic.topology.with_capacity(capacity)
    return _Part(network, traffic.paths.take(pairs), traffic.objective, volume[pairs], loads)


def _solve_some(
    traffic: TrafficState,
    chosen: Flags,
    volume: Floats,
    capacity: Floats,
    solver: tuple[str, dict[str, Any]],
    loads: Floats | None = None,
) -> tuple[Floats, float]:
    """Return the flows of an LP of some demands on all paths, and its seconds."""
    flows = np.zeros(traffic.paths.n_paths)
    some, seconds = _solve(_part(traffic, chosen, volume, capacity, loads), *solver)
    flows[np.repeat(chosen, traffic.paths.counts)] = some
    return flows, seconds


def _solve(part: _Part, name: str, settings: dict[str, Any]) -> tuple[Floats, float]:
    """Return the flows on the paths of a part, and the seconds of its model, solver and repair.

    If interior point without crossover finds no answer, simplex finds one, and the time of both counts.
    """
    if not part.volume.size:
        return np.zeros(0), 0.0
    engineering = TrafficEngineering(part.topology, part.paths, part.objective)
    engineering.set_volumes(part.volume)
    if part.loads is not None:
        engineering.set_other_loads(part.loads)
    spent = 0.0
    for lp in dict.fromkeys((name, "highs-simplex")):
        solution = make_solver(lp, **settings).solve(engineering.program)
        spent += solution.timings.edit + solution.timings.solve
        if solution.found:
            break
    else:
        raise SolverError(f"{lp} on {part.volume.size} demands: {solution.status}: {solution.reason}")
    rounded = engineering.round(solution).flows
    return engineering.path_flows(rounded), spent + rounded.seconds


@kernel(allocates=True)
def _place_whole(order, pair, pointer, link, volume, capacity):  # type: ignore[no-untyped-def]
    flow, placed, left = np.zeros(order.size), volume <= 0.0, capacity.copy()
    for path in order:
        q = pair[path]
        if placed[q]:
            continue
        fits = True
        for k in range(pointer[path], pointer[path + 1]):
            if left[link[k]] < volume[q]:
                fits = False
                break
        if fits:
            for k in range(pointer[path], pointer[path + 1]):
                left[link[k]] -= volume[q]
            flow[path] = volume[q]
            placed[q] = True
    return flow


@kernel(allocates=True)
def _place_first(first, pointer, link, volume, down):  # type: ignore[no-untyped-def]
    """Put each demand on its first path without a link that is down."""
    flow = np.zeros(pointer.size - 1)
    for q in range(volume.size):
        for path in range(first[q], first[q + 1]):
            blocked = False
            for k in range(pointer[path], pointer[path + 1]):
                blocked |= down[link[k]]
            if not blocked:
                flow[path] = volume[q]
                break
    return flow


@kernel
def _fill_first(first, pointer, link, volume, left, flow):  # type: ignore[no-untyped-def]
    """Give each demand, in order, the remaining capacity of its first path."""
    for q in range(volume.size):
        path, step = first[q], volume[q]
        if path == first[q + 1]:
            continue
        for k in range(pointer[path], pointer[path + 1]):
            step = min(step, left[link[k]])
        if step > 0.0:
            flow[path] += step
            for k in range(pointer[path], pointer[path + 1]):
                left[link[k]] -= step


def is_method(name: str) -> bool:
    """Return whether a name is one of :data:`METHODS`."""
    return name in METHODS or pop_parts(name) is not None


def run_method(
    settings: SolverSettings,
    traffic: TrafficState,
    *,
    seed: int,
    split: float,
) -> Allocated:
    """Serve the present demands with one of :data:`METHODS`.

    `settings`: the method's name, and the deadline, threads and tolerance of its LPs. `seed`, `split`:
    those of POP; see :func:`copter.problems.traffic.baselines.pop`.
    """
    own: dict[str, Any] = {
        "time_limit": settings.time_limit,
        "threads": settings.threads,
        "tolerance": settings.tolerance,
    }
    if settings.name == "shortest":
        return shortest_path(traffic)
    if settings.name == "lp-top":
        return lp_top(traffic, **own)
    parts = pop_parts(settings.name)
    assert parts is not None
    return pop(traffic, parts, seed=seed, split=split, **own)


def split_for(matrix: str) -> float:
    """Return POP's client splitting in the published runs: positive if there are few large flows, else 0."""
    return _SPLIT_POISSON if matrix == "poisson" else 0.0
