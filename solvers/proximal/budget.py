"""Time and iterations of one solve."""

from __future__ import annotations

from dataclasses import dataclass, field

from copter.clock import Clock


@dataclass
class Budget:
    """Time and iterations that a solve may use, and has used.

    Attributes
    ----------
    tolerance : float
        Relative residuals and gap that are wanted.
    most_piece : float
        Of a deadline: what is kept for one more piece of work at most.
    reserve : float
        Seconds that are kept for the pass which certifies what the steps find.
    iterations : int
        Inner iterations so far.
    until : int, optional
        Iterations in all at which steps pause, for somebody else to go on.
    """

    tolerance: float
    clock: Clock
    iteration_limit: int
    threads: int | None
    most_piece: float
    reserve: float = 0.0
    iterations: int = 0
    until: int | None = None
    _asked: float = field(default=0.0, init=False)
    _over: bool = field(default=False, init=False)

    def late(self) -> bool:
        """Whether it is time to certify what there is, or the solve was cancelled.

        Work goes on in pieces between which this is asked: the next one may take as long as the last.
        """
        now = self.clock()
        piece, self._asked = now - self._asked, now
        piece = min(piece, self.most_piece * self.clock.deadline)
        self._over = self._over or self.clock.over(self.reserve + piece)
        return self._over

    def left(self) -> int:
        """Iterations that are left for steps."""
        limit = self.iteration_limit if self.until is None else min(self.until, self.iteration_limit)
        return limit - self.iterations

    def spent(self) -> bool:
        """Whether the iteration limit is reached."""
        return self.iterations >= self.iteration_limit
