"""What a holder is sent is made writable, whatever there is in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from copter.ray.holder import writable
from copter.store.term_table import Kind
from copter.terms.convex import LogTerm


@dataclass
class OwnTerm(LogTerm):
    """A class of terms of a user's, made with a decorator."""


@dataclass(frozen=True)
class Frozen:
    numbers: np.ndarray


def read_only():
    numbers = np.arange(3.0)
    numbers.flags.writeable = False
    return numbers


def test_arrays_are_found_wherever_they_are():
    found = writable([(read_only(), {"a": Frozen(read_only())})])
    assert found[0][0].flags.writeable
    assert found[0][1]["a"].numbers.flags.writeable


def test_a_class_is_left_as_it_is():
    kind = Kind(OwnTerm, ("weight", "offset"))
    assert writable(kind) == kind
