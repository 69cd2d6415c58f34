"""Grid of reproduced figures: a row for every combination of the values of some axes, and ratios of rows.

A section of a table of reproductions (:mod:`copter.bench.reproduction`) describes a grid by these settings::

    row = "{rate} jobs an hour: {policy}"
    axes.rate = { 10 = { jobs = 80 }, 20 = { jobs = 160 } }
    axes.policy = ["Sia", "Pollux"]
    columns = ["average JCT"]
    derived = [
      { of = "{rate} jobs an hour: Sia", over = "{rate} jobs an hour: Pollux", column = "JCT below Pollux",
        field = "average JCT", how = "below" },
    ]

An axis is a list of values of the setting with the name of the axis, or a mapping from labels to several
settings.  A domain provides a function that plays a sample of a combination and returns its outcome: a value
for each column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.bench.reproduction import Effort, PaperFigure, mean_figure

_Outcome: TypeAlias = Mapping[str, float]
"""Values by column name."""
_Axes: TypeAlias = Mapping[str, Sequence[Any] | Mapping[str, Mapping[str, Any]]]
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "ratio": lambda value, base: value / base,
    "below": lambda value, base: 100.0 * (1.0 - value / base),
    "above": lambda value, base: 100.0 * (value / base - 1.0),
}


@dataclass(frozen=True)
class Derived:
    """Figures computed from the outcomes of rows, one for each combination of the axes in the texts.

    `column`, `row`: column and row of the figure, by default the row `of`. Combinations with the same column
    and row are pooled. `of`: a row, or several rows to average sample by sample. `over`: the row or rows with
    which `of` is compared; empty for the outcomes of `of` themselves. `field`: the compared column of the
    outcomes, by default `column` if they have it, else their first column. `how`: "ratio", or "below" or
    "above" for the percentage by which `of` is below or above `over`. `paired`: True to compare samples one
    by one, False to compare means. `pick`: "mean" of the pooled samples, or "least" or "most" of the means of
    the combinations. `itself`: True to compare a row also with itself.
    """

    column: str
    of: str | Sequence[str]
    over: str | Sequence[str] = ()
    row: str = ""
    field: str = ""
    how: str = "ratio"
    paired: bool = True
    pick: str = "mean"
    itself: bool = False


@dataclass(frozen=True)
class _Row:
    """Outcomes of a combination, and the paper's values for it."""

    labels: Mapping[str, Any]
    outcomes: Sequence[_Outcome]
    paper: _Outcome


def choices(axes: _Axes) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield (values for texts, settings) for every combination; the values are settings and labels."""
    listed = [
        [(name, label, settings) for label, settings in axis.items()]
        if isinstance(axis, Mapping)
        else [(name, value, {name: value}) for value in axis]
        for name, axis in axes.items()
    ]
    for picked in product(*listed):
        settings = {key: value for _, _, its in picked for key, value in its.items()}
        yield settings | {name: label for name, label, _ in picked}, settings


def grid(
    effort: Effort,
    play: Callable[..., _Outcome],
    units: Mapping[str, str],
    *,
    row: str,
    axes: _Axes,
    columns: Sequence[str] = (),
    derived: Sequence[Mapping[str, Any]] = (),
    samples: int | None = None,
    paper: Callable[..., _Outcome] | None = None,
    **shared: Any,
) -> list[PaperFigure]:
    """Play all combinations and return their rows and the derived figures.

    `play`: function of a module that takes an effort, the row, the number of the sample and the settings.
    `units`: units by column; that of the empty name is the default. `columns`: columns to show for each row,
    by default all, or none if figures are derived. `samples`: largest number of samples; a combination may
    have its own setting of this name. `paper`: function that returns the paper's values, given an effort and
    the settings of a row. `shared`: settings of all combinations. Raise ValueError if two combinations have
    the same row.
    """
    rows, cases = {}, []
    for labels, settings in choices(axes):
        case, name = shared | settings, row.format(**labels)
        if name in rows:
            raise ValueError(f"row = {name!r}: must be different for each combination of the axes")
        count = min(effort.seeds, case.pop("samples", samples) or effort.seeds)
        rows[name] = labels, count, paper(effort, **case) if paper is not None else {}
        cases += [(play, name, k, case) for k in range(count)]
    found = iter(effort.each(_play, cases))
    played = {
        name: _Row(labels, [next(found) for _ in range(count)], printed)
        for name, (labels, count, printed) in rows.items()
    }
    figures = []
    for name, one in played.items():
        for column in columns or ([] if derived else one.outcomes[0]):
            values = (outcome[column] for outcome in one.outcomes)
            unit = units.get(column, units.get("", ""))
            figures.append(mean_figure(name, column, unit, values, one.paper.get(column, math.nan)))
    for each in derived:
        figures += _derived(played, units, Derived(**each))
    return figures


def _play(
    effort: Effort, play: Callable[..., _Outcome], row: str, k: int, case: Mapping[str, Any]
) -> _Outcome:
    return play(effort, row, k, **case)


def _derived(played: Mapping[str, _Row], units: Mapping[str, str], one: Derived) -> list[PaperFigure]:
    """Return the derived figures of all combinations."""
    pools: dict[tuple[str, str], dict[tuple[tuple[str, ...], tuple[str, ...]], None]] = {}
    for labels in (played_row.labels for played_row in played.values()):
        of, over = (
            tuple(text.format(**labels) for text in ([texts] if isinstance(texts, str) else texts))
            for texts in (one.of, one.over)
        )
        if of != over or one.itself:
            row = one.row.format(**labels) if one.row else of[0]
            pools.setdefault((row, one.column.format(**labels)), {})[of, over] = None
    return [_pooled(played, units, one, *place, list(pairs)) for place, pairs in pools.items()]


def _pooled(
    played: Mapping[str, _Row],
    units: Mapping[str, str],
    one: Derived,
    row: str,
    column: str,
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
) -> PaperFigure:
    """Return a derived figure, from the rows and compared rows (`pairs`) of its combinations."""
    known = played[pairs[0][0][0]].outcomes[0]
    field = one.field or (column if column in known else next(iter(known)))
    values = [_samples(played, rows, field) for rows, _ in pairs]
    bases = [_samples(played, rows, field) for _, rows in pairs]
    bases = [np.where(base, base, math.nan) for base in bases]
    unit = units.get(field, "") if not one.over else "x" if one.how == "ratio" else "%"
    compare = _COMPARISONS[one.how] if one.over else lambda value, _: value
    if one.pick != "mean":
        means = [float(np.mean(compare(value, base))) for value, base in zip(values, bases, strict=True)]
        return PaperFigure(row, column, unit, min(means) if one.pick == "least" else max(means))
    value, base, paper = np.concatenate(values), np.concatenate(bases), _paper(played, one, field, pairs[0])
    if one.paired:
        return mean_figure(row, column, unit, compare(value, base), paper)
    return PaperFigure(row, column, unit, float(compare(value.mean(), base.mean())), paper)


def _samples(played: Mapping[str, _Row], rows: Sequence[str], field: str) -> NDArray[np.float64]:
    """Return a field of each sample, averaged over the rows; 1 without rows."""
    if not rows:
        return np.ones(1)
    return np.mean([[outcome[field] for outcome in played[row].outcomes] for row in rows], axis=0)


def _paper(
    played: Mapping[str, _Row], one: Derived, field: str, pair: tuple[Sequence[str], Sequence[str]]
) -> float:
    """Return a derived figure of the paper's values; NaN if a value is missing."""
    value, base = (
        [played[row].paper.get(field, math.nan) for row in rows] if rows else [1.0] for rows in pair
    )
    return float(_COMPARISONS[one.how](np.mean(value), np.mean(base)))
