r"""Shares of GPUs by AFS: who gets the next GPU, and how counts become what nodes can hold.

Jobs have throughput curves :math:`p_k(r)`, not decreasing up to the count :math:`\bar r_k` at which they are
fastest.  Let a job hold r GPUs, and write :math:`p = p(r)`, :math:`p' = p(r + 1)`.  AFS assumes that whoever
is there keeps what he has: a job that finishes hands on the one GPU in question and nothing else.  Under that
assumption the average completion time of two jobs, a the one that finishes first, is lower if b gets the GPU
exactly when

.. math:: g_b = \frac{p'_b - p_b}{p'_b} > \frac{p'_a - p_a}{p_a} = h_a . \tag{3}

So a job is an interval :math:`[g, h]`; of two whose intervals do not overlap the higher one wins whoever is
shorter, otherwise the shorter one wins.  Algorithm 1 gives every job one GPU, shortest first (stage one), and
each further GPU to the winner of all such comparisons (stage two).

The paper proves that (3) is transitive; with the rule for overlaps it is not: a, b and c by ascending
length with a and b, b and c overlapping and :math:`g_c > h_a` beat each other in a circle.  Which job comes
out on top then depends on who meets whom, which the paper leaves open ("any job").  Here they meet in a
knock-out in order of arrival: it takes n - 1 comparisons for the first GPU and log n for each further one,
as only the last winner has changed, in place of the M n of the paper's scan.

Source: AFS (Hwang et al., NSDI 2021), sections 3.2 and 3.3, Algorithm 1, appendices C and E.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel


class Curves(NamedTuple):
    """Throughput of n jobs by GPU count, one after the other.

    `speed`: from 0 GPUs up to `top` of each job: 0 below `first`, not decreasing from there on, units of work
    a second. Between counts that can be given out it is interpolated. `unit`: which counts can be given out;
    `first` and `top` among them. `begin`: where each job's curve begins. `first`, `top`: the smallest count
    that runs the job, and the one at which it is fastest.
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

    `key`: remaining work, which makes lengths (AFS-L), or, where those are not known, ranks (AFS-P): the
    lower one counts as the shorter job. `gpus`: GPUs to share out. `ahead`: jobs that get their first GPU
    before the others. Result: at most `gpus` in all, each 0 or from the job's first to its top count.
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
    """Stage one: the smallest count that runs it to each job, in order, as long as there are GPUs.

    `order`: a permutation of the jobs. Result: counts, and GPUs that are left; a job that does not fit is
    passed over.
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
    """The one of two jobs that is to get a GPU; -1 if neither can use it."""
    if a < 0 or count[a] == 0 or count[a] >= top[a]:
        a = -1
    if b < 0 or count[b] == 0 or count[b] >= top[b]:
        b = -1
    if a < 0 or b < 0:
        return max(a, b)
    pa, pb = speed[begin[a] + count[a]], speed[begin[b] + count[b]]
    na, nb = speed[begin[a] + count[a] + 1], speed[begin[b] + count[b] + 1]
    longer = key[a] / pa > key[b] / pb if key_is_work else key[a] > key[b]
    if longer:  # (3) is about the shorter one, a, and the longer one, b
        return a if (na - pa) / na > (nb - pb) / pb else b
    return b if (nb - pb) / nb > (na - pa) / pa else a


@kernel(allocates=True)
def _knock_out(speed, begin, top, key, key_is_work, count, left):  # type: ignore[no-untyped-def]
    """Stage two: give out GPUs one by one; ``count`` grows."""
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
    """Max-min fair whole numbers of GPUs: everybody the same, but for those who need more or can use less.

    `first`, `top`: the least and the most that each job can use. `order`: who gets the first GPUs if there
    are fewer than jobs, and the ones that cannot be divided evenly.
    """
    count, left = first_shares(first, order, gpus)
    there = count > 0
    low, high = 0, int(top.max(initial=0))
    while low < high:  # the highest level that everybody can be raised to
        level = (low + high + 1) // 2
        need = np.clip(level, first, top)[there].sum() - count[there].sum()
        low, high = (level, high) if need <= left else (low, level - 1)
    raised = np.where(there, np.clip(low, first, top), 0)
    left -= int((raised - count).sum())
    more = order[(there & (raised == low) & (raised < top))[order]][:left]
    raised[more] += 1
    return raised


def regulate(curves: Curves, count: Ints) -> Ints:
    """Return the counts that can be given out, near those that were shared out (network packing, appendix E).

    Each share falls to the largest unit within it.  GPUs that this sets free raise shares to the next
    unit, first where that comes nearest to what was shared out, as long as there are GPUs (Proposition 2).

    Result: no more GPUs in all; units of the curves, 0 only where `count` is 0.
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
    """GPUs from the count of each job up to its next unit; 0 if it has none."""
    step = np.zeros_like(count)
    for job in range(count.size):
        if count[job] < top[job]:
            step[job] = 1
            while not unit[begin[job] + count[job] + step[job]]:
                step[job] += 1
    return step
