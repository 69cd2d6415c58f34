"""Path sets of a topology, computed in parallel and cached on disk by a hash of their inputs."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import yen

from copter.arrays import Ints
from copter.parallel import available_threads
from copter.problems.traffic.disjoint import Residual, disjoint_from
from copter.problems.traffic.paths import PathError, PathSet
from copter.problems.traffic.topology import Topology

_Weight: TypeAlias = Literal["hops", "inverse-capacity"]
_Pairs: TypeAlias = tuple[ArrayLike, ArrayLike]
Progress: TypeAlias = Callable[[int, int], object]
_Found: TypeAlias = tuple[Ints, Ints, NDArray[np.int32]]


_KINDS = (np.int64, np.int64, np.int32)
_log = logging.getLogger("copter")
_FORMAT = 1
"""Version of the file format and the choice of paths; older files are not used."""
_ARRAYS = ("source", "target", "first", "pointer", "link")
# Errors from reading a file that is truncated, overwritten or not an archive.
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def edge_disjoint_paths(
    topology: Topology,
    pairs: _Pairs | None = None,
    k: int = 4,
    *,
    threads: int | None = None,
    cache: bool = True,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> PathSet:
    """Return up to k paths per pair without a common link: those of a maximum flow with the fewest hops.

    `pairs`: sources and targets, by their numbers; default: all pairs, row by row. `k`: largest number of
    paths per pair. A pair with fewer disjoint paths gets all of them. `threads`: number of threads, on which
    the paths do not depend; default: one per processor. `cache`: whether to use and write files on disk.
    `folder`: folder of these files; default: the environment variable ``COPTER_CACHE``, or the user's cache
    folder. `progress`: called from time to time with the numbers of completed and of all pairs.
    """
    source, target = _pairs(topology, pairs)
    _positive("k", k)
    key = _content_hash(("edge-disjoint", k, topology.n_nodes), topology.tail, topology.head, source, target)

    def search() -> PathSet:
        residual = Residual.of(topology)

        def from_one(node: int, targets: NDArray[np.int32]) -> _Found:
            return disjoint_from(residual, node, targets, k)

        return _search(topology, source, target, from_one, threads, progress)

    return _cached(topology, source, target, key, search, cache, folder)


def k_shortest_paths(
    topology: Topology,
    pairs: _Pairs | None = None,
    k: int = 4,
    *,
    weight: _Weight = "hops",
    threads: int | None = None,
    cache: bool = True,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> PathSet:
    """Return the k shortest simple paths of every pair, by Yen's algorithm in scipy.

    `topology`, `pairs`, `threads`, `cache`, `folder`, `progress`: as for :func:`edge_disjoint_paths`. `k`:
    number of paths per pair; all if there are fewer. `weight`: length of a link; with inverse capacities,
    links without capacity are not used.
    """
    source, target = _pairs(topology, pairs)
    _positive("k", k)
    if weight not in get_args(_Weight):
        raise ValueError(f"weight = {weight!r}: must be one of {get_args(_Weight)}")
    with np.errstate(divide="ignore"):
        length = 1.0 / topology.capacity if weight == "inverse-capacity" else np.ones(topology.n_links)
    words = ("yen", k, topology.n_nodes)
    key = _content_hash(words, topology.tail, topology.head, length, source, target)

    def search() -> PathSet:
        usable = np.flatnonzero(np.isfinite(length))
        ends = topology.tail[usable].astype(np.int32), topology.head[usable].astype(np.int32)
        graph = sparse.csr_array((length[usable], ends), shape=(topology.n_nodes,) * 2)

        def from_one(node: int, targets: NDArray[np.int32]) -> _Found:
            return _shortest_from(graph, topology.links, node, targets, k)

        return _search(topology, source, target, from_one, threads, progress)

    return _cached(topology, source, target, key, search, cache, folder)


def _shortest_from(
    graph: sparse.csr_array,
    links: Mapping[tuple[int, int], int],
    node: int,
    targets: NDArray[np.int32],
    k: int,
) -> _Found:
    """Return the k shortest paths from a node to others: their numbers, the hops of each, and all links."""
    counts, hops, found = [], list[int](), list[int]()
    for target in targets.tolist():
        _, before = yen(graph, int(node), target, k, return_predecessors=True)
        counts.append(len(before))
        for each in before:
            way, at = [], target
            while at != node:
                way.append(links[int(each[at]), at])
                at = int(each[at])
            hops.append(len(way))
            found += reversed(way)
    return np.array(counts, np.int64), np.array(hops, np.int64), np.array(found, np.int32)


def _cached(
    topology: Topology,
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    key: str,
    search: Callable[[], PathSet],
    cache: bool,
    folder: str | Path | None,
) -> PathSet:
    if not cache:
        return search()
    file = (_cache_folder() if folder is None else Path(folder)) / f"paths-{key}.npz"
    paths = _load_paths(file, source, target, topology.n_links)
    if paths is None:
        paths = search()
        _save_paths(file, paths)
    return paths


def _search(
    topology: Topology,
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    from_one: Callable[[int, NDArray[np.int32]], _Found],
    threads: int | None,
    progress: Progress | None,
) -> PathSet:
    """Search in one task per source, and return the paths in the order of the pairs."""
    order = np.argsort(source, kind="stable")
    nodes, starts = np.unique(source[order], return_index=True)
    tasks = np.split(target[order], starts[1:])
    found: list[_Found] = []
    done = 0
    with ThreadPoolExecutor(threads or available_threads()) as pool:
        try:
            for node, own, result in zip(nodes, tasks, pool.map(from_one, nodes, tasks), strict=False):
                missing = np.flatnonzero(result[0] == 0)
                if missing.size:
                    pair = f"{topology.nodes[node]!r} to {topology.nodes[own[missing[0]]]!r}"
                    raise PathError(f"topology {topology.name!r}: must have a path from {pair}")
                found.append(result)
                done += own.size
                if progress is not None:
                    progress(done, source.size)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    counts, hops, links = (_joined([result[k] for result in found], kind) for k, kind in enumerate(_KINDS))
    paths = PathSet(source[order], target[order], _starts(counts), _starts(hops), links)
    if np.array_equal(order, np.arange(order.size)):
        return paths
    back = np.empty_like(order)
    back[order] = np.arange(order.size)
    return paths.take(back)


def _joined(parts: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *parts])


def _starts(sizes: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def _pairs(topology: Topology, pairs: _Pairs | None) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    n = topology.n_nodes
    if pairs is None:
        source, target = np.nonzero(~np.eye(n, dtype=bool))
        return source.astype(np.int32), target.astype(np.int32)
    source, target = (np.asarray(end) for end in pairs)
    if source.ndim != 1 or source.shape != target.shape:
        raise PathError("pairs: sources and targets must be lists of equal length")
    for end in (source, target):
        wrong = np.flatnonzero((end < 0) | (end >= n) | (end != np.floor(end)))
        if wrong.size:
            raise PathError(f"pair {wrong[0]}: node {end[wrong[0]]}: must be in [0, {n})")
    same = np.flatnonzero(source == target)
    if same.size:
        name = topology.nodes[int(source[same[0]])]
        raise PathError(f"pair {same[0]}: source and target must differ, not both be {name!r}")
    return source.astype(np.int32), target.astype(np.int32)


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} = {value}: must be at least 1")


def _cache_folder() -> Path:
    """Return the folder of cached files: ``COPTER_CACHE``, or ``copter`` in the user's cache folder."""
    if named := os.environ.get("COPTER_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "copter"


def _content_hash(words: tuple[str | int, ...], *arrays: NDArray) -> str:
    """Return a file name that depends on these words and arrays only."""
    digest = hashlib.blake2b(repr((_FORMAT, *words)).encode(), digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _load_paths(
    file: Path, source: NDArray[np.int32], target: NDArray[np.int32], n_links: int
) -> PathSet | None:
    """Return the path set in a file, or None if it does not exist or is damaged.

    The archive has checksums. `source`, `target` (pairs,): pairs that the path set must have, in this order.
    """
    if not file.is_file():
        return None
    try:
        with np.load(file, allow_pickle=False) as archive:
            paths = PathSet(*(archive[name] for name in _ARRAYS))
        if not (np.array_equal(paths.source, source) and np.array_equal(paths.target, target)):
            raise PathError("must have the same pairs")
        if paths.link.size and not 0 <= paths.link.min() <= paths.link.max() < n_links:
            raise PathError("must have only links of the topology")
    except _DAMAGE as error:
        _log.warning("%s is replaced because it cannot be used: %s", file, error)
        return None
    return paths


def _save_paths(file: Path, paths: PathSet) -> None:
    """Write a path set atomically; if this fails, log a warning and continue."""
    part = file.with_name(f"{file.stem}.{uuid4().hex}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as out:
                np.savez(out, **{name: getattr(paths, name) for name in _ARRAYS})
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("paths are not cached: %s", error)
