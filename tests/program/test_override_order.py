"""Overrides come in any order and are kept by column."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ContinualProgram, make_solver
from copter.errors import FileError
from copter.store.slabs import slice_indices
from copter.store.view import costs_at, view_of

WIDTH = 60
GIVEN = {"few": {41: -3.0, 7: -1.5, 20: 0.25}, "many": {j: -float(j % 7) for j in range(WIDTH - 1, 3, -1)}}


def flat(mappings):
    """The same as one call takes it."""
    parts = [list(each.items()) for each in mappings]
    counts = np.array([len(each) for each in parts])
    columns, values = zip(*[pair for each in parts for pair in each], strict=True)
    return counts, np.array(columns), np.array(values)


def program_of(way):
    """Requests with these overrides, set in one of the ways that there are."""
    program = ContinualProgram()
    program.add_resource("r", upper=5.0)
    columns = program.share_columns({"r": np.linspace(1.0, 2.0, WIDTH)}, WIDTH)
    costs = np.linspace(-2.0, 1.0, WIDTH)
    for id in GIVEN:
        program.add_request(id, costs, columns, total=3.0, override=GIVEN[id] if way == "added" else None)
    if way == "one":
        for id, each in GIVEN.items():
            program.update_request(id, override=each)
    elif way == "mappings":
        program.update_requests(list(GIVEN), overrides=list(GIVEN.values()))
    elif way == "flat":
        program.update_requests(list(GIVEN), overrides=flat(GIVEN.values()))
    return program


@pytest.mark.parametrize("way", ["added", "one", "mappings", "flat"])
def test_each_cost_is_the_override_of_its_column(way):
    program = program_of(way)
    expected = np.linspace(-2.0, 1.0, WIDTH)
    for id, each in GIVEN.items():
        costs = expected.copy()
        costs[list(each)] = list(each.values())
        assert (
            program.requests[id].costs == pytest.approx(costs, abs=1e-15)
            and program.requests[id].override == each
        )
        slots = np.full(WIDTH, program.slot_of[id])
        found = costs_at(view_of(program.store), slots, np.arange(WIDTH))
        assert found == pytest.approx(costs, abs=1e-15)
    solution, best = make_solver("copter", tolerance=1e-7).solve(program), make_solver("highs-simplex")
    assert solution.objective == pytest.approx(best.solve(program).objective, rel=1e-6)
    assert solution.bound == pytest.approx(solution.objective, rel=1e-6)


def test_a_file_whose_overrides_are_in_another_order_is_refused(tmp_path):
    program = program_of("one")
    table, kept = program.store.requests, program.store.overrides
    slot = program.slot_of["few"]
    places = slice_indices(table.override_start[[slot]], table.override_length[[slot]])
    for array in (kept.column, kept.original, kept.value):
        array[places] = array[places[::-1]]
    program.save(tmp_path / "before")
    with pytest.raises(FileError, match="order of overrides"):
        ContinualProgram.load(tmp_path / "before")
