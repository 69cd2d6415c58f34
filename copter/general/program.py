"""A general linear program as a program of copter, and the way back.

Every column becomes a request of its own, shifted so that its lower bound is 0, or mirrored so that its upper
one is, if the lower one is far away.  A free one becomes the difference of two, and so does one with bounds
far away on both sides of 0: a shift by 1e9 would leave a row no more than seven digits.  Rows become
resources.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.general.model import GeneralLP, checked
from copter.program import ContinualProgram
from copter.solution import Solution

_FAR = 1e4
"""A bound at least so far below 0 is not shifted to 0; if the other is as far above, the column is split."""


@dataclass(frozen=True)
class GeneralProgram:
    """A general LP inside a ContinualProgram, and the way back.

    Attributes
    ----------
    program : ContinualProgram
        Requests ``0 .. k-1`` of one column each, the integral ones last; resources ``0 .. m-1``.
    source : GeneralLP
    origin : (k,) ndarray
        Column of the LP that a request stands for.
    sign : (k,) ndarray
        +1, or -1 where the column was mirrored.
    shift : (n,) ndarray
        Value of each column of the LP at which its requests are 0.
    constant : float
        What the shifts add to the objective.
    """

    program: ContinualProgram
    source: GeneralLP
    origin: NDArray[np.int64]
    sign: NDArray[np.float64]
    shift: NDArray[np.float64]
    constant: float

    def objective(self, solution: Solution) -> float:
        """Objective of the LP, in its own sense."""
        return self.own_sense(solution.objective)

    def bound(self, solution: Solution) -> float:
        """Certified bound on the LP's optimum: from below, or from above if it is a maximisation."""
        return self.own_sense(solution.bound)

    def own_sense(self, cost: float) -> float:
        """Objective of the LP for a cost of the program."""
        return self.source.own_sense(cost + self.constant)

    def point(self, solution: Solution) -> NDArray[np.float64]:
        """Values of the LP's columns, (n,)."""
        position = np.full(self.program.store.requests.size, -1)
        position[self.program.request_slots] = np.arange(self.origin.size)
        which = position[solution.nonzeros.slot]
        x = self.shift.copy()
        np.add.at(x, self.origin[which], self.sign[which] * solution.nonzeros.value)
        return x

    def direction(self, solution: Solution) -> NDArray[np.float64]:
        """Unbounded ray in the LP's columns, (n,)."""
        if solution.ray is None or solution.ray.kind != "unbounded":
            raise ValueError(f"a {solution.status} solution has no primal ray")
        ray = np.zeros(self.shift.size)
        values = np.array([solution.ray.x[request][0] for request in range(self.origin.size)])
        np.add.at(ray, self.origin, self.sign * values)
        return ray


def to_program(lp: GeneralLP) -> GeneralProgram:
    """The LP as a ContinualProgram.

    Bounds of integral columns are rounded inwards, so that whole numbers stay whole when a bound moves to 0.

    Raises
    ------
    EditError
        As :func:`copter.general.model.checked`.
    """
    lp = checked(lp)
    n, lower, upper = lp.c.size, lp.lower, lp.upper
    split = (lower <= -_FAR) & (upper >= _FAR)
    mirrored = ~split & (lower <= -_FAR) & (abs(upper) < abs(lower))
    shift = np.where(split, 0.0, np.where(mirrored, upper, lower))
    origin = np.concatenate((np.arange(n), np.flatnonzero(split)))
    sign = np.concatenate((np.where(mirrored, -1.0, 1.0), -np.ones(int(split.sum()))))
    width = np.concatenate((np.where(split, upper, upper - lower), -lower[split]))
    order = np.argsort(lp.integral[origin], kind="stable")
    origin, sign, width = origin[order], sign[order], width[order]
    moved = lp.A @ shift
    program = ContinualProgram()
    row_upper, row_lower = (lp.row_upper - moved).tolist(), (lp.row_lower - moved).tolist()
    for i, (high, low) in enumerate(zip(row_upper, row_lower, strict=True)):
        program.add_resource(i, high, low)
    columns = lp.A[:, origin]
    columns.data = columns.data * np.repeat(sign, np.diff(columns.indptr))
    continuous = int(np.count_nonzero(~lp.integral[origin]))
    for part, integral in ((slice(0, continuous), False), (slice(continuous, origin.size), True)):
        program.add_requests(
            range(origin.size)[part],
            sign[part] * lp.c[origin[part]],
            np.ones(origin[part].size),
            columns[:, part],
            upper=width[part],
            integral=integral,
        )
    return GeneralProgram(program, lp, origin, sign, shift, float(lp.c @ shift) + lp.offset)
