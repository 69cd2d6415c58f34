"""Tables and figures of the papers, measured again: what `copter reproduce` runs and prints.

A domain lists its own in a module that the entry-point group ``copter.reproductions`` names, as
``sia = "copter.problems.sia.reproductions:REPRODUCTIONS"``: a tuple of :class:`Reproduction`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from copter.installed import installed
from copter.spreading.tasks import Here, Spread, Task, Tell

GROUP = "copter.reproductions"


@dataclass(frozen=True)
class Figure:
    """One figure of a table.

    Attributes
    ----------
    row, column : str
        Where it stands in the table, such as "sia" and "average JCT".
    unit : str
        Such as "h", "s", "x" (a ratio) or "".
    ours : float
        Mean over the seeds.
    paper : float
        NaN where the paper prints none.
    std : float
        Standard deviation of ours over the seeds; NaN for a single one.
    """

    row: str
    column: str
    unit: str
    ours: float
    paper: float = math.nan
    std: float = math.nan


def mean_figure(row: str, column: str, unit: str, values: Iterable[float], paper: float = math.nan) -> Figure:
    """A figure as the mean over seeds, with the deviation of the samples.

    Parameters
    ----------
    values : iterable of float
        One for each seed.
    """
    listed = np.array(list(values), np.float64)
    std = float(listed.std(ddof=1)) if listed.size > 1 else math.nan
    return Figure(row, column, unit, float(listed.mean()), paper, std)


@dataclass(frozen=True)
class Effort:
    """How much of an experiment to run.

    Attributes
    ----------
    seeds : int
        Samples to average over, at most; a reproduction says in `differs` if the paper has more.
    data : Path or None
        Folder of the real traces, where the experiment needs one.
    seed : int
        First seed.
    quick : bool
        A smaller instance of the same kind, for a first look; figures are then not those of the paper.
    say : callable
        Takes a line about what is being run.
    spread : Spread
        Where runs are played that are not timed; those that are stay here, one after the other.
    """

    seeds: int = 3
    data: Path | None = None
    seed: int = 0
    quick: bool = False
    say: Callable[[str], None] = field(default=lambda line: None)
    spread: Spread = field(default_factory=Here)

    def each(self, play: Callable[..., Any], cases: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Play some cases, all at once where they are spread.

        Parameters
        ----------
        play : callable
            Of a module: takes an effort, whose `say` is heard here, and what a case has.

        Returns
        -------
        list
            What it returned of each case, in order.
        """
        plain = Effort(self.seeds, self.data, self.seed, self.quick, _silent)
        tasks = [Task(_name(play, case), _play, (plain, play, case)) for case in cases]
        ends = self.spread.each(tasks, lambda task, line: self.say(line))
        return [ended.result() for ended in ends]


def _silent(line: str) -> None:
    """Say nothing: an effort under way to another process."""


def _play(effort: Effort, play: Callable[..., Any], case: tuple[Any, ...], *, tell: Tell) -> Any:
    return play(replace(effort, say=tell), *case)


def _name(play: Callable[..., Any], case: tuple[Any, ...]) -> str:
    """A case in words, for errors: what is said of it has more."""
    words = (str(part) for part in case if isinstance(part, str | int | float))
    return ", ".join((play.__name__.strip("_"), *words))


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper.

    Attributes
    ----------
    name : str
        As in `copter reproduce NAME`: paper, kind, number, such as "sia-table-3.3".
    title : str
        What it shows.
    source : str
        Paper and place.
    differs : str
        What differs from the paper's set-up.
    measure : callable
        From an :class:`Effort` to figures, in the order of the table.
    needs_data : bool
        Whether it needs a folder of real traces.
    minutes : float
        About how long it takes with three seeds.
    seeds : int
        Samples that its document of record has.
    """

    name: str
    title: str
    source: str
    differs: str
    measure: Callable[[Effort], Sequence[Figure]]
    needs_data: bool = False
    minutes: float = 1.0
    seeds: int = 3


def reproductions() -> dict[str, Reproduction]:
    """All tables and figures that the installed packages know, by name.

    A package whose reproductions cannot be loaded is warned of, and takes no other's away.
    """
    listed: list[Reproduction] = []
    for entry in installed(GROUP).values():
        try:
            listed.extend(entry.load())
        except Exception as error:  # whatever somebody else's module raises
            what = f"{type(error).__name__}: {error}"
            warnings.warn(f"no reproductions of {entry.name!r} ({entry.value}): {what}", stacklevel=2)
    return {one.name: one for one in sorted(listed, key=lambda one: one.name)}
