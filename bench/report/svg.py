"""Figures of matplotlib as SVG that stands within a page: text stays text, colours are variables of the page.

No display, no global state, nothing that a reader has to fetch.
"""

from __future__ import annotations

import io
import re
from html import escape

from copter.bench.report.looks import HUES
from copter.extras import extra

with extra("cli"):
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT_SIZE = 10.0
_VARIABLES = {light: name for name, (light, _) in HUES.items()}
_LEFT_OUT = (
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r'(?<=<g) id="[^"]*"'),
    re.compile(r"\n\s*"),
)


def blank(width: float = 4.6, height: float = 3.2) -> tuple[Figure, Axes]:
    """Return a figure of the one style that pictures of copter have: what is drawn, and a light grid.

    Parameters
    ----------
    width, height : float
        Inches.

    Returns
    -------
    (Figure, Axes)
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def themed(width: float = 4.6, height: float = 3.2) -> tuple[Figure, Axes]:
    """Return a blank figure in the hues that :func:`as_svg` leaves to the page.

    Parameters
    ----------
    width, height : float
        Inches.

    Returns
    -------
    (Figure, Axes)
    """
    ink, muted, line = (HUES[name][0] for name in ("ink", "muted", "line"))
    with mpl.rc_context({"font.size": FONT_SIZE, "text.color": ink, "axes.labelcolor": muted}):
        figure, axes = blank(width, height)
    axes.set_axisbelow(True)
    axes.grid(color=line, alpha=1.0, linewidth=0.7)
    axes.spines[:].set_color(line)
    axes.tick_params(which="both", color=line, labelcolor=muted, labelsize=FONT_SIZE - 1.0)
    axes.tick_params(which="minor", length=0)
    return figure, axes


def as_svg(figure: Figure, title: str) -> str:
    """Return a figure as an element of a page.

    Parameters
    ----------
    title : str
        What it shows, for those who do not see it, and what its inner names are made from: no two figures of
        a page have the same.

    Returns
    -------
    str
        The same for the same figure.
    """
    target = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": title, "svg.fonttype": "none", "font.size": FONT_SIZE}):
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
