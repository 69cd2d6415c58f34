"""What changes from round to round: demands that drift, links that fail and come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.problems.traffic import DRIFTS, Drift
from copter.problems.traffic.topology import Topology


def drift(
    kind: Drift, source: ArrayLike, volume: ArrayLike, *, seed: int, amplitude: float = 0.1
) -> Iterator[NDArray[np.float64]]:
    """Volumes of round after round, without end, each made from the one before.

    Parameters
    ----------
    kind : {"independent", "source", "global", "permute"}
        Whether every demand, all demands of a source together, or all demands together move by a factor that
        is uniform in 1 +- `amplitude`; or whether the volumes change places among the demands.
    source, volume : (D,) array_like
        Of the demands in the round before the first one given.
    amplitude : float
        Between 0 and 1.

    Returns
    -------
    iterator of (D,) ndarray

    Raises
    ------
    ValueError
        Another kind or amplitude.
    """
    if kind not in DRIFTS:
        raise ValueError(f"kind = {kind!r}: must be one of {DRIFTS}")
    if not 0 <= amplitude <= 1:
        raise ValueError(f"amplitude = {amplitude}: must be between 0 and 1")
    return _drift(
        kind, np.asarray(source), np.array(volume, np.float64), np.random.default_rng(seed), amplitude
    )


def _drift(
    kind: Drift, source: NDArray, volume: NDArray[np.float64], random: np.random.Generator, amplitude: float
) -> Iterator[NDArray[np.float64]]:
    sizes = {"independent": volume.size, "source": int(source.max(initial=-1)) + 1, "global": 1}
    while True:
        if kind == "permute":
            volume = random.permutation(volume)
        else:
            factor = random.uniform(1 - amplitude, 1 + amplitude, sizes[kind])
            volume = volume * (factor[source] if kind == "source" else factor)
        yield volume


@dataclass(frozen=True)
class LinkEvents:
    """Links that fail and links that come back in a round, by their numbers."""

    failed: NDArray[np.int64]
    restored: NDArray[np.int64]


def failures(topology: Topology, count: int = 5, *, seed: int) -> Iterator[LinkEvents]:
    """Events of round after round, without end: some links fail, those of the round before come back.

    Parameters
    ----------
    count : int
        Links that are down in a round, of those that have a capacity.  The two directions between two nodes
        are one line, count once and fail together.

    Raises
    ------
    ValueError
        There are not so many lines.
    """
    lines: dict[tuple[int, int], list[int]] = {}
    for (tail, head), link in topology.links.items():
        if topology.capacity[link] > 0:
            lines.setdefault((min(tail, head), max(tail, head)), []).append(link)
    if not 0 <= count <= len(lines):
        raise ValueError(f"count = {count}: {topology.name!r} has {len(lines)} lines")
    return _failures(list(lines.values()), count, np.random.default_rng(seed))


def _failures(lines: list[list[int]], count: int, random: np.random.Generator) -> Iterator[LinkEvents]:
    down = np.zeros(0, np.int64)
    while True:
        chosen = random.choice(len(lines), count, replace=False)
        failed = np.array(sorted(link for line in chosen for link in lines[line]), np.int64)
        # A line that is chosen twice in a row stays down.
        yield LinkEvents(np.setdiff1d(failed, down), np.setdiff1d(down, failed))
        down = failed
