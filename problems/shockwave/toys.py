"""Table 1, figures 1 and 15: three jobs on four GPUs, and what a fixed filter does to them.

A job runs on any number of GPUs up to what it asks for, and slows down in proportion (linear slowdown).
With S its time on one GPU, N jobs on M GPUs, an equal share ends it at S N / M; rho is its end over that.
The paper prints the schedules of Themis with filters of 1/3, 2/3 and 1 of the jobs, and the adaptive one of
Shockwave: they are judged here as printed, against the best schedule that there is, by search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product

from copter.bench.reproduction import Effort, Figure

GPUS = 4
SERIAL = {"A": 12, "B": 8, "C": 6}
REQUESTED = {"A": 3, "B": 2, "C": 2}
SCHEDULES: dict[str, tuple[str, ...]] = {
    "adaptive filter": ("BBCC", "BBCC", "BBCC", "AAAB", "AAAB", "AAA", "AAA"),
    "filter 1/3": ("ABCC", "ABBC", "AAAC", "BBCC", "AAAB", "AABB", "AA"),
    "filter 2/3": ("AABB", "BBCC", "AACC", "AABB", "BBCC", "AAA", "AAA"),
    "filter 1": ("AABC", "ABBC", "ABCC", "AABC", "ABBC", "AAAB", "AA"),
}
"""Who holds the GPUs of each round, as figures 1 and 15 print it."""
PRINTED = {
    "adaptive filter": (0.83, 5.0, 7.0),
    "filter 1/3": (1.0, 5.7, 7.0),
    "filter 2/3": (1.1, 5.7, 7.0),
    "filter 1": (1.1, 6.0, 7.0),
}
"""Worst rho, average JCT and makespan in rounds, of table 1."""


def judge(rounds: Sequence[str]) -> tuple[float, float, float]:
    """Worst rho, average JCT and makespan of a schedule.

    Parameters
    ----------
    rounds : sequence of str
        Letters of the jobs that hold a GPU, round by round.

    Returns
    -------
    (float, float, float)

    Raises
    ------
    ValueError
        More GPUs than there are or than a job asks for, or a job that is not done in the end.
    """
    left = dict(SERIAL)
    ends: dict[str, int] = {}
    for t, names in enumerate(rounds, 1):
        for job in SERIAL:
            count = names.count(job)
            if count > REQUESTED[job] or len(names) > GPUS:
                raise ValueError(f"round {t - 1}: {names}: too many GPUs")
            left[job] -= count
            if left[job] <= 0:
                ends.setdefault(job, t)
    if len(ends) < len(SERIAL):
        raise ValueError(f"not done: {[job for job in SERIAL if job not in ends]}")
    return _judged(ends)


def _judged(ends: Mapping[str, int]) -> tuple[float, float, float]:
    share = len(SERIAL) / GPUS
    worst = max(end / (SERIAL[job] * share) for job, end in ends.items())
    return worst, sum(ends.values()) / len(ends), float(max(ends.values()))


def best() -> tuple[float, float, float]:
    """The schedule with the least worst rho; of those the least average JCT, then makespan: by search.

    Returns
    -------
    (float, float, float)
    """
    names = list(SERIAL)
    choices = [
        counts for counts in product(*(range(REQUESTED[job] + 1) for job in names)) if sum(counts) <= GPUS
    ]

    @cache
    def ends(left: tuple[int, ...], time: int) -> frozenset[tuple[int, ...]]:
        """Ends that can be reached, of jobs with so much left; 0 for those that are done."""
        if not any(left):
            return frozenset({(0,) * len(left)})
        found: set[tuple[int, ...]] = set()
        if time == sum(SERIAL.values()) // GPUS + 1:
            return frozenset()
        for counts in choices:
            # Without a GPU idle that a job could use: others are no better.
            used = tuple(min(c, w) for c, w in zip(counts, left, strict=True))
            after = tuple(w - u for w, u in zip(left, used, strict=True))
            for rest in ends(after, time + 1):
                found.add(
                    tuple(time + 1 if w and not a else r for w, a, r in zip(left, after, rest, strict=True))
                )
        return frozenset(found)

    every = ends(tuple(SERIAL.values()), 0)
    return min(_judged(dict(zip(names, one, strict=True))) for one in every)


def table_1(effort: Effort) -> list[Figure]:
    """Measure Table 1."""
    columns = (("worst FTF", ""), ("average JCT", "rounds"), ("makespan", "rounds"))
    figures = []
    for row, rounds in SCHEDULES.items():
        ours = zip(columns, judge(rounds), PRINTED[row], strict=True)
        figures += [Figure(row, name, unit, value, paper) for (name, unit), value, paper in ours]
    figures += [
        Figure("best there is", *column, value) for column, value in zip(columns, best(), strict=True)
    ]
    return figures
