"""Two jobs and nobody else to come: what the paper's analysis gives, against all ways to share.

Jobs a and b are there from the start; once one is done the other has all M GPUs.  With r GPUs for a until
then the sum of both completion times is :func:`total_seconds`, and :func:`best_split` tries every r.  The
paper lets the split grow one GPU at a time: with m GPUs the last one goes to whom the sum over m GPUs is
lower with, which is the sign of its (1) and (2) (:func:`grown_split`).  Each such step is right, but the
splits need not be: a split that is best for m GPUs need not lie next to the one for m - 1.  ``copter
reproduce afs-two-jobs`` counts how often.

Source: AFS, section 3.2, (1) and (2); appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from copter.problems.afs.allocation import Curves, afs_shares

Pair = Sequence[NDArray[np.float64]]


def total_seconds(work: Sequence[float], speed: Pair, split: tuple[int, int], gpus: int) -> float:
    """Sum of the completion times of two jobs.

    Parameters
    ----------
    speed : pair of (>= gpus + 1,) array
        Throughput of each from 0 GPUs on.
    split : (int, int)
        GPUs of each while both are there.
    gpus : int
        GPUs of the one that is left.

    Returns
    -------
    float
        Infinite if neither makes progress.
    """
    rates = [float(speed[k][split[k]]) for k in range(2)]
    ends = [work[k] / rates[k] if rates[k] > 0 else math.inf for k in range(2)]
    first = 0 if ends[0] <= ends[1] else 1
    if not math.isfinite(ends[first]):
        return math.inf
    last = 1 - first
    left = work[last] - rates[last] * ends[first]
    return 2.0 * ends[first] + left / float(speed[last][gpus])


def best_split(work: Sequence[float], speed: Pair, gpus: int) -> tuple[int, int]:
    """The split with the least sum of completion times, of all.

    Parameters
    ----------
    work, speed
        As for :func:`total_seconds`.

    Returns
    -------
    (int, int)
    """
    splits = [(mine, gpus - mine) for mine in range(gpus + 1)]
    return min(splits, key=lambda split: total_seconds(work, speed, split, gpus))


def grown_split(work: Sequence[float], speed: Pair, gpus: int) -> tuple[int, int]:
    """The split that grows one GPU at a time by (1) and (2).

    Parameters
    ----------
    work, speed
        As for :func:`total_seconds`.

    Returns
    -------
    (int, int)
    """
    a, b = 0, 0
    for m in range(1, gpus + 1):
        to_a = total_seconds(work, speed, (a + 1, b), m)
        to_b = total_seconds(work, speed, (a, b + 1), m)
        a, b = (a + 1, b) if to_a <= to_b else (a, b + 1)
    return a, b


def afs_split(work: Sequence[float], speed: Pair, gpus: int) -> tuple[int, int]:
    """The split by Algorithm 1, which prepares for jobs to come.

    Parameters
    ----------
    work, speed
        As for :func:`total_seconds`; throughput grows with every GPU.

    Returns
    -------
    (int, int)
    """
    flat = np.concatenate([np.asarray(curve[: gpus + 1], np.float64) for curve in speed])
    both = np.full(2, gpus)
    curves = Curves(flat, np.ones(flat.size, bool), np.array([0, gpus + 1]), np.ones(2, np.int64), both)
    a, b = afs_shares(curves, np.asarray(work, np.float64), gpus, key_is_work=True).tolist()
    return a, b


def random_pair(
    rng: np.random.Generator, gpus: int, *, concave: bool
) -> tuple[list[float], list[NDArray[np.float64]]]:
    """Two jobs with log-normal work and throughput that grows by uniform steps.

    Parameters
    ----------
    concave : bool
        Steps in descending order, or in any.

    Returns
    -------
    pair of float, pair of (gpus + 1,) array
    """
    steps = rng.uniform(0.02, 1.0, (2, gpus))
    if concave:
        steps = np.sort(steps, axis=1)[:, ::-1]
    return rng.lognormal(1.0, 1.0, 2).tolist(), [np.concatenate(([0.0], np.cumsum(row))) for row in steps]
