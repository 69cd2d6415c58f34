"""Every form of a verb's arguments is written, and made again from what was written."""

from __future__ import annotations

import numpy as np
from edit_forms import bulk, empty, requests, same
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array
from strategies import snapshot

from copter import ContinualProgram, LogTerm
from copter.durable.edits import WrittenProgram, make_edit, read_edit


class Written(WrittenProgram):
    """A program that keeps its edits as bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.edits: list[bytes] = []

    def _write(self, edit: bytes) -> None:
        self.edits.append(edit)


def replayed(program: Written) -> ContinualProgram:
    twin = ContinualProgram()
    for edit in program.edits:
        make_edit(twin, read_edit(edit))
    return twin


@given(some=st.lists(requests(), min_size=1, max_size=3), form=st.sampled_from(["parts", "flat"]))
@settings(max_examples=30, deadline=None)
def test_requests_in_bulk(some, form):
    program = Written()
    rows = empty().resources[:]
    program.add_resources(**vars(rows))
    given = bulk(some, form)
    program.add_requests(range(len(some)), **given)
    program.update_requests(range(len(some)), **given)
    for k, request in enumerate(some):
        program.update_request(k, **request)
    twin = replayed(program)
    assert snapshot(twin) == snapshot(program)
    same(twin, program)


def test_rows_and_single_values_and_usages():
    program = Written()
    program.add_resources(("a", "b", "c"), upper=5, lower=np.zeros(3))
    program.remove_resources(["c"])
    template = program.share_columns({"a": 1.0}, 2)
    usages = [template, {"b": ([1], [2.0])}, csc_array([[1.0, 0.0], [0.0, 3.0]])]
    program.add_requests(
        [1, 2, 3], np.arange(6.0), [2] * 3, usages, totals=2, terms=LogTerm(1, 1, image=[1, 2])
    )
    program.add_request("one", [1.0], csc_array([[1.0], [2.0]]), integral=True)
    program.update_requests([1, 3], totals=[None, 1], relation=["<=", "=="], terms=[None, LogTerm(2)])
    program.update_requests([2, 3], integral=np.array([True, False]), starts=[None, {1: 0.5}], scales=2)
    program.update_request(2, term={"weight": 4.0}, integral=False)
    assert len(program.edits) == 8
    twin = replayed(program)
    assert snapshot(twin) == snapshot(program)
    assert (
        twin.requests[2].term.parameters == {"weight": 4.0, "offset": 1.0}
        and twin.requests[1].shared_columns == template
    )
