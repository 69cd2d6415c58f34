"""A general LP that is solved again and again, each time from its last answer.

Where a large LP has rows that are sums of blocks of columns, as an allocation has, it is kept as a
ContinualProgram (:mod:`copter.models.model`) and the own solver goes on from its last point.  Any
other ends at a vertex, from which HiGHS' simplex goes on: by its primal kind if the vertex is still feasible
(costs have changed), by its dual kind if not (bounds have).
"""

from __future__ import annotations

import math

import numpy as np

from copter.errors import EditError
from copter.models.formulation import MOSTLY_SUMS
from copter.models.general_lp import GeneralLP, checked
from copter.models.model import Model
from copter.models.reductions import Point
from copter.solution import Status
from copter.solvers.base import Stopwatch
from copter.solvers.general.handover import terms
from copter.solvers.general.hybrid import Answer, own_share, solve_lp
from copter.solvers.general.proof import prove
from copter.solvers.proximal.solver import ProximalPoint

_FROM = 1e7
"""Rows times nonzeros from which on the own solver is tried: HiGHS ends sooner on less."""
_SHARPER = 0.1
"""Of the tolerance: what the own solver aims at, since the LP itself has other scales."""
_PAUSE = 4
"""After a failure of the own solver so many solves go by without it, after the next one that many squared."""


class WarmLP:
    """Solves one LP after the other, from the last answer where the shape is the same.

    Parameters
    ----------
    patience : float
        Times :func:`~copter.solvers.general.hybrid.own_share` that the own solver has before HiGHS.
    """

    def __init__(self, patience: float = 1.0) -> None:
        self.patience = patience
        self._own = ProximalPoint(hand_over=False)
        self.reset()

    def __reduce__(self) -> tuple[type[WarmLP], tuple[float]]:
        return type(self), (self.patience,)  # a basis of HiGHS cannot be copied: a copy begins anew

    def reset(self) -> None:
        """Forget all answers."""
        self._own.reset()
        self._shape: tuple[int, ...] = ()
        self._found: Point | None = None
        self._model: Model | None = None
        self._failures = 0
        self._pause: float = 0

    def solve(
        self,
        lp: GeneralLP,
        *,
        warm: bool = True,
        tolerance: float = 1e-6,
        deadline: float | None = None,
        threads: int | None = None,
        polish: bool = False,
        presolve: bool = True,
    ) -> tuple[Answer, str]:
        """Solve an LP; integral columns count as continuous ones.

        Parameters
        ----------
        warm : bool
            Whether to begin from the last answer.
        tolerance, deadline, threads, polish, presolve
            As in :func:`copter.solvers.general.hybrid.solve_lp`.

        Returns
        -------
        str
            What the warm start used, or why there was none.

        Raises
        ------
        SettingError, EditError
            As ``solve_lp``.
        """
        watch = Stopwatch()
        lp = checked(lp)
        why = self._prepare(lp, warm)
        own = None
        if not polish:
            own = self._by_own(lp, tolerance, deadline, threads)
        if own is not None:
            return own, why if not own.warm_started else "the last point and prices"
        start = self._found
        answer = solve_lp(
            lp,
            tolerance=tolerance,
            deadline=None if deadline is None else max(0.0, deadline - watch()),
            presolve=presolve,
            polish=polish,
            threads=threads,
            start=start,
        )
        if answer.status is Status.OPTIMAL and answer.x is not None and answer.y is not None:
            self._found = Point(answer.x, answer.y, answer.basis)
        if start is None:
            return answer, why
        if not answer.warm_started:
            return answer, "the last answer led nowhere"
        return answer, "the last point" if start.basis is None else "the last point and its basis"

    def _prepare(self, lp: GeneralLP, warm: bool) -> str:
        """Forget what is of no use for this LP; says why, or that there is nothing."""
        why = "no answer yet"
        if not warm:
            self.reset()
            why = "warm start switched off"
        elif self._shape not in ((), lp.A.shape):
            self._found, self._failures, self._pause = None, 0, 0
            why = "another shape than last time"
        self._shape = lp.A.shape
        return why

    def _by_own(
        self, lp: GeneralLP, tolerance: float, deadline: float | None, threads: int | None
    ) -> Answer | None:
        """The own solver's answer if it is optimal; None where there are no blocks, or it does not end."""
        if terms(lp) < _FROM:
            return None
        if self._pause:
            self._pause -= 1
            return None
        watch = Stopwatch()
        model = self._updated(lp)
        if model is None:
            return None
        edited = watch()
        limit = self.patience * own_share(model)
        limit = limit if deadline is None else min(limit, max(0.0, deadline - edited) / 2)
        self._own.tolerance, self._own.threads = _SHARPER * tolerance, threads
        solution = self._own.solve(model.program, deadline=limit)
        x, y, _ = model.invert(solution)
        x = np.clip(x, lp.lower, lp.upper)
        proof = prove(lp, x, y) if solution.found else None
        if proof is None or not proof.worst <= tolerance:
            self._failures += 1
            self._pause = _PAUSE**self._failures
            return None
        self._failures = 0
        self._found = Point(x, y)
        return Answer(
            Status.OPTIMAL,
            solution.reason,
            x,
            y,
            proof,
            finished_by=self._own.name,
            seconds={"edit": edited, self._own.name: watch() - edited},
            iterations=solution.iterations,
            solution=solution,
            warm_started=solution.warm_started,
        )

    def _updated(self, lp: GeneralLP) -> Model | None:
        """The LP as a program with the blocks that it has; None, and no program is made, if it has none."""
        try:
            if self._model is None:
                self._model = Model(lp, fold=True, share=MOSTLY_SUMS, build=False)
            else:
                self._model.update(lp)
            if self._model.n_sums:
                self._model.program  # noqa: B018
                return self._model
        except EditError:  # bounds that contradict each other: HiGHS finds the ray that proves it
            return None
        self._model, self._pause = None, math.inf
        return None
