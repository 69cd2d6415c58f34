"""Last round's allocation, to be found again after edits.

Slots are used again once a request is gone, and keep their number when its columns are replaced.  A slot
still is what it was if its birth stamp is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.certificate import SparseX

if TYPE_CHECKING:
    from copter.program import ContinualProgram


@dataclass(frozen=True)
class LastX:
    """An allocation and the births of its requests.

    Attributes
    ----------
    program : ContinualProgram
    x : SparseX
    births : (nonzeros,) birth of the request of each nonzero
    """

    program: ContinualProgram
    x: SparseX
    births: NDArray[np.int64]

    @classmethod
    def of(cls, program: ContinualProgram, x: SparseX) -> LastX:
        """Remember an allocation of the program as it is now."""
        return cls(program, x, program.store.requests.birth[x.slot])

    def _same(self) -> NDArray[np.bool_]:
        birth: NDArray[np.int64] = self.program.store.requests.birth
        return birth[self.x.slot] == self.births

    def surviving(self) -> SparseX:
        """The part whose requests are still there with the same columns."""
        same = self._same()
        return SparseX(self.x.slot[same], self.x.column[same], self.x.value[same])

    def marked(self) -> SparseX:
        """The whole, with slot ``-1 - slot`` where the request is gone: what churn is counted against."""
        return SparseX(np.where(self._same(), self.x.slot, -1 - self.x.slot), self.x.column, self.x.value)


def churn_base(last: LastX | None, program: ContinualProgram) -> SparseX | None:
    """What a round of ``program`` is compared with; None if the last round was another program or none."""
    return None if last is None or last.program is not program else last.marked()
