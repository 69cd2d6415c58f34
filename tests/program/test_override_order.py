"""Overrides are kept by column."""

from __future__ import annotations

import pytest

from copter import ContinualProgram
from copter.errors import FileError
from copter.store.slabs import slice_indices


def test_a_file_whose_overrides_are_in_another_order_is_refused(tmp_path):
    program = ContinualProgram()
    program.add_request("q", [-1.0] * 60, {}, total=3.0, override={41: -3.0, 7: -1.5, 20: 0.25})
    table, kept = program.store.requests, program.store.overrides
    slot = program.slot_of["q"]
    places = slice_indices(table.override_start[[slot]], table.override_length[[slot]])
    for array in (kept.column, kept.original, kept.value):
        array[places] = array[places[::-1]]
    program.save(tmp_path / "before")
    with pytest.raises(FileError, match="order of overrides"):
        ContinualProgram.load(tmp_path / "before")
