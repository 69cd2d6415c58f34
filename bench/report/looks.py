"""How each solver is drawn, the same in every picture: colour by who it is from, mark and dash by which.

The hues are those of Okabe and Ito, which people who do not tell red from green tell apart; each has a light
twin for dark pages.  Pictures are drawn in the hues of the light page, and every one of them becomes a
variable of the page's style, so that the page decides.

Source: M. Okabe and K. Ito, *Color Universal Design*, 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Dash: TypeAlias = Literal["-", "--", ":", "-.", ""]

#: Name of the variable, and its colour on light and on dark pages.
HUES: dict[str, tuple[str, str]] = {
    "ink": ("#1c1c22", "#ececf1"),
    "muted": ("#63636e", "#a2a2ad"),
    "line": ("#dcdce3", "#3a3a44"),
    "copter": ("#0072b2", "#56b4f9"),
    "variant": ("#4fa3d1", "#8ccdf0"),
    "highs": ("#d55e00", "#ff8a3d"),
    "ortools": ("#b8860b", "#f0c24a"),
    "cvxpy": ("#009e73", "#2fcf9f"),
    "parts": ("#b3568c", "#e79ac4"),
    "other": ("#7a7a85", "#b9b9c4"),
}
_DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
_MARKS = ("o", "^", "s", "D", "v", "P")


@dataclass(frozen=True)
class Look:
    """How a solver is drawn.

    Attributes
    ----------
    hue : str
        Name in :data:`HUES`.
    mark, dash : str
        As matplotlib names them.
    width : float
        Of its line, in points.
    """

    hue: str
    mark: str
    dash: Dash
    width: float = 1.2

    @property
    def colour(self) -> str:
        """Of the light page."""
        return HUES[self.hue][0]


def is_copter(solver: str) -> bool:
    """Whether a solver is copter, or a variant of it."""
    return solver == "copter" or solver.startswith("copter-")


def looks(solvers: list[str]) -> dict[str, Look]:
    """Return how solvers are drawn: those of one hue differ by mark and dash, in order of their names.

    Parameters
    ----------
    solvers : list of str
        All that the report knows, so that each looks the same everywhere.

    Returns
    -------
    dict of str to Look
    """
    taken: dict[str, int] = {}
    found = {}
    for solver in sorted(set(solvers)):
        hue = _hue(solver)
        k = taken[hue] = taken.get(hue, -1) + 1
        width = 2.2 if hue == "copter" else 1.2
        found[solver] = Look(hue, _MARKS[k % len(_MARKS)], _DASHES[k % len(_DASHES)], width)
    return found


def _hue(solver: str) -> str:
    if solver in ("copter", "copter-exact"):
        return "copter"
    if is_copter(solver):
        return "variant"
    begins = {"highs": "highs", "glop": "ortools", "pdlp": "ortools", "pop": "parts", "dede": "parts"}
    if solver in ("cvxpy", "clarabel", "scs", "osqp") or solver.startswith("cvxpy"):
        return "cvxpy"
    return next((hue for start, hue in begins.items() if solver.startswith(start)), "other")
