"""Where a solve begins: what the solver keeps of a round, and what of that still holds in the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.proof.certificate import right_signs
from copter.solution import ColdStart, Start
from copter.solvers.memory import LastX, LastY
from copter.store.allocation import NOTHING, SparseX, merged

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.proximal.answer import Answer
    from copter.store.edit import Starts


@dataclass(frozen=True)
class State:
    """What is kept between rounds.

    ``answer`` is what churn is counted against, ``last`` where to begin; they differ if a start was given.
    ``proof`` is the answer with the store's clock when it was certified.
    """

    answer: LastX | None
    last: LastX
    y: LastY
    slack: float
    proof: tuple[int, Answer] | None = None

    def start(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Allocation and prices, by slot, that are left of it; None for another program."""
        if self.last.program is not program:
            return None
        # no price without the bound that it is of
        return self.last.surviving(), right_signs(program.store, self.y.surviving())


class Beginning(NamedTuple):
    """What still holds of the last round.

    Attributes
    ----------
    centre, y : allocation and prices to begin with
    slack : of screening; NaN if not known
    how : whether any of that is of use, and why, or why not
    """

    centre: SparseX
    y: NDArray[np.float64]
    slack: float
    how: Start

    @property
    def warm(self) -> bool:
        """Whether any of that is of use."""
        return self.how.warm


def begin(program: ContinualProgram, starts: Starts, state: State | None, *, warm: bool) -> Beginning:
    """Where a solve begins: last round's allocation and prices, and the starts that came with edits.

    Parameters
    ----------
    state : State, optional
        What the solver kept of its last round.
    warm : bool
        Whether any of that is wanted.
    """
    centre, y, slack = NOTHING, np.zeros(program.store.rows.size), np.nan
    if not warm:
        return Beginning(centre, y, slack, ColdStart.SWITCHED_OFF.start())
    last = None if state is None else state.start(program)
    if last is not None:
        centre, y = last
    centre = _with_starts(centre, starts, program.store.requests.n_columns)
    if state is None:
        why = ColdStart.FIRST_ROUND
    elif last is None:
        why = ColdStart.OTHER_PROGRAM
    else:
        slack = state.slack
        was_zero = not (state.y.y.any() or state.last.x.slot.size)
        if was_zero or y.any() or centre.slot.size:
            return Beginning(centre, y, slack, Start(True, "last round's x and prices"))
        why = ColdStart.NOTHING_LEFT
    how = Start(True, "starts that were given") if starts else why.start()
    return Beginning(centre, y, slack, how)


def _with_starts(x: SparseX, starts: Starts, n_columns: NDArray[np.int64]) -> SparseX:
    """x with the starts that were given in place of its values for those requests."""
    fresh = [slot for slot in sorted(starts) if n_columns[slot]]
    if not fresh:
        return x
    given = [starts[slot] for slot in fresh]
    sizes = [columns.size for columns, _ in given]
    slot = np.repeat(fresh, sizes)
    column, value = (np.concatenate([start[k] for start in given]) for k in (0, 1))
    replaced = np.zeros(n_columns.size, np.bool_)
    replaced[fresh] = True
    order = np.lexsort((column, slot))
    return merged(x.where(~replaced[x.slot]), SparseX(slot[order], column[order], value[order]))
