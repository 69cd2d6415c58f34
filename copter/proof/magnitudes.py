"""Typical magnitudes of the entries of a matrix, by rows, by columns and by connected components.

The results do not depend on the units of rows and columns, and define natural units: those of every working
set and of free columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import kernel


@kernel(allocates=True)
def geometric_means(pointer, row, size, first, counted, m, passes):  # type: ignore[no-untyped-def]
    """Return the logarithms of the typical sizes of m rows and of groups of columns.

    Entry k, with the logarithm ``size[k]`` (minus infinity for 0), is about exp(size of its row + size of its
    group). The kernel takes alternating means of the residuals, ``passes`` times. Group g has the columns
    ``first[g]`` to ``first[g + 1] - 1``. Only entries of groups with ``counted`` True count for a row.
    """
    groups = first.size - 1
    mean, typical = np.zeros(m), np.zeros(groups)
    for _ in range(passes):
        mean, count = np.zeros(m), np.zeros(m)
        for g in range(groups):
            if counted[g]:
                for k in range(pointer[first[g]], pointer[first[g + 1]]):
                    if size[k] > -np.inf:
                        mean[row[k]] += size[k] - typical[g]
                        count[row[k]] += 1.0
        for r in range(m):
            mean[r] /= max(1.0, count[r])
        for g in range(groups):
            along, entries = 0.0, 0
            for k in range(pointer[first[g]], pointer[first[g + 1]]):
                if size[k] > -np.inf and count[row[k]] > 0.0:
                    along += size[k] - mean[row[k]]
                    entries += 1
            typical[g] = along / max(1, entries)
    return mean, typical


def components(
    row: NDArray[np.integer], owner: NDArray[np.int64], m: int, n: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Return the labels of columns and of rows by connected component of an m by n matrix, and their number.

    ``row`` and ``owner`` have the row and the column of each entry.
    """
    label, count = _labels(row, owner, m, n)
    return label[:n], label[n:], count


@kernel(allocates=True)
def _labels(row, owner, m, n):  # type: ignore[no-untyped-def]
    """Return the component labels of columns, followed by rows, and the number of components.

    Union-find with path halving; the root of a tree is its smallest member. This is faster than the set-up of
    scipy's graph, which each round would need.
    """
    parent = np.arange(n + m)
    for k in range(row.size):
        a, b = np.int64(owner[k]), np.int64(n + row[k])
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        parent[max(a, b)] = min(a, b)
    label, count = np.empty(n + m, np.int32), 0
    for i in range(n + m):
        root = i
        while parent[root] != root:
            root = parent[root]
        if root == i:
            label[i] = count
            count += 1
        else:
            label[i] = label[root]
    return label, count


def medians(label: NDArray[np.int32], value: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the median of the finite positive values of each of the labels 0 to size - 1; 0 without any."""
    known = np.isfinite(value) & (value > 0)
    label, value = label[known], value[known]
    order = np.lexsort((value, label))
    counts = np.bincount(label, minlength=size)
    last = np.cumsum(counts)
    result = np.zeros(size)
    some = counts > 0
    result[some] = value[order][(last - counts + (counts - 1) // 2)[some]]
    return result
