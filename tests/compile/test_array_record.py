"""Records of arrays in kernels: what they read, what they refuse, how they travel."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from copter.compile.array_record import ArrayRecord


@dataclass(frozen=True, eq=False)
class Pair(ArrayRecord):
    value: NDArray[np.float64] | NDArray[np.float32]
    place: NDArray[np.int32]
    name: str


@njit
def picked(pair):
    total = 0.0
    for k in range(pair.place.size):
        total += pair.value[pair.place[k]]
    return total


@njit
def handed_on(pair, other):
    return picked(pair) - picked(other)


def pair(n=4, dtype=np.float64):
    return Pair(np.arange(n).astype(dtype), np.arange(0, n, 2, dtype=np.int32), "a")


def test_a_kernel_reads_what_python_reads():
    assert picked(pair()) == 2.0
    assert picked(pair(dtype=np.float32)) == 2.0
    assert handed_on(pair(9), replace(pair(4), place=np.array([1, 1], np.int32))) == 20.0 - 2.0
    assert picked(Pair(np.empty(0), np.empty(0, np.int32), "nothing")) == 0.0


def test_arrays_with_gaps_are_refused():
    with pytest.raises(TypeError, match="Pair.value: is 1-dim.*must be one-dimensional and contiguous"):
        picked(replace(pair(), value=np.arange(10.0)[::2]))
    with pytest.raises(TypeError, match="Pair.value: is 2-dim"):
        picked(replace(pair(), value=np.ones((2, 2))))


def test_a_record_travels_without_its_addresses():
    before = pair()
    picked(before)
    after = pickle.loads(pickle.dumps(before))
    assert after.name == "a" and picked(after) == 2.0
    assert after._address != before._address
