"""Rounds that look at open requests only: the same answers, proved for the whole program, after any edit."""

from dataclasses import replace

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint
from copter.bench.changes import ChangesCourse
from copter.solvers.proximal.inactive_faults import inactive_faults
from copter.solvers.proximal.solver import USUAL
from support.audit import sums_agree
from support.lazy_rounds import is_lazy


class Rounds:
    """A program that a course has filled, and further rounds."""

    def __init__(self, course):
        self.program = ContinualProgram()
        self._edits = course.edits(self.program)
        self.change()

    def change(self):
        for edit in next(self._edits):
            edit()


def warm(columns=24_000, **settings):
    """A program, and a solver that has closed its requests."""
    rounds, solver = Rounds(ChangesCourse(columns, 1)), ProximalPoint(**settings)
    for _ in range(4):
        solver.solve(rounds.program)
        rounds.change()
    assert is_lazy(solver.solve(rounds.program))
    return rounds, solver


def test_nobody_is_closed_after_a_deadline():
    """With a deadline that is over when the solve ends, what would come after it is left out."""
    rounds, solver = Rounds(ChangesCourse(24_000, 1)), ProximalPoint()
    hurried = ProximalPoint(tuning=replace(USUAL, lazy=replace(USUAL.lazy, seconds_each=1.0)))
    for _ in range(4):
        for each, time_limit in ((solver, None), (hurried, 60.0)):
            assert each.solve(rounds.program, time_limit=time_limit).status == "optimal"
        rounds.change()
    assert solver._state.inactive is not None
    assert hurried._state.inactive is None


def test_a_state_that_says_what_is_not_so_is_refused():
    rounds, solver = warm()
    arrays = solver.save_state(rounds.program)
    block = "inactive.blocks.0"
    for name, spoil in (
        (f"{block}.column", lambda a: (a + 1) % 20),
        (f"{block}.threshold", lambda a: a + 1.0),
        (f"{block}.group", lambda a: a + 100_000),
        ("inactive.groups.first", lambda a: a + 100_000),
        (f"{block}.parts.start", lambda a: a + 1),
        (f"{block}.parts.cost", lambda a: a * 1.5),
        (f"{block}.parts.row", lambda a: a + 1),
        (f"{block}.parts.coefficient", lambda a: a * 1.5),
        (f"{block}.slots", lambda a: a[::-1].copy()),
        ("inactive.y", lambda a: a * 1.5),
        ("inactive.step", lambda a: a * 2.0),
        ("inactive.revision", lambda a: a + 1_000_000),
        ("inactive.rounds", float),
    ):
        other = ProximalPoint()
        with pytest.raises(ValueError, match="inactive"):  # each names what is wrong
            other.load_state(rounds.program, arrays | {name: spoil(arrays[name])})
    other.load_state(rounds.program, arrays)
    assert is_lazy(other.solve(rounds.program))


@pytest.mark.parametrize("part", ["cost", "value", "coefficient", "total", "width", "row"])
def test_an_audit_finds_contributions_that_are_not_so(part):
    rounds, solver = warm()
    inactive = solver._state.inactive
    assert not inactive_faults(rounds.program, inactive)
    block = inactive.merged()
    array = getattr(block.parts, part).copy()
    array[array != 0] -= 1  # never more: kernels do not check that rows and widths are within their arrays
    block = block._replace(parts=block.parts._replace(**{part: array}))
    empty = block.take(np.empty(0, np.int64))
    assert inactive_faults(rounds.program, replace(inactive, blocks=(block, empty, empty)))


def test_an_audit_finds_sums_that_are_not_so():
    rounds, solver = warm()
    index = solver._cache._index
    index._sums.add(index.inactive.merged().parts, np.array([0]))
    assert not sums_agree(index)
