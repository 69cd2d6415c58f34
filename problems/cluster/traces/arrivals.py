"""Times at which a given number of jobs arrive: a rate by hour, and scripts that submit several jobs at once.

The papers give the number of jobs, the hours, and the shape of the rate; the number is met exactly, and the
times within an hour are uniform.  A script submits a run of jobs of one application, :data:`SCRIPT_SECONDS`
apart on average (hyper-parameter searches: thesis section 3.4.1); the runs' lengths are geometric.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SCRIPT_SECONDS = 60.0
"""Mean seconds between two jobs of a script."""


def by_hour(
    count: int, rate: Sequence[float], rng: np.random.Generator, hours: float | None = None
) -> NDArray[np.float64]:
    """Ascending times of arrivals with a rate that is constant within each of equal parts of the time.

    Parameters
    ----------
    rate : sequence of float
        Of each part, in any unit.
    hours : float, optional
        Length of all parts together; by default each is an hour.

    Returns
    -------
    (count,) array
        Seconds.
    """
    weights = np.asarray(rate, float)
    part = (weights.size if hours is None else hours) * 3600.0 / weights.size
    counts = rng.multinomial(count, weights / weights.sum())
    start = np.repeat(np.arange(weights.size), counts) * part
    return np.sort(start + rng.uniform(0.0, part, count))


def in_scripts(
    count: int,
    rate: Sequence[float],
    rng: np.random.Generator,
    mean_run: float,
    hours: float | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Ascending times of arrivals in runs, and which run each job belongs to.

    Parameters
    ----------
    rate : sequence of float
        Rate of runs, as in :func:`by_hour`.
    mean_run : float
        Mean number of jobs in a run, at least 1.
    hours : float, optional
        As in :func:`by_hour`.

    Returns
    -------
    times : (count,) array
        Seconds; the last jobs of a run may arrive after the last hour.
    runs : (count,) int array
    """
    runs = np.repeat(np.arange(count), rng.geometric(1.0 / mean_run, count))[:count]
    starts = by_hour(int(runs[-1]) + 1 if count else 0, rate, rng, hours)
    rng.shuffle(starts)  # the last run is cut short: it need not be the latest
    steps = rng.exponential(SCRIPT_SECONDS, count)
    first = np.diff(runs, prepend=-1) > 0
    since = np.cumsum(np.where(first, 0.0, steps))
    times = starts[runs] + since - since[first][runs]
    order = np.argsort(times, kind="stable")
    return times[order], runs[order]
