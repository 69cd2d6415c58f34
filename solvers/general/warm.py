"""A general LP that is solved again and again, each time from its last answer.

A vertex that HiGHS ended at is where its simplex goes on: by its primal kind if the vertex is still feasible
(costs have changed), by its dual kind if not (bounds have).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from copter.models.general_lp import GeneralLP
from copter.solution import Status
from copter.solvers.general.hybrid import Answer, solve_lp
from copter.solvers.general.presolve import Vertex


@dataclass(frozen=True)
class _Last:
    lp: GeneralLP
    found: Vertex


class WarmLP:
    """Solves one LP after the other, from the last answer where the shape is the same."""

    def __init__(self) -> None:
        self._last: _Last | None = None

    def solve(self, lp: GeneralLP, *, warm: bool = True, **settings: Any) -> tuple[Answer, str]:
        """Solve an LP; integral columns count as continuous ones.

        Parameters
        ----------
        lp : GeneralLP
        warm : bool
            Whether to begin from the last answer.
        **settings
            Of :func:`copter.solvers.general.hybrid.solve_lp`.

        Returns
        -------
        Answer
        str
            What the warm start used, or why there was none.

        Raises
        ------
        SettingError, EditError
            As ``solve_lp``.
        """
        start, why = self._start(lp) if warm else (None, "warm start switched off")
        answer = solve_lp(lp, start=start, **settings)
        if start is not None and not answer.warm_started:
            why = "the last answer led nowhere"
        if answer.status is Status.OPTIMAL and answer.x is not None and answer.y is not None:
            self._last = _Last(lp, Vertex(answer.x, answer.y, answer.basis))
        return answer, why

    def _start(self, lp: GeneralLP) -> tuple[Vertex | None, str]:
        if self._last is None:
            return None, "no answer yet"
        if self._last.lp.A.shape != lp.A.shape:
            return None, "another shape than last time"
        return self._last.found, "the last point and its basis" if self._last.found.basis else "the last point"
