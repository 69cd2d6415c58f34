"""Pictures of the report: lines over the size of a program, and rows with a mark for each solver.

A filled mark is an answer that the checker found to be within the tolerance, and a hollow mark is any other
answer.  A cross is a solver without an answer in time: it is drawn at the time limit, but the solver's true
time is longer.

A solver has the same style in every picture: the colour shows its origin, and mark and dash show the solver.
The hues are those of Okabe and Ito, which colour-blind readers can distinguish, and each hue has a lighter
version for dark pages.  Pictures are SVG elements of a page: text remains text, and every hue is a variable
of the page's style.  They need no display, no global state, and no other files.

Source: M. Okabe and K. Ito, *Color Universal Design*, 2008.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

from copter.bench.solvers import entrant
from copter.extras import extra

with extra("cli"):
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

_Dash: TypeAlias = Literal["-", "--", ":", "-.", ""]
Kind: TypeAlias = Literal["certified", "uncertified", "missed"]
_Shown: TypeAlias = Callable[[float], str]

#: For each variable of the style, its colour on light and on dark pages.
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
_DASHES: tuple[_Dash, ...] = ("-", "--", ":", "-.")
_MARKS = ("o", "^", "s", "D", "v", "P")


@dataclass(frozen=True)
class Look:
    """Style of a solver's curve: a hue of :data:`HUES`, matplotlib's mark and dash, and a width in points."""

    hue: str
    mark: str
    dash: _Dash
    width: float = 1.2

    @property
    def colour(self) -> str:
        """Colour on the light page."""
        return HUES[self.hue][0]


def looks(solvers: list[str]) -> dict[str, Look]:
    """Return the style of each solver of a report; solvers of the same hue differ by mark and dash."""
    taken: dict[str, int] = {}
    found = {}
    for solver in sorted(set(solvers)):
        hue = entrant(solver).house
        k = taken[hue] = taken.get(hue, -1) + 1
        width = 2.2 if solver == "copter" else 1.2
        found[solver] = Look(hue, _MARKS[k % len(_MARKS)], _DASHES[k % len(_DASHES)], width)
    return found


_FONT_SIZE = 10.0
_VARIABLES = {light: name for name, (light, _) in HUES.items()}
_LEFT_OUT = (
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r'(?<=<g) id="[^"]*"'),
    re.compile(r"\n\s*"),
)


def blank(width: float = 4.6, height: float = 3.2) -> tuple[Figure, Axes]:
    """Return a figure of the given size in inches, in the common style of copter's pictures."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def themed(width: float = 4.6, height: float = 3.2) -> tuple[Figure, Axes]:
    """Return a blank figure of the given size in inches, in the hues that :func:`as_svg` makes variable."""
    ink, muted, line = (HUES[name][0] for name in ("ink", "muted", "line"))
    with mpl.rc_context({"font.size": _FONT_SIZE, "text.color": ink, "axes.labelcolor": muted}):
        figure, axes = blank(width, height)
    axes.set_axisbelow(True)
    axes.grid(color=line, alpha=1.0, linewidth=0.7)
    axes.spines[:].set_color(line)
    axes.tick_params(which="both", color=line, labelcolor=muted, labelsize=_FONT_SIZE - 1.0)
    axes.tick_params(which="minor", length=0)
    return figure, axes


def as_svg(figure: Figure, title: str) -> str:
    """Return a figure as an SVG element; equal figures give equal elements.

    `title`: description for screen readers. It is also the base of internal names, so it must be unique on a
    page.
    """
    target = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": title, "svg.fonttype": "none", "font.size": _FONT_SIZE}):
        figure.savefig(target, format="svg", metadata={"Date": None}, transparent=True)
    text = target.getvalue()
    text = text[text.index("<svg") :].strip()
    for pattern in _LEFT_OUT:
        text = pattern.sub("", text)
    text = text.replace("xlink:href", "href").replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans'")
    text = re.sub(r"#[0-9a-f]{6}\b", lambda hue: _variable(hue[0]), text)
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    begin = f'<svg {box[0]} role="img"><title>{escape(title, quote=False)}</title>'
    return begin + text[text.index(">") + 1 :]


def _variable(hue: str) -> str:
    return f"var(--{_VARIABLES[hue]}, {hue})" if hue in _VARIABLES else hue


_SIZE = 5.0
_HEAD = 22
"""Largest number of letters in a line of a row's label."""


@dataclass(frozen=True)
class PlotPoint:
    """A median with its tail; `high`: end of the whisker, or NaN without a whisker."""

    x: float
    y: float
    high: float = math.nan
    kind: Kind = "certified"


@dataclass(frozen=True)
class Edge:
    """Label of an axis, and the function that formats its values."""

    label: str
    shown: _Shown


def over(
    title: str, series: Mapping[str, Sequence[PlotPoint]], styles: Mapping[str, Look], across: Edge, up: Edge
) -> str:
    """Return, as SVG, a picture with a line for each solver over the size, on two logarithmic axes.

    The title is not drawn; it is for screen readers.
    """
    figure, axes = themed(height=3.2 + 0.19 * math.ceil(len(series) / 3))
    axes.set_xscale("log")
    axes.set_yscale("log")
    # wider lines, copter's, are drawn last, above all other lines
    for rank, (solver, points) in enumerate(sorted(series.items(), key=lambda one: styles[one[0]].width)):
        look = styles[solver]
        there = [point for point in points if point.kind != "missed"]
        axes.plot(
            [p.x for p in there],
            [p.y for p in there],
            look.dash,
            color=look.colour,
            linewidth=look.width,
            zorder=3 + 0.01 * rank,
        )
        for point in points:
            _mark(axes, look, point)
            if math.isfinite(point.high) and point.high > point.y:
                axes.plot([point.x] * 2, [point.y, point.high], color=look.colour, linewidth=1.0, zorder=2.5)
    _axis(axes.xaxis, across)
    _axis(axes.yaxis, up)
    axes.margins(x=0.06, y=0.08)
    _legend(figure, list(series), styles, any(p.kind == "missed" for ps in series.values() for p in ps))
    return as_svg(figure, title)


def dots(
    title: str,
    rows: Sequence[tuple[str, Sequence[tuple[str, PlotPoint]]]],
    styles: Mapping[str, Look],
    across: Edge,
    *,
    mark: float | None = None,
) -> str:
    """Return, as SVG, a picture with a row for each label, and marks in the row on a logarithmic axis.

    `rows`: labels, each with the names and points of its marks; `x` is the position of a mark, and `high` the
    end of its whisker. `mark`: position of a vertical line. The title is not drawn; it is for screen readers.
    """
    solvers = list(dict.fromkeys(name for _, marks in rows for name, _ in marks))
    # marks of a row are drawn below each other, so that they can be distinguished
    lanes = max(len(marks) for _, marks in rows) if mark is None else 1
    broken = sum(len(head) > _HEAD for head, _ in rows)
    tall = len(rows) * max(0.27, 0.05 * lanes) + 0.12 * broken
    figure, axes = themed(height=1.0 + tall + 0.19 * math.ceil(len(solvers) / 3))
    axes.set_xscale("log")
    if mark is not None:
        axes.axvline(mark, color=HUES["muted"][0], linewidth=1.0, zorder=2)
    for k, (_, marks) in enumerate(rows):
        for lane, (solver, point) in enumerate(marks):
            y = k if lanes == 1 else k + 0.7 * ((lane + 0.5) / len(marks) - 0.5)
            _mark(axes, styles[solver], PlotPoint(point.x, y, kind=point.kind))
            if math.isfinite(point.high) and point.high > point.x:
                hue = styles[solver].colour
                axes.plot([point.x, point.high], [y, y], color=hue, linewidth=1.0, zorder=2.5)
    axes.set_yticks(range(len(rows)), [textwrap.fill(head, _HEAD) for head, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _axis(axes.xaxis, across)
    missed = any(point.kind == "missed" for _, marks in rows for _, point in marks)
    _legend(figure, solvers, styles, missed)
    return as_svg(figure, title)


def _mark(axes: Axes, look: Look, point: PlotPoint) -> None:
    face = look.colour if point.kind == "certified" else "none"
    shape = "x" if point.kind == "missed" else look.mark
    axes.plot(
        [point.x],
        [point.y],
        shape,
        color=look.colour,
        markerfacecolor=face,
        markersize=_SIZE,
        zorder=3.0 + look.width,
        clip_on=False,
    )


def _axis(axis: Axis, what: Edge) -> None:
    """Label a logarithmic axis with a few round values, in the units of its formatter."""
    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if low > 0.0 else 1.0
    subs = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0,)
    axis.set_major_locator(LogLocator(10.0, subs=subs, numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: what.shown(value)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(what.label)


def _legend(
    figure: Figure,
    solvers: Sequence[str],
    styles: Mapping[str, Look],
    missed: bool,
) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=styles[name].colour,
            linestyle=styles[name].dash,
            linewidth=styles[name].width,
            marker=styles[name].mark,
            markersize=_SIZE,
            label=name,
        )
        for name in solvers
    ]
    if missed:
        hue = HUES["muted"][0]
        handles.append(Line2D([], [], color=hue, linestyle="", marker="x", markersize=_SIZE, label="missed"))
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=3,
        fontsize=_FONT_SIZE - 1.0,
        frameon=False,
        handlelength=2.6,
        labelcolor=HUES["ink"][0],
    )
