"""A program that is built again has the same content."""

import itertools

import numpy as np
import pytest

from copter.solvers.baselines.program_copy import Copy
from copter.store.compiled import compile_program
from support.random_programs import random_edits, random_program


def edited_program(seed):
    """A program whose slots are in disorder: edits, a dropped resource, a template, a scale, integrality."""
    program = random_program(seed)
    rng = np.random.default_rng(seed)
    template = program.share_columns({"r0": [1.0, 2.0], "r1": 1.0}, 2)
    program.add_request("shared", [-1.0, -1.5], template, total=1.0, scale=2.0, integral=True)
    program.update_request("shared", override={0: -3.0})
    fresh = itertools.count(1000)
    for _ in range(3):
        random_edits(program, rng, fresh)
    return program


@pytest.mark.parametrize("seed", range(5))
def test_the_copy_is_the_same_program(seed):
    program = edited_program(seed)
    ours, theirs = compile_program(program), compile_program(Copy(program).program)
    assert theirs.resource_ids == ours.resource_ids
    assert sorted(map(str, theirs.request_ids)) == sorted(map(str, ours.request_ids))
    m = len(ours.resource_ids)
    np.testing.assert_array_equal(theirs.row_lower[:m], ours.row_lower[:m])
    np.testing.assert_array_equal(theirs.row_upper[:m], ours.row_upper[:m])
    for k, id in enumerate(ours.request_ids):
        j = theirs.request_ids.index(id)
        a = slice(ours.column_start[k], ours.column_start[k + 1])
        b = slice(theirs.column_start[j], theirs.column_start[j + 1])
        for field in ("c", "upper", "integrality"):
            np.testing.assert_array_equal(getattr(theirs, field)[b], getattr(ours, field)[a])
        np.testing.assert_array_equal(theirs.A[:m, b].toarray(), ours.A[:m, a].toarray())
        assert (theirs.sum_row[j] < 0) == (ours.sum_row[k] < 0)
        if ours.sum_row[k] >= 0:
            for field in ("row_lower", "row_upper"):
                assert getattr(theirs, field)[theirs.sum_row[j]] == getattr(ours, field)[ours.sum_row[k]]
