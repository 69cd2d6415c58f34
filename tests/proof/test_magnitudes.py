"""Components of a matrix, against scipy's."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from copter.proof.magnitudes import components


@pytest.mark.parametrize("seed", range(30))
def test_components_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    m, n = (int(rng.integers(1, 40)) for _ in range(2))
    entries = int(rng.integers(0, 50))
    row, owner = rng.integers(0, m, entries).astype(np.uint32), rng.integers(0, n, entries)
    ones = np.ones(entries, bool)
    graph = coo_array((ones, (owner, n + row.astype(np.int64))), shape=(n + m, n + m))
    count, label = connected_components(graph, directed=False)
    of_column, of_row, found = components(row, owner, m, n)
    assert found == count
    np.testing.assert_array_equal(np.concatenate((of_column, of_row)), label)
