"""What a holder is sent is made writable, whatever there is in it; it answers only if it has all edits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from copter.ray.holder import Holder, MissedEditsError, writable
from copter.store.edit import Edit
from copter.store.term_table import TermKind
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
    kind = TermKind(OwnTerm, ("weight", "offset"))
    assert writable(kind) == kind


def new_row(slot=0, upper=1.0):
    bounds = {"lower": np.zeros(1), "upper": np.array([upper])}
    return Edit("add_resources", slots=np.array([slot]), clock=0, **bounds)


def rows(part):
    return part.store.rows.size


def test_an_edit_that_failed_is_said_each_time_and_no_later_one_is_made():
    holder = Holder(0, 2, 2, 1)
    holder.send([new_row()], 0)
    assert holder.ask(1, "each", rows, (), None) == [1, 1]
    with pytest.raises(KeyError):
        holder.send([new_row(1), Edit("forget_columns", slots=np.array([7])), new_row(2)], 1)
    holder.send([new_row(3)], 4)
    for method, arguments in (("each", (rows, (), None)), ("one", (0, rows, ())), ("snapshot", ())):
        for _ in range(2):
            with pytest.raises(MissedEditsError, match="KeyError: 7"):
                holder.ask(5, method, *arguments)


def test_edits_that_did_not_come_are_missed_until_stores_come_that_have_them():
    holder, whole = Holder(0, 1, 1, 1), Holder(0, 1, 1, 1)
    whole.send([new_row(), new_row(1)], 0)
    holder.send([new_row()], 1)
    with pytest.raises(MissedEditsError, match="2 edits did not arrive"):
        holder.ask(2, "each", rows, (), None)
    holder.restore(whole.ask(2, "snapshot"), 2)
    assert holder.ask(2, "each", rows, (), None) == [2]
