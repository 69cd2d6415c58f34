"""Room made before many columns are added: nothing changes, and nothing is copied after it."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ContinualProgram
from copter.errors import EditError
from support.rich_program import rich
from support.strategies import snapshot


@pytest.mark.parametrize("columns", [0, 1, 10_000, 1e5])
def test_it_changes_nothing(columns):
    program = rich()
    before = snapshot(program)
    program.reserve(columns)
    assert snapshot(program) == before


def test_what_fits_in_the_room_does_not_move_the_pool():
    program = ContinualProgram()
    template = program.share_columns({}, 50)
    program.reserve(100 * 50)
    pool = program.store.costs.cost
    for k in range(10):
        costs = np.arange(500.0) + k
        program.add_requests([(k, i) for i in range(10)], costs, [50] * 10, template, upper=1e3)
    assert program.store.costs.cost is pool
    for k in range(10):
        assert program.requests[(k, 3)].costs.tolist() == (np.arange(150.0, 200.0) + k).tolist()


@pytest.mark.parametrize("columns", [-1, 0.5, np.nan, np.inf, "many", None])
def test_what_is_no_number_of_columns_is_refused(columns):
    with pytest.raises(EditError, match="columns"):
        rich().reserve(columns)


@pytest.mark.parametrize("columns", [10**17, 10**18, 10**19, 1e300])
def test_more_than_any_machine_has_is_refused(columns):
    program = rich()
    before = snapshot(program)
    with pytest.raises(EditError, match="there is not enough memory"):
        program.reserve(columns)
    assert snapshot(program) == before
