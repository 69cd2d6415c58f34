"""LP*: Sia's relaxation solved anew each round by a solver of linear programs, then the same shim.

The thesis takes a commercial solver; here it is HiGHS.

Source: thesis, section 4.5.1.
"""

from __future__ import annotations

from typing import Any

from copter.problems.sia.scheduler import Sia
from copter.solvers.base import Solver


class LpStar(Sia):
    """The policy.

    Parameters
    ----------
    **settings
        Of :class:`~copter.problems.sia.scheduler.Sia`.
    """

    name = "lp-star"

    def __init__(self, *, solver: str | Solver = "highs-hot", **settings: Any) -> None:
        super().__init__(solver=solver, **settings)
