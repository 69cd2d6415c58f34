"""Work in chunks on threads; neither the chunks nor the results depend on the number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.clock import current

_CHUNKS = 32
_CHUNK_WORK = 50_000


def one_chunk(total: int) -> bool:
    """Return whether the total weight is small enough for one chunk, which a single kernel call processes."""
    return total < _CHUNK_WORK


def chunk_bounds(weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bounds of chunks of about equal weight; their number depends on the weights only."""
    total = int(weights.sum())
    if one_chunk(total):
        return np.array([0, weights.size])
    running = np.cumsum(weights)
    chunks = min(_CHUNKS, 1 + total // _CHUNK_WORK)
    targets = np.arange(1, chunks) * (total / chunks)
    return np.concatenate(([0], np.searchsorted(running, targets), [weights.size]))


def dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the inner product, summed in a fixed order.

    The order in which BLAS sums depends on its threads, which would also compete with copter's threads.
    """
    return float(np.sum(a * b))


def run_chunks(task: Callable[[int], Any], count: int, threads: int | None) -> list[Any]:
    """Return the results of ``task(0) .. task(count - 1)``, in order.

    At most `threads` threads run the tasks, by default one for each processor. Kernels release the GIL.
    Between tasks, the function checks the clock of the solve (:mod:`copter.clock`), and raises Interrupted if
    the solve is late or was cancelled. No task is running when the function returns or raises, because the
    data that tasks read may change afterwards.
    """
    clock = current()
    if count == 1:  # fast path: starting threads would take as long as one small task
        if clock is not None:
            clock.check()
        return [task(0)]
    workers = min([count, threads or available_threads(), *_limits])
    results: list[Any] = [None] * count
    ended = False

    def work(worker: int) -> None:
        for k in range(worker, count, workers):
            if ended:
                break
            if clock is not None:
                clock.check()
            results[k] = task(k)

    if workers == 1:
        work(0)
        return results
    futures = [_pool(workers).submit(work, worker) for worker in range(workers)]
    try:
        for future in futures:
            future.result()
    finally:
        ended = True
        _wait_for(futures)
    return results


def _wait_for(futures: list[Future[None]]) -> None:
    """Wait until all futures are done; if a KeyboardInterrupt arrives meanwhile, raise it afterwards."""
    interrupted = False
    while not all(future.done() for future in futures):
        try:
            wait(futures)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt


_limits: list[int] = []
"""Limits set by :func:`limit_threads`."""


def limit_threads(count: int) -> None:
    """Limit the number of threads of all work in this process."""
    _limits[:] = [count]


def available_threads() -> int:
    """Return the number of processors that this process may use, or the limit of :func:`limit_threads`."""
    if _limits:
        return _limits[0]
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="copter")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork, so the child makes its own pool
    os.register_at_fork(after_in_child=_pool.cache_clear)
