r"""Shares of GPUs by AFS: the order in which jobs get GPUs, and rounding to counts that nodes can hold.

Jobs have throughput curves :math:`p_k(r)`, nondecreasing up to the count :math:`\bar r_k` at which they are
fastest. Let a job hold r GPUs, and let :math:`p = p(r)`, :math:`p' = p(r + 1)`.  AFS assumes that present
jobs keep their GPUs: a job that completes frees only the one GPU in question.  Of two jobs, let a be the one
that finishes first under this assumption, and b the other one.  Giving the GPU to b makes the average
completion time of both lower than giving it to a exactly when

.. math:: g_b = \frac{p'_b - p_b}{p'_b} > \frac{p'_a - p_a}{p_a} = h_a . \tag{3}

So a job is an interval :math:`[g, h]`.  If the intervals of two jobs do not overlap, the job with the higher
interval wins, independent of length; otherwise the shorter job wins.  Algorithm 1 gives every job one GPU,
shortest first (stage one), and each further GPU to the winner of all such comparisons (stage two).

The paper proves that (3) is transitive, but with the rule for overlaps it is not.  Let a, b and c have
ascending lengths, let a and b, and b and c, overlap, and let :math:`g_c > h_a`: then they win against each
other in a cycle.  The winner then depends on the order of comparisons, which the paper leaves open ("any
job").  Here the comparisons are a knockout tournament in order of arrival.  It takes n - 1 comparisons for
the first GPU and log n for each further GPU, because only the last winner has changed.  The paper's scan
takes M n comparisons for M GPUs.

Source: AFS (Hwang et al., NSDI 2021), sections 3.2 and 3.3, Algorithm 1, appendices C and E.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel


class Curves(NamedTuple):
    """Throughput of n jobs by GPU count, in one array.

    `speed`: for each job from 0 GPUs to `top`, in units of work per second: 0 below `first`, nondecreasing
    from `first` on, and interpolated between permitted counts. `unit`: whether a count is permitted; `first`
    and `top` are permitted. `begin`: index at which each job's curve begins. `first`, `top`: the smallest
    count that runs the job, and the count at which the job is fastest.
    """

    speed: Floats
    unit: Flags
    begin: Ints
    first: Ints
    top: Ints


def afs_shares(
    curves: Curves, key: Floats, gpus: int, *, key_is_work: bool, ahead: Flags | None = None
) -> Ints:
    """Return the GPUs of each job by Algorithm 1.

    The sum of the counts is at most `gpus`, and each count is 0 or from the job's first to its top count.

    `key`: remaining work, from which lengths are computed (AFS-L), or ranks if the work is unknown (AFS-P);
    a lower rank counts as a shorter job. `gpus`: GPUs to share. `ahead`: jobs that get their first GPU before
    all other jobs.
    """
    length = key / curves.speed[curves.begin + curves.first] if key_is_work else key
    order = np.argsort(length, kind="stable") if ahead is None else np.lexsort((length, ~ahead))
    count, left = first_shares(curves.first, order, gpus)
    if left > 0:
        _knock_out(
            curves.speed, curves.begin, curves.top, np.asarray(key, np.float64), key_is_work, count, left
        )
    return count


def first_shares(first: Ints, order: Ints, gpus: int) -> tuple[Ints, int]:
    """Return counts and remaining GPUs after stage one, which gives each job, in order, its smallest count.

    `order`: a permutation of the jobs. A job that does not fit is skipped.
    """
    count = np.zeros_like(first)
    needs = first[order]
    within = int(np.searchsorted(np.cumsum(needs), gpus, side="right"))
    count[order[:within]] = needs[:within]
    left = gpus - int(needs[:within].sum())
    for job in order[within:].tolist() if left and (first != 1).any() else ():
        if first[job] <= left:
            count[job] = first[job]
            left -= int(first[job])
    return count, left


@kernel(inlined=True)
def _wins(a, b, speed, begin, top, key, key_is_work, count):  # type: ignore[no-untyped-def]
    """Return which of two jobs gets a GPU; -1 if neither can use it."""
    if a < 0 or count[a] == 0 or count[a] >= top[a]:
        a = -1
    if b < 0 or count[b] == 0 or count[b] >= top[b]:
        b = -1
    if a < 0 or b < 0:
        return max(a, b)
    pa, pb = speed[begin[a] + count[a]], speed[begin[b] + count[b]]
    na, nb = speed[begin[a] + count[a] + 1], speed[begin[b] + count[b] + 1]
    longer = key[a] / pa > key[b] / pb if key_is_work else key[a] > key[b]
    if longer:  # in (3), a is the shorter job and b the longer one
        return a if (na - pa) / na > (nb - pb) / pb else b
    return b if (nb - pb) / nb > (na - pa) / pa else a


@kernel(allocates=True)
def _knock_out(speed, begin, top, key, key_is_work, count, left):  # type: ignore[no-untyped-def]
    """Apply stage two: give GPUs one by one, which increases `count`."""
    n = count.size
    leaves = 1
    while leaves < n:
        leaves *= 2
    tree = np.full(2 * leaves, -1, np.int64)
    for job in range(n):
        tree[leaves + job] = job
    for node in range(leaves - 1, 0, -1):
        tree[node] = _wins(tree[2 * node], tree[2 * node + 1], speed, begin, top, key, key_is_work, count)
    while left > 0:
        job = tree[1]
        if job < 0 or count[job] == 0 or count[job] >= top[job]:
            break
        count[job] += 1
        left -= 1
        node = (leaves + job) // 2
        while node > 0:
            tree[node] = _wins(tree[2 * node], tree[2 * node + 1], speed, begin, top, key, key_is_work, count)
            node //= 2


def even_shares(first: Ints, top: Ints, order: Ints, gpus: int) -> Ints:
    """Return max-min fair whole numbers of GPUs: equal, except for jobs that need more or can use less.

    `first`, `top`: the least and the largest count of each job. `order`: order in which jobs get their first
    GPUs if there are too few for all, and in which they get the GPUs that cannot be divided equally.
    """
    count, left = first_shares(first, order, gpus)
    there = count > 0
    low, high = 0, int(top.max(initial=0))
    while low < high:  # the highest level to which all jobs can be raised
        level = (low + high + 1) // 2
        need = np.clip(level, first, top)[there].sum() - count[there].sum()
        low, high = (level, high) if need <= left else (low, level - 1)
    raised = np.where(there, np.clip(low, first, top), 0)
    left -= int((raised - count).sum())
    more = order[(there & (raised == low) & (raised < top))[order]][:left]
    raised[more] += 1
    return raised


def regulate(curves: Curves, count: Ints) -> Ints:
    """Return permitted counts near given shares (network packing, appendix E).

    Each share falls to the largest permitted count within it.  The freed GPUs raise shares to the next
    permitted count, first where the result is nearest to the given share (Proposition 2).

    The result has no more GPUs in total than `count`, and is 0 only where `count` is 0.
    """
    given = count.copy()
    _fall(curves.unit, curves.begin, given)
    free = int((count - given).sum())
    while free > 0:
        step = np.where(given > 0, steps(curves.unit, curves.begin, curves.top, given), 0)
        after = np.abs(given + step - count)
        gain = np.where(step > 0, np.abs(given - count) - after, np.iinfo(np.int64).min)
        raised = False
        for job in np.argsort(-gain, kind="stable").tolist():
            if 0 < step[job] <= free:
                given[job] += step[job]
                free -= int(step[job])
                raised = True
        if not raised:
            break
    return given


@kernel
def _fall(unit, begin, count):  # type: ignore[no-untyped-def]
    for job in range(count.size):
        while count[job] > 0 and not unit[begin[job] + count[job]]:
            count[job] -= 1


@kernel(allocates=True)
def steps(unit, begin, top, count):  # type: ignore[no-untyped-def]
    """Return the GPUs from each job's count to its next permitted count; 0 if there is none."""
    step = np.zeros_like(count)
    for job in range(count.size):
        if count[job] < top[job]:
            step[job] = 1
            while not unit[begin[job] + count[job] + step[job]]:
                step[job] += 1
    return step
