"""Columns that are made when prices ask for them, on cutting stock, whose columns can all be listed."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from copter import ContinualProgram
from copter.solvers.generation import MissingColumns, generations
from copter.solvers.registry import make_solver

WIDTH, SIZES, WANTED = 100, np.array([45, 36, 31, 14]), np.array([97, 610, 395, 211])


def patterns():
    """All ways to cut a roll."""
    most = [range(WIDTH // size + 1) for size in SIZES]
    return np.array([cut for cut in itertools.product(*most) if 0 < SIZES @ np.array(cut) <= WIDTH])


def optimum():
    cuts = patterns()
    return linprog(np.ones(len(cuts)), A_ub=-cuts.T, b_ub=-WANTED, method="highs").fun


class Cutting:
    """A program that begins with one size a roll; the best pattern at some prices is that of all."""

    def __init__(self):
        self.program = ContinualProgram()
        self.program.add_resources(list(range(SIZES.size)), lower=WANTED.astype(float))
        self.cuts = patterns()
        self.there = []
        for size, width in enumerate(SIZES):
            self.add(np.where(np.arange(SIZES.size) == size, WIDTH // width, 0))

    def add(self, cut):
        usage = {size: [float(many)] for size, many in enumerate(cut) if many}
        self.program.add_request(len(self.there), [1.0], usage=usage, upper=2000.0)
        self.there.append(tuple(cut))

    def price(self, solution):
        worth = self.cuts @ -np.array([solution.price[size] for size in range(SIZES.size)])
        best = self.cuts[worth.argmax()]
        new = worth.max() > 1.0 + 1e-7 and tuple(best) not in self.there
        if new:
            self.add(best)
        # No more rolls than this are cut to any pattern.
        missing = WANTED.sum() * max(0.0, worth.max() - 1.0)
        return MissingColumns(int(new), missing)


def test_they_end_at_the_optimum_and_bounds_hold_all_the_way():
    cutting, best = Cutting(), optimum()
    course = list(generations(cutting.program, make_solver("copter", tolerance=1e-8), cutting.price))
    assert course[0].solution.objective > 1.05 * best
    assert course[-1].solution.objective == pytest.approx(best, rel=1e-6)
    assert course[-1].bound == pytest.approx(best, rel=1e-5)
    for one in course:
        assert one.bound <= best * (1 + 1e-7)
    assert len(cutting.there) < len(cutting.cuts)


def test_nobody_has_to_ask_for_more():
    cutting = Cutting()
    first = next(generations(cutting.program, make_solver("copter"), cutting.price))
    assert first.missing.added == 1 and len(cutting.there) == SIZES.size + 1
