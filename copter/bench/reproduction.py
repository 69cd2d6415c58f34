"""Reproductions: tables and figures of papers, measured again by `copter reproduce`.

A domain lists its reproductions in a table, `reproductions.toml`.  The module next to the table contains the
functions that measure, and an entry point of the group ``copter.reproductions`` names the module.  The table
has a section for each NAME of `copter reproduce NAME`::

    ["sia-figure-3.13"]
    title = "Oracle, Bootstrap and no profiling"
    source = "thesis, section 3.5.8 and Figure 3.13"
    differs = "{authors} Reports of step times have an error of 5%."
    takes = { minutes = 1, seeds = 5 }
    measure = "simulated"
    trace = "helios"
    printed = [["", "average JCT, change"], ["Bootstrap over Oracle", 8.0]]
    claims = [{ says = "No Prof's cost", printed = "30%", row = "Oracle", column = "JCT", below = "No Prof" }]
    quick.workload = { jobs = 40 }

`measure` is a function of the module, or ``file:function`` of another module in its folder.  The function
takes an :class:`Effort` and, as keywords, the settings: all keys of the section that are not described here.
`takes` has the minutes and the seeds of a document, whether it needs `data`, and `workloads` and `deviations`
of :class:`Reproduction`.  `printed` is a table with a head; "<", ">", "≤" or "≥" before a value means that
the paper prints a bound, and an empty text means that it prints no value.  `claims` has the fields of
:class:`PaperClaim`; by default, the place of a claim is `claimed_in` or else the source.  `quick` contains
settings for a quick run; ``compared = false`` in it omits the printed values.  `like` names an earlier
section, whose keys are the defaults of this section.  The section `defaults` has the defaults of all
sections, and the section `texts` has texts that other sections quote in braces.  The sections
`not-reproduced` have the `name` and the `claims` of tables and figures that are not measured.
"""

from __future__ import annotations

import math
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from copter.installed import installed
from copter.tasks.tasks import Here, Task, TaskRunner, Tell

GROUP = "copter.reproductions"
_BOUNDS = "<>≤≥"


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a table: the mean over samples, and their standard deviation, which is NaN for one sample.

    It has a row and a column, such as "sia" and "average JCT", and a unit such as "h", "x" (a ratio) or "".
    `ours`: the measured value. `paper`: the published value; NaN if the paper prints none.
    """

    row: str
    column: str
    unit: str
    ours: float
    paper: float = math.nan
    std: float = math.nan


def mean_figure(
    row: str, column: str, unit: str, values: Iterable[float], paper: float = math.nan
) -> PaperFigure:
    """Return a figure with the mean of samples and their standard deviation."""
    listed = np.array(list(values), np.float64)
    std = float(listed.std(ddof=1)) if listed.size > 1 else math.nan
    return PaperFigure(row, column, unit, float(listed.mean()), paper, std)


@dataclass(frozen=True)
class Effort:
    """Extent of an experiment.

    `seeds`: largest number of samples; `differs` of a reproduction states if the paper has more. `data`:
    folder of the real traces, if needed. `seed`: the first seed. `quick`: True for a smaller instance of the
    same kind, whose figures are not comparable with the paper's. `say`: function that is called with progress
    messages. `spread`: runner of experiments that are not timed; timed experiments run in this process, in
    sequence.
    """

    seeds: int = 3
    data: Path | None = None
    seed: int = 0
    quick: bool = False
    say: Callable[[str], None] = field(default=lambda line: None)
    spread: TaskRunner = field(default_factory=Here)

    def each(self, play: Callable[..., Any], cases: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Play cases, in parallel if the runner permits it, and return their results in order.

        `play` is a function of a module. It takes an effort, whose messages reach this process, and the
        values of a case.
        """
        plain = Effort(self.seeds, self.data, self.seed, self.quick, _silent)
        tasks = [Task(_name(play, case), _play, (plain, play, case)) for case in cases]
        ends = self.spread.each(tasks, lambda task, line: self.say(line))
        return [ended.result() for ended in ends]


def _silent(line: str) -> None:
    """Ignore a message, in an effort that is sent to another process."""


def _play(effort: Effort, play: Callable[..., Any], case: tuple[Any, ...], *, tell: Tell) -> Any:
    return play(replace(effort, say=tell), *case)


def _name(play: Callable[..., Any], case: tuple[Any, ...]) -> str:
    """Return a short text that names a case in error messages."""
    words = (str(part) for part in case if isinstance(part, str | int | float))
    return ", ".join((play.__name__.strip("_"), *words))


@dataclass(frozen=True)
class PaperClaim:
    """A claim of a paper, and the figure of a document with which it is compared.

    `says`: the claim, in the paper's terms. `printed`: its value as the paper prints it: a number, a range or
    a bound with its unit, such as "30-53%", "> 99%" or "24x". `read`: the compared value, if the paper prints
    words. `place`: section, table or figure. `row`, `column`: the measured figure; empty if there is none.
    `below`, `above`, `over`: another row; the measured value is then the percentage by which the figure is
    below or above the figure of that row, or its ratio to that figure. `other_column`: column of the other
    row, by default `column`. `better`: "more", "less", or "near" if a difference in either direction is
    worse. `share`: True for a percentage of a whole, whose distance from 100% is compared. `why`: reason to
    state if the claim is missed. `unlike`: reason why the values are not comparable; with it, the verdict is
    "not comparable", unless the claim is missed.
    """

    says: str
    printed: str
    place: str
    row: str = ""
    column: str = ""
    below: str = ""
    above: str = ""
    over: str = ""
    other_column: str = ""
    better: str = "more"
    share: bool = False
    read: str = ""
    why: str = ""
    unlike: str = ""


@dataclass(frozen=True)
class Reproduction:
    """Reproduction of a table or figure of a paper.

    `name`: paper, kind and number, such as "sia-table-3.3", as in `copter reproduce NAME`. `title`: subject.
    `source`: paper and place. `differs`: differences from the paper's set-up. `measure`: function from an
    :class:`Effort` to figures, in the order of the table.
    `needs_data`: True if it needs a folder of real traces. `minutes`: approximate minutes with three seeds.
    `seeds`: number of seeds of the document in this repository.
    `printed`: the paper's figures by row and column; the data of some papers contain further figures.
    `bounds`: "<", ">", "≤" or "≥" for figures that are bounds. `claims`: claims that the page of papers
    judges. `workloads`: largest number of distinct workloads. `deviations`: "samples" or "rounds", over which
    the standard deviations are taken.
    """

    name: str
    title: str
    source: str
    differs: str
    measure: Callable[[Effort], Sequence[PaperFigure]]
    needs_data: bool = False
    minutes: float = 1.0
    seeds: int = 3
    printed: Mapping[tuple[str, str], float] = field(default_factory=dict)
    bounds: Mapping[tuple[str, str], str] = field(default_factory=dict)
    claims: tuple[PaperClaim, ...] = ()
    workloads: int = sys.maxsize
    deviations: str = "samples"

    def played(self, seeds: int) -> int:
        """Return the number of distinct workloads that a measurement with a number of seeds plays."""
        return min(seeds, self.workloads)


@dataclass(frozen=True)
class _Measurement:
    """Function of a module, with the settings of a table; a call imports the module."""

    module: str
    function: str
    settings: Mapping[str, Any]
    quick: Mapping[str, Any]
    printed: Mapping[tuple[str, str], float]

    def __call__(self, effort: Effort) -> list[PaperFigure]:
        settings = _replaced(self.settings, self.quick) if effort.quick else dict(self.settings)
        printed = {} if effort.quick and not settings.pop("compared", True) else self.printed
        figures = getattr(import_module(self.module), self.function)(effort, **settings)
        return [replace(one, paper=printed.get((one.row, one.column), one.paper)) for one in figures]


def _replaced(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, updated by new settings; those that are mappings are merged."""
    both = {key: old[key] | new[key] for key in new if isinstance(old.get(key), dict)}
    return {**old, **new, **both}


def _cells(table: Sequence[Sequence[Any]]) -> dict[tuple[str, str], str]:
    """Return the cells that are not empty of a table with a head, by row and column."""
    return {
        (row, column): str(value)
        for row, *values in table[1:]
        for column, value in zip(table[0][1:], values, strict=True)
        if value != ""
    }


def _content(module: str) -> dict[str, Any]:
    """Return the sections of the table next to a module."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"no module named {module!r}")
    return tomllib.loads(Path(spec.origin).with_suffix(".toml").read_text(encoding="utf-8"))


def not_reproduced() -> dict[str, tuple[PaperClaim, ...]]:
    """Return the claims of the tables and figures that are not measured, by name."""
    listed = [
        each
        for entry in installed(GROUP).values()
        for each in _content(entry.value).get("not-reproduced", [])
    ]
    return {
        each["name"]: _claims(each["claims"], each["claimed_in"], {})
        for each in sorted(listed, key=itemgetter("name"))
    }


def read_table(module: str) -> list[Reproduction]:
    """Read the table next to a module, without importing it; raise ImportError if there is no such module."""
    content = _content(module)
    content.pop("not-reproduced", None)
    texts, defaults, found = content.pop("texts", {}), content.pop("defaults", {}), []
    for name, own in content.items():
        content[name] = settings = _replaced(content[own.pop("like")] if "like" in own else defaults, own)
        found.append(_reproduction(name, module, texts, dict(settings)))
    return found


def _reproduction(name: str, module: str, texts: Mapping[str, str], settings: dict[str, Any]) -> Reproduction:
    """Return the reproduction that a section of a table describes."""
    takes = {"minutes": 1.0, "seeds": 3, "data": False, **settings.pop("takes", {})}
    file, _, function = settings.pop("measure").rpartition(":")
    home = f"{module.rpartition('.')[0]}.{file}" if file else module
    title, source, differs = (settings.pop(key).format_map(texts) for key in ("title", "source", "differs"))
    cells, quick = _cells(settings.pop("printed", [[]])), settings.pop("quick", {})
    printed = {place: float(cell.lstrip(_BOUNDS)) for place, cell in cells.items()}
    bounds = {place: cell[0] for place, cell in cells.items() if cell[0] in _BOUNDS}
    place = settings.pop("claimed_in", source).format_map(texts)
    claims = _claims(settings.pop("claims", []), place, texts)
    return Reproduction(
        name,
        title,
        source,
        differs,
        _Measurement(home, function, settings, quick, printed),
        takes["data"],
        takes["minutes"],
        takes["seeds"],
        printed,
        bounds,
        claims,
        takes.get("workloads", settings.get("samples", sys.maxsize)),
        takes.get("deviations", "samples"),
    )


def _claims(
    listed: Iterable[Mapping[str, Any]], place: str, texts: Mapping[str, str]
) -> tuple[PaperClaim, ...]:
    """Return the claims of a section; `place` is the default of their places."""
    return tuple(
        PaperClaim(**{"place": place, **{key: _filled(value, texts) for key, value in claim.items()}})
        for claim in listed
    )


def _filled(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a text with the texts that it quotes filled in, or any other value unchanged."""
    return value.format_map(texts) if isinstance(value, str) else value


def reproductions() -> dict[str, Reproduction]:
    """Return all reproductions of the installed packages, by name.

    A package whose reproductions cannot be loaded causes a warning and does not affect other packages.
    """
    listed: list[Reproduction] = []
    for entry in installed(GROUP).values():
        try:
            listed.extend(read_table(entry.value))
        except Exception as error:  # another package's table may cause any error
            what = f"{type(error).__name__}: {error}"
            warnings.warn(f"no reproductions of {entry.name!r} ({entry.value}): {what}", stacklevel=2)
    return {one.name: one for one in sorted(listed, key=lambda one: one.name)}
